"""One cell of a grid: a run of a notebook with all its values, its folder, and what came of it."""

import json
from dataclasses import dataclass
from pathlib import Path

from rndlib.running import failures, reports, runs
from rndlib.running.failures import Failure
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import UsageError, Value

LINES = 40  # of a log, kept of a run that was killed


@dataclass(frozen=True)
class Cell:
    """A run that the grid asks for.

    `values` has every parameter, `chosen` those that the grid names, `repeat` the number of its seeds if it has one,
    `timeout` seconds. `key` is `runs.key`: another notebook, parameter, library or version gives another key and
    another folder.
    """

    notebook: Notebook
    profile: str
    values: dict[str, Value]
    chosen: dict[str, Value]
    repeat: int | None
    timeout: float | None
    key: str

    @property
    def label(self) -> str:
        """The notebook, and the values that the grid gives it."""
        chosen = [f"{name}={_shown(value)}" for name, value in self.chosen.items()]
        return " ".join([self.notebook.name, *chosen, *([] if self.repeat is None else [f"seeds {self.repeat}"])])

    def place(self, folder: Path) -> Path:
        """Where in the folder of a batch its result goes, or the record of its failure."""
        return folder / "cells" / f"{self.notebook.name}-{self.key[:16]}"

    def result(self, folder: Path) -> Path:
        """The folder of its result, within its place."""
        return self.place(folder) / self.notebook.name

    def log(self, folder: Path) -> Path:
        """What the run says on stdout and stderr."""
        return self.place(folder) / f"{self.notebook.name}.log"

    def command(self, folder: Path) -> list[str]:
        """The arguments of `rndlib` that run it."""
        start = self.notebook.settings(self.profile, [])
        arguments = ["run", self.notebook.name, "--profile", self.profile]
        for name, value in self.values.items():
            if value != start[name]:
                arguments += ["-p", name, self.notebook.parameter(name).text(value)]
        if self.timeout is not None:
            arguments += ["--timeout", str(self.timeout)]
        return [*arguments, "--results", str(self.place(folder)), "--once"]


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: a result or a failure."""

    cell: Cell
    found: runs.Result | Failure

    @property
    def status(self) -> str:
        """`PASS` where it ran and every verdict holds, `FAIL` where one does not, else the status of its failure."""
        if isinstance(self.found, Failure):
            return self.found.status
        return "FAIL" if self.wrong else "PASS"

    @property
    def wrong(self) -> list[str]:
        """Why it is not `PASS`, one line per reason."""
        if isinstance(self.found, Failure):
            return self.found.message.splitlines()[-1:]
        return reports.unsettled([self.found])


def outcome(cell: Cell, folder: Path) -> Outcome:
    """The result of a cell, if it is whole; else its last failure, as far as that is known."""
    try:
        result = runs.read(cell.result(folder))
        if result.run.key == cell.key:
            return Outcome(cell, result)
    except UsageError:
        pass
    try:
        record = json.loads((cell.place(folder) / failures.FILE).read_text(encoding="utf-8"))
        return Outcome(cell, Failure(**record))
    except (OSError, ValueError, TypeError):
        pass
    try:
        said = cell.log(folder).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Outcome(cell, Failure("not run", "it was not started"))
    lines = ["it was killed; the last that it said:", *said.splitlines()[-LINES:]]
    return Outcome(cell, Failure("killed", "\n".join(lines if said else ["it was killed"])))


def _shown(value: Value) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)
