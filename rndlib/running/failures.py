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

FILE = "failure.json"
TOO_LONG = 124  # exit code of a run over its time limit, as of timeout(1)
LATE = "took longer than its time limit, and was stopped"


@dataclass(frozen=True)
class Failure:
    """A run that left no result: how it failed, its message, and what it ran with, as far as that is known.

    `status` is one of failed, timed out, kernel died, killed, not run; the other fields are those of `runs.Run`.
    """

    status: str
    message: str
    started: str | None = None
    seconds: float = 0.0
    versions: dict[str, str] | None = None
    checkout: dict[str, Any] | None = None
    hardware: dict[str, Any] | None = None


@contextmanager
def recorded(place: Path) -> Iterator[None]:
    """Keep in the folder `place` how the run inside fails; where it does not, remove the record of an earlier one.

    A run that is interrupted or terminated has not failed. One that is killed leaves no record.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    try:
        yield
    except BaseException as error:
        if (why := _why(error)) is not None:
            failure = Failure(
                *why,
                started=started.isoformat(timespec="seconds"),
                seconds=round(time.monotonic() - clock, 1),
                versions=provenance.versions(),
                checkout=provenance.checkout(Path.cwd()),
                hardware=provenance.hardware(),
            )
            output.write(place / FILE, json.dumps(asdict(failure), indent=2).encode() + b"\n")
        raise
    (place / FILE).unlink(missing_ok=True)


def _why(error: BaseException) -> tuple[str, str] | None:
    """The status and message of a failure; None for an interrupt."""
    if isinstance(error, SystemExit):
        return ("timed out", LATE) if error.code == TOO_LONG else None
    from rndlib.running.execution import KernelDied  # Here, since importing papermill takes a second.

    return "kernel died" if isinstance(error, KernelDied) else "failed", str(error) or repr(error)
