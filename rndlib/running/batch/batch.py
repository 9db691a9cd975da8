"""A batch: read the grid, run the cells without a result, report."""

from dataclasses import replace
from pathlib import Path

from rndlib.running import locks
from rndlib.running.batch import engine, grid, report
from rndlib.running.batch.cell import Cell, outcome
from rndlib.running.failures import Failure


def run(
    path: Path,
    folder: Path,
    timeout: float | None = None,
    jobs: int | None = None,
    threads: int = 1,
    profile: str | None = None,
) -> bool:
    """Run the cells of a grid that `folder` has no result of, print the table, write the report.

    Parameters
    ----------
    path: the grid.
    folder: takes the cells and the report; made if missing. A second batch in it waits for the first one to end.
    timeout: seconds for cells to which the grid gives none.
    jobs: how many cells run at once; by default as many as there are cores for, or as the profile says.
    threads: how many threads a cell computes with, on which the last bits of numbers depend.
    profile: a folder whose `config.yaml` has options of Snakemake, or "slurm", the one that comes with rndlib; None to
        run on this machine.

    Returns
    -------
    Whether every cell ran and every verdict holds.

    Raises
    ------
    UsageError: the grid is wrong, or Snakemake is missing or cannot start; no cell has run.
    OSError: the folder cannot be written.
    """
    cells = _cells(path, timeout)
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder / ".lock") as lock:
        outcomes = [outcome(cell, folder) for cell in cells]
        missing = [found.cell for found in outcomes if isinstance(found.found, Failure)]
        if missing:
            engine.run(missing, folder, lock, jobs, threads, profile)
            outcomes = [outcome(cell, folder) for cell in cells]
        rows = report.rows(outcomes, folder)
        page = report.write(path.stem, outcomes, rows, folder)
    passed = sum(found.status == "PASS" for found in outcomes)
    print(report.table(rows))
    print(f"{path}: {passed} of {len(cells)} cells ran with every verdict as claimed; {page}")
    return passed == len(cells)


def commands(path: Path, folder: Path, timeout: float | None = None) -> list[list[str]]:
    """The arguments of `rndlib` that run each cell, in any order; `run` then finds every result.

    Raises
    ------
    UsageError: the grid is wrong.
    """
    return [cell.command(folder) for cell in _cells(path, timeout)]


def _cells(path: Path, timeout: float | None) -> list[Cell]:
    return [cell if cell.timeout else replace(cell, timeout=timeout) for cell in grid.read(path)]
