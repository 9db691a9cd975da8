"""Run a notebook into `results/NAME/`, and read back what has run.

A result is the executed notebook, `claims.json`, the figures, `run.json` with what they were made with, and their
checksums. It is made in a hidden folder and renamed when it is complete, so that a folder under its own name is always
a whole result. A run discards the older result of its notebook first: after a failure there is none, rather than one
that passes for the new.
"""

import hashlib
import json
import shutil
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rndlib import output
from rndlib.paper.evidence import ledger
from rndlib.running import checksums, locks, notebooks, provenance
from rndlib.running.notebooks import Notebook, NotebookFailed
from rndlib.running.parameters import UsageError, Value

FILE = "run.json"


@dataclass(frozen=True)
class Run:
    """What `run.json` says: the notebook as run, what it was run with, and what it cost.

    `key` is a digest of what decides the result (see `key`), `started` a UTC time in ISO 8601, `seconds` the wall
    time, `peak_memory` the most bytes that the kernel held, `checkout` the commit (see `rndlib.running.provenance`).
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


def run(notebook: Notebook, values: dict[str, Value], profile: str, results: Path, once: bool = False) -> Result:
    """Execute a notebook with the value of every parameter, and keep its result in `results/NAME/`, made if missing.

    `profile` is where the values come from, for the record. With `once`, a whole result of the same key is returned as
    it is. Raises NotebookFailed if it did not run to its end or left no readable `claims.json`, or if it or the library
    was changed meanwhile; OSError if the result cannot be written.
    """
    # Here, because importing papermill takes seconds that `rndlib list` need not wait.
    from rndlib.running import execution

    final = results / notebook.name
    made = key(notebook, values, provenance.code())
    results.mkdir(parents=True, exist_ok=True)
    with locks.held(results / f".{notebook.name}.lock"):
        if once and (result := kept(final, made)):
            return result
        for left in results.glob(f".{notebook.name}.*.partial"):  # A run that was killed could not tidy up.
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix=f".{notebook.name}.", suffix=".partial", dir=results) as temporary:
            if final.exists():
                final.rename(Path(temporary) / "older")
            folder = Path(temporary) / notebook.name
            folder.mkdir()
            started, clock = datetime.now(UTC), time.monotonic()
            execution.execute(notebook, values, folder)
            try:
                ledger.read(folder / ledger.FILE)
            except (OSError, ValueError) as error:
                raise NotebookFailed(f"{notebook.name} ran, but left no ledger of its claims: {error}") from error
            if key(notebooks.read(notebook.path), values, provenance.code()) != made:
                raise NotebookFailed(f"{notebook.name} or rndlib was changed during the run: run it again")
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
            folder.rename(final)
    return read(final)


def read(folder: Path) -> Result:
    """One result; a UsageError if a file of it is missing, was changed, or is not what a run writes."""
    try:
        checksums.check(folder)
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if set(content) != {field.name for field in fields(Run)}:
            raise ValueError(f"{folder / FILE} does not have the fields of a run")
        return Result(folder, Run(**content), ledger.read(folder / ledger.FILE))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{folder} is not a whole result: {error}; delete it, or run the notebook again") from error


def read_all(results: Path) -> list[Result]:
    """Every result under `results`, by name; a UsageError if there is none, or one is not whole."""
    folders = sorted(path for path in results.glob("*/") if not path.name.startswith("."))
    if not folders:
        raise UsageError(f"no results in {results}: run a notebook first, as in `rndlib run 05`")
    return [read(folder) for folder in folders]


def kept(folder: Path, made: str) -> Result | None:
    """The result in a folder, if it is whole and of this key."""
    try:
        result = read(folder)
    except UsageError:
        return None
    return result if result.run.key == made else None
