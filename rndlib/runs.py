"""Run a notebook into `results/NAME/`, and read back what has run.

A result is the executed notebook, `claims.json`, the figures, and `run.json` with what they were made with. It is
made under a hidden name and renamed when it is complete, so that a folder under its own name is always a whole
result. Starting a run discards the notebook's older result: after a failure there is none, rather than one that
passes for the new.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rndlib import ledger, provenance
from rndlib.notebooks import Notebook
from rndlib.parameters import UsageError, Value

FILE = "run.json"


@dataclass(frozen=True)
class Run:
    """What `run.json` says: the notebook as run, what it was run with, and what it cost.

    `started` is a UTC time in ISO 8601, `seconds` the wall time, `peak_memory` the bytes that the kernel held at
    most, `checkout` the commit (see `rndlib.provenance`).
    """

    notebook: str
    profile: str
    parameters: dict[str, Value]
    versions: dict[str, str]
    checkout: dict[str, Any] | None
    hardware: dict[str, Any]
    started: str
    seconds: float
    peak_memory: int


@dataclass(frozen=True)
class Result:
    """A folder under `results/`, with its run and its verdicts."""

    folder: Path
    run: Run
    verdicts: list[ledger.Verdict]


def run(
    notebook: Notebook,
    values: dict[str, Value],
    profile: str,
    results: Path,
    cell_timeout: int | None = None,
    progress: bool = False,
) -> Result:
    """Execute a notebook and keep its result in `results/NAME/`.

    Parameters
    ----------
    notebook: what to run.
    values: the value of every parameter, from `Notebook.settings`.
    profile: the profile they come from, for the record.
    results: the folder of all results; made if missing.
    cell_timeout: seconds that one cell may take; None for no limit.
    progress: whether to show a progress bar on stderr.

    Raises
    ------
    rndlib.execution.NotebookFailed: it did not run to its end, or left no readable `claims.json`.
    """
    from rndlib import execution  # Here, because importing papermill takes a second that `rndlib list` need not wait.

    final = results / notebook.name
    with _temporary(final) as folder:
        started, clock = datetime.now(UTC), time.monotonic()
        execution.execute(notebook, values, folder, cell_timeout, progress)
        try:
            ledger.read(folder / ledger.FILE)
        except (OSError, ValueError) as error:
            raise execution.NotebookFailed(f"{notebook.name} ran, but left no ledger of its claims: {error}") from error
        record = Run(
            notebook=notebook.name,
            profile=profile,
            parameters=values,
            versions=provenance.versions(),
            checkout=provenance.checkout(notebook.path.parent),
            hardware=provenance.hardware(),
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 1),
            peak_memory=execution.peak_memory(),
        )
        (folder / FILE).write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
        _discard(final)  # Another run of the same notebook may have ended meanwhile.
        folder.rename(final)
    return read(final)


def read(folder: Path) -> Result:
    """One result.

    Raises
    ------
    UsageError: a file of it is missing or not what a run writes.
    """
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if set(content) != {field.name for field in fields(Run)}:
            raise ValueError(f"{folder / FILE} does not have the fields of a run")
        return Result(folder, Run(**content), ledger.read(folder / ledger.FILE))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{folder} is not a whole result: {error}; delete it, or run the notebook again") from error


def read_all(results: Path) -> list[Result]:
    """Every result under `results`, by name.

    Raises
    ------
    UsageError: there is none, or one is not whole.
    """
    folders = sorted(path for path in results.glob("*/") if not path.name.startswith("."))
    if not folders:
        raise UsageError(f"no results in {results}: run a notebook first, as in `rndlib run 05`")
    return [read(folder) for folder in folders]


@contextmanager
def _temporary(final: Path) -> Iterator[Path]:
    """A new folder beside `final`, which is discarded first; removed at the end unless it was renamed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(".*.partial"):
        owner = re.fullmatch(r"\..+\.(\d+)\.partial", left.name)
        if owner and not _alive(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)
    _discard(final)
    folder = final.with_name(f".{final.name}.{os.getpid()}.partial")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _discard(result: Path) -> None:
    """Remove a result, under a hidden name from the first moment."""
    if result.exists():
        hidden = result.with_name(f".{result.name}.old.{os.getpid()}.partial")
        result.rename(hidden)
        shutil.rmtree(hidden)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
