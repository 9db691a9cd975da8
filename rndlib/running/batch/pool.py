"""Cells side by side, each in a process of its own on cores of its own.

What is there already is kept. A cell that another batch is at is left to it, and looked at again later. One that
fails does not stop the rest; a folder that takes no more files does.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue

from rndlib import cores, output
from rndlib.running import failures, locks, provenance, runs
from rndlib.running.batch import process
from rndlib.running.batch.cell import Cell, Outcome, outcome
from rndlib.running.exit_codes import UNWRITABLE

CELLS = "cells"  # the folder of all cells
LATER = 0.2  # seconds until a cell of another batch is looked at again
CHANGED = "ran another notebook or rndlib than the batch began with: were they changed? start the batch again"
SPARE = 30.0  # seconds beyond its limit after which a run that does not stop by itself is stopped


class Watcher:
    """Who is told how far the cells are; this one says nothing."""

    def started(self, cell: Cell) -> None:
        """A cell runs."""

    def ended(self, outcome: Outcome) -> None:
        """A cell has an outcome, from now or from an earlier session."""

    def tick(self) -> None:
        """Some time has passed."""


def run(cells: Sequence[Cell], folder: Path, session: str, jobs: int, watcher: Watcher) -> list[Outcome]:
    """Bring every cell to an outcome, in the order of the cells.

    Parameters
    ----------
    cells: what is to run; `folder` takes them, in `CELLS`.
    session: from `rndlib.running.batch.session`.
    jobs: how many run at once.
    watcher: told of each that starts and ends, from several threads.

    Raises
    ------
    OSError: the folder cannot be written; what runs is stopped first.
    """
    (folder / CELLS).mkdir(parents=True, exist_ok=True)
    shares = cores.shared(jobs)
    slots: SimpleQueue[list[int]] = SimpleQueue()
    for share in shares:
        slots.put(share)
    worker = _Worker(folder / CELLS, session, len(shares[0]), watcher)
    waiting, found = deque(cells), dict[str, Outcome]()
    running: dict[Future[Outcome | None], Cell] = {}
    # Threads, which only wait for the processes; on Linux each has cores of its own, which these inherit.
    with ThreadPoolExecutor(jobs, initializer=lambda: cores.pin(slots.get())) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.popleft()
                    running[pool.submit(worker, cell)] = cell
                done, _ = wait(running, timeout=process.TICK, return_when=FIRST_COMPLETED)
                for future in done:
                    cell = running.pop(future)
                    end = future.result()
                    if end is None:
                        waiting.append(cell)
                    else:
                        found[cell.key] = end
                        watcher.ended(end)
                watcher.tick()
        except BaseException:
            worker.stop.set()
            raise
    return [found[cell.key] for cell in cells]


class _Worker:
    """Runs one cell."""

    def __init__(self, place: Path, session: str, threads: int, watcher: Watcher):
        self.place, self.session, self.watcher = place, session, watcher
        self.environment = {**os.environ, **cores.threads(threads)}
        self.hardware = provenance.hardware()
        self.stop = threading.Event()

    def __call__(self, cell: Cell) -> Outcome | None:
        """The outcome of a cell; None while another batch is at it."""
        place = self.place / cell.name
        place.mkdir(exist_ok=True)
        try:
            lock = locks.take(place / runs.LOCK)
        except locks.Busy:
            self.stop.wait(LATER)
            return None
        try:
            return outcome(cell, place, self.session) or self._run(cell, place, lock)
        finally:
            os.close(lock)

    def _run(self, cell: Cell, place: Path, lock: int) -> Outcome | None:
        self.watcher.started(cell)
        attempt = failures.Attempt(cell.key, self.session, self.hardware)
        limit = None if cell.timeout is None else cell.timeout + SPARE
        command = [*process.rndlib(), *cell.command(place), "--tied"]
        ended = process.run(command, self.environment, lock, limit, self.stop)
        if self.stop.is_set():
            return None
        if ended.code == UNWRITABLE:
            raise output.Unwritable(ended.said.removeprefix("rndlib: "))
        found = outcome(cell, place, self.session)
        if found is not None:
            failures.forget(place)  # of an earlier session
            return found
        failure = attempt.failure(ended.code, ended.said if ended.code else CHANGED, ended.late)
        failure.write(place)
        return Outcome(cell, place, failure)
