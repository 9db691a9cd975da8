"""One cell of a grid: a run of a notebook with all its values, its folder, and what came of it."""

from dataclasses import dataclass
from pathlib import Path

from rndlib.running import reports, runs
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import Value

LINES = 40  # of the log, shown of a run without a result


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
        words = [self.notebook.name]
        for name, value in self.chosen.items():
            words.append(f"{name}=[{','.join(map(str, value))}]" if isinstance(value, list) else f"{name}={value}")
        if self.repeat is not None:
            words.append(f"seeds {self.repeat}")
        return " ".join(words)

    def place(self, folder: Path) -> Path:
        """Where in the folder of a batch its result and its log go."""
        return folder / "cells" / f"{self.notebook.name}-{self.key[:16]}"

    def result(self, folder: Path) -> Path:
        """The folder of its result, within its place."""
        return self.place(folder) / self.notebook.name

    def log(self, folder: Path) -> Path:
        """What the run prints on stdout and stderr."""
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
    """What came of a cell: a result, or none and the last lines of its log, which say why."""

    cell: Cell
    result: runs.Result | None
    log: str = ""

    @property
    def status(self) -> str:
        """`PASS` where it ran and every verdict holds, `FAIL` where one does not, else `no result`."""
        if self.result is None:
            return "no result"
        return "FAIL" if self.wrong else "PASS"

    @property
    def wrong(self) -> list[str]:
        """Why it is not `PASS`, one line per reason."""
        return self.log.splitlines()[-1:] if self.result is None else reports.unsettled([self.result])


def outcome(cell: Cell, folder: Path) -> Outcome:
    """The result of a cell, if it is whole, else the end of its log."""
    if result := runs.kept(cell.result(folder), cell.key):
        return Outcome(cell, result)
    try:
        lines = cell.log(folder).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = ["it was not started"]
    return Outcome(cell, None, "\n".join(lines[-LINES:] or ["it was killed"]))
