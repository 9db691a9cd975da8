"""How far a batch is: a live table on a terminal, a line at the end of each cell elsewhere."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rndlib.running.batch.cell import Cell, Outcome
from rndlib.running.batch.pool import Watcher


@contextmanager
def shown(cells: int) -> Iterator[Watcher]:
    """Inside, the progress of so many cells is shown on stderr."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Lines(cells)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveTable(cells, live)


class Lines(Watcher):
    """A line at the end of each cell."""

    def __init__(self, cells: int):
        self.cells, self.done = cells, 0

    def ended(self, outcome: Outcome) -> None:
        """Prints the line."""
        self.done += 1
        print(f"[{self.done}/{self.cells}] {line(outcome)}", file=sys.stderr, flush=True)


class LiveTable(Watcher):
    """How many cells are done and how they ended, and which are running; what went wrong stays above it."""

    def __init__(self, cells: int, live: Live):
        self.cells, self.live = cells, live
        self.counts = Counter[str]()
        self.running: dict[str, tuple[str, float]] = {}
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.ran = 0

    def started(self, cell: Cell) -> None:
        """Adds it to those that run."""
        with self.lock:
            self.running[cell.key] = cell.label, time.monotonic()

    def ended(self, outcome: Outcome) -> None:
        """Counts it."""
        with self.lock:
            self.ran += self.running.pop(outcome.cell.key, None) is not None
        self.counts[outcome.status] += 1
        if outcome.status != "PASS":
            self.live.console.print(Text(line(outcome)))

    def tick(self) -> None:
        """Draws it anew."""
        self.live.update(self.drawn(), refresh=True)

    def drawn(self) -> Group:
        """The table as it is now."""
        now = time.monotonic()
        with self.lock:
            running = list(self.running.values())
        done = self.counts.total()
        counts = [f"{count} {status}" for status, count in sorted(self.counts.items())]
        head = [f"{done} of {self.cells} cells", *counts, f"{_time(now - self.begun)} so far"]
        if self.ran and done < self.cells:
            head.append(f"about {_time((now - self.begun) / self.ran * (self.cells - done))} left")
        table = Table("running", "for", box=None, pad_edge=False)
        for label, since in running:
            table.add_row(Text(label), _time(now - since))
        return Group(Text(", ".join(head)), *([table] if running else []))


def line(outcome: Outcome) -> str:
    """One line on a cell that has ended."""
    wrong = f": {'; '.join(outcome.wrong)}" if outcome.wrong else ""
    return f"{outcome.cell.label}: {outcome.status}, {outcome.seconds:.0f} s{wrong}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
