"""One cell of a grid: a run of a notebook with all its values, its folder, and what came of it."""

import json
from dataclasses import dataclass
from pathlib import Path

from rndlib.running import failures, reports, runs
from rndlib.running.failures import Failure
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import UsageError, Value


@dataclass(frozen=True)
class Cell:
    """A run that the grid asks for.

    `values` has every parameter, `chosen` those that the grid names, `repeat` the number of its seeds if it has one,
    `overrides` what differs from the profile, as on a command line. `key` is `runs.key`: with another notebook,
    parameter, library or version it is another, and so is the folder.
    """

    notebook: Notebook
    profile: str
    values: dict[str, Value]
    chosen: dict[str, Value]
    repeat: int | None
    overrides: dict[str, str]
    timeout: float | None
    key: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.notebook.name}-{self.key[:16]}"

    @property
    def label(self) -> str:
        """What tells it from the other cells of its notebook."""
        chosen = [f"{name}={_shown(value)}" for name, value in self.chosen.items()]
        return " ".join([self.notebook.name, *chosen, *([] if self.repeat is None else [f"seeds {self.repeat}"])])

    def command(self, place: Path) -> list[str]:
        """The arguments of `rndlib` that run it into `place`, once."""
        overrides = [word for name, text in self.overrides.items() for word in ("-p", name, text)]
        limit = [] if self.timeout is None else ["--timeout", str(self.timeout)]
        return [
            "run", self.notebook.name, "--profile", self.profile, *overrides, *limit, "--results", str(place), "--once",
        ]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: a result or a failure."""

    cell: Cell
    place: Path
    found: runs.Result | Failure

    @property
    def status(self) -> str:
        """`PASS` where it ran and every verdict holds, `FAIL` where one does not, or in what way it failed."""
        if isinstance(self.found, Failure):
            return self.found.status
        return "FAIL" if self.wrong else "PASS"

    @property
    def wrong(self) -> list[str]:
        """What keeps it from holding, a line each."""
        if isinstance(self.found, Failure):
            return [line.removeprefix("rndlib: ") for line in self.found.message.splitlines()[-1:]]
        return reports.unsettled([self.found])

    @property
    def seconds(self) -> float:
        """Wall time."""
        return self.found.seconds if isinstance(self.found, Failure) else self.found.run.seconds


def outcome(cell: Cell, place: Path, session: str) -> Outcome | None:
    """What is known of a cell: its result, if whole, or how it failed in this session; None where it is to be run."""
    try:
        result = runs.read(place / cell.notebook.name)
        if result.run.key == cell.key:
            return Outcome(cell, place, result)
    except UsageError:
        pass
    try:
        failure = Failure(**json.loads((place / failures.FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return Outcome(cell, place, failure) if (failure.key, failure.session) == (cell.key, session) else None


def _shown(value: Value) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)
