"""How a run that left no result failed, kept beside where the result would be."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rndlib import output
from rndlib.running import provenance
from rndlib.running.exit_codes import KERNEL_DIED, TOO_LONG

FILE = "failure.json"
ALONE = ""  # the session of a run that no batch has started
LATE = "took longer than its time limit, and was stopped"


@dataclass(frozen=True)
class Failure:
    """A run that left no result: in which session, in what way, what it said, when and where it was.

    `key` is that of the result (`rndlib.running.runs.key`); `status` is one of failed, timed out, kernel died, killed.
    """

    key: str
    session: str
    status: str
    message: str
    started: str
    seconds: float
    hardware: dict[str, Any]

    def write(self, place: Path) -> None:
        """Keep it in a folder of results."""
        output.write(place / FILE, json.dumps(asdict(self), indent=2).encode() + b"\n")


class Attempt:
    """A run from its start on."""

    def __init__(self, key: str, session: str, hardware: dict[str, Any]):
        self.key, self.session, self.hardware = key, session, hardware
        self.started, self.clock = datetime.now(UTC), time.monotonic()

    def failure(self, code: int, message: str, late: bool = False) -> Failure:
        """What there is to keep of it, now that it has ended.

        code: of its exit, or minus the signal that killed it. late: it had to be stopped at its limit.
        """
        return Failure(
            key=self.key,
            session=self.session,
            status=_status(code, late),
            message=message,
            started=self.started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self.clock, 1),
            hardware=self.hardware,
        )


@contextmanager
def recorded(key: str, place: Path) -> Iterator[None]:
    """Keep in `place` how a run that no batch watches fails, as a batch does; where it does not, forget an earlier one.

    One that is interrupted or terminated has not failed. One that is killed leaves no word.
    """
    from rndlib.running.execution import KernelDied, NotebookFailed  # Here, since importing papermill takes a second.

    attempt = Attempt(key, ALONE, provenance.hardware())
    try:
        yield
    except NotebookFailed as error:
        attempt.failure(KERNEL_DIED if isinstance(error, KernelDied) else 1, f"rndlib: {error}").write(place)
        raise
    except SystemExit as left:
        if left.code == TOO_LONG:
            attempt.failure(TOO_LONG, f"rndlib: {LATE}").write(place)
        raise
    forget(place)


def forget(place: Path) -> None:
    """Remove the record, as there is a result now."""
    (place / FILE).unlink(missing_ok=True)


def _status(code: int, late: bool) -> str:
    if late or code == TOO_LONG:
        return "timed out"
    if code < 0:
        return "killed"
    return "kernel died" if code == KERNEL_DIED else "failed"
