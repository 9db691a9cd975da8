"""Run a notebook into `results/NAME/`, and read back what has run.

A result is the executed notebook, `claims.json`, the figures, `run.json` with what they were made with, and their
checksums. It is made under a hidden name, written to the disk, and renamed when it is complete, so that a folder under
its own name is always a whole result. Starting a run discards the notebook's older result: after a failure there is
none, rather than one that passes for the new.
"""

import hashlib
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

from rndlib import output
from rndlib.evidence import ledger
from rndlib.running import checksums, notebooks, provenance
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import UsageError, Value

FILE = "run.json"
LOCK = ".lock"  # in a folder of results, for `--once`


@dataclass(frozen=True)
class Run:
    """What `run.json` says: the notebook as run, what it was run with, and what it cost.

    `key` is a digest of what decides the result (see `key`), `started` a UTC time in ISO 8601, `seconds` the wall
    time, `peak_memory` the bytes that the kernel held at most, `checkout` the commit (see `rndlib.running.provenance`).
    """

    key: str
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


def key(notebook: Notebook, values: dict[str, Value], code: str) -> str:
    """A digest of what decides a result: the notebook's name and cells, its parameters, and `provenance.code()`."""
    decides = json.dumps([notebook.name, notebook.text, values, code], sort_keys=True)
    return hashlib.sha256(decides.encode()).hexdigest()


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
    rndlib.running.execution.NotebookFailed: it did not run to its end, left no readable `claims.json`, or the notebook
    or the
        library was changed meanwhile.
    OSError: the result cannot be written.
    """
    # Here, because importing papermill takes a second that `rndlib list` need not wait.
    from rndlib.running import execution

    final = results / notebook.name
    made = key(notebook, values, provenance.code())
    with _temporary(final) as folder:
        started, clock = datetime.now(UTC), time.monotonic()
        execution.execute(notebook, values, folder, cell_timeout, progress)
        try:
            ledger.read(folder / ledger.FILE)
        except (OSError, ValueError) as error:
            raise execution.NotebookFailed(f"{notebook.name} ran, but left no ledger of its claims: {error}") from error
        if key(notebooks.read(notebook.path), values, provenance.code()) != made:
            raise execution.NotebookFailed(f"{notebook.name} or rndlib was changed during the run: run it again")
        record = Run(
            key=made,
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
        output.write(folder / FILE, json.dumps(asdict(record), indent=2).encode() + b"\n")
        checksums.seal(folder)
        _discard(final)  # Another run of the same notebook may have ended meanwhile.
        folder.rename(final)
        output.settle(results)
    return read(final)


def read(folder: Path) -> Result:
    """One result.

    Raises
    ------
    UsageError: a file of it is missing, was changed, or is not what a run writes.
    """
    try:
        checksums.check(folder)
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if set(content) != {field.name for field in fields(Run)}:
            raise ValueError(f"{folder / FILE} does not have the fields of a run")
        return Result(folder, Run(**content), ledger.read(folder / ledger.FILE))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{folder} is not a whole result: {error}; delete it, or run the notebook again") from error


def kept(notebook: Notebook, values: dict[str, Value], results: Path) -> Result | None:
    """The whole result under `results` that a run would give again; None where there is none."""
    try:
        result = read(results / notebook.name)
    except UsageError:
        return None
    return result if result.run.key == key(notebook, values, provenance.code()) else None


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
        # A process in a container may well have the number of one before it.
        if owner and (int(owner[1]) == os.getpid() or not _alive(int(owner[1]))):
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
    try:  # One that has ended keeps its number until its parent asks how.
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return True
