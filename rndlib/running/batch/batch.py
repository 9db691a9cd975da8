"""A batch: read the grid, run what is missing, report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rndlib import cores
from rndlib.running import locks
from rndlib.running.batch import grid, pool, progress, report, session
from rndlib.running.batch.cell import Cell


def run(path: Path, folder: Path, jobs: int | None = None, timeout: float | None = None) -> bool:
    """Run the cells of a grid that `folder` has no result of, print the table, write the report.

    Parameters
    ----------
    path: the grid.
    folder: takes the cells and the report; made if missing.
    jobs: how many cells run at once; by default as many as there are cores, and no more than cells. Not how many are
        left: on other numbers of threads, numbers may differ in their last bits.
    timeout: seconds for cells to which the grid gives none.

    Returns
    -------
    Whether every cell ran and every verdict holds.

    Raises
    ------
    UsageError: the grid is wrong; nothing has run.
    OSError: the folder cannot be written.
    """
    cells = _cells(path, timeout)
    folder.mkdir(parents=True, exist_ok=True)
    jobs = jobs or min(len(cores.usable()), len(cells))
    with session.joined(folder) as name, progress.shown(len(cells)) as watcher:
        outcomes = pool.run(cells, folder, name, jobs, watcher)
        with locks.held(folder / ".report.lock", wait=True):
            page = report.write(path.stem, outcomes, folder)
    print(report.table(outcomes))
    passed = sum(outcome.status == "PASS" for outcome in outcomes)
    print(f"{path}: {passed} of {len(cells)} cells ran with every verdict as claimed; {page}")
    return report.holds(outcomes)


def jobs(path: Path, folder: Path, timeout: float | None = None) -> list[dict[str, Any]]:
    """Each cell for a scheduler: run in any order, anywhere, `run` then finds every result.

    Returns
    -------
    Objects with the keys `cell` (what tells it from the others), `command` (the arguments of `rndlib`), `result` (the
    folder that the command makes, whole) and `timeout` (seconds, or None).

    Raises
    ------
    UsageError: the grid is wrong.
    """
    return [_job(cell, folder / pool.CELLS / cell.name) for cell in _cells(path, timeout)]


def _job(cell: Cell, place: Path) -> dict[str, Any]:
    result = place / cell.notebook.name
    return {"cell": cell.label, "command": cell.command(place), "result": str(result), "timeout": cell.timeout}


def _cells(path: Path, timeout: float | None) -> list[Cell]:
    return [cell if cell.timeout else replace(cell, timeout=timeout) for cell in grid.read(path)]
