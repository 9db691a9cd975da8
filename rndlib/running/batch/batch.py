"""A batch: read the grid, run the cells without a result, report."""

from pathlib import Path

from rndlib.running import locks
from rndlib.running.batch import engine, grid, report
from rndlib.running.batch.cell import outcome


def run(path: Path, folder: Path, jobs: int | None = None, threads: int = 1, profile: str | None = None) -> bool:
    """Run the cells of a grid that `folder` has no result of, print the table, write the report.

    Returns whether every cell ran and every verdict holds. A second batch in the folder waits for the first one to end.
    At most `jobs` cells run at once, by default as many as there are cores for, or as the profile says; each computes
    with `threads` threads. `profile` is a folder whose `config.yaml` has options of Snakemake, or "slurm", the one that
    comes with rndlib; None runs on this machine. Raises UsageError if the grid is wrong, or Snakemake is missing or
    cannot start, and no cell has run; OSError if the folder cannot be written.
    """
    cells = grid.read(path)
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder / ".lock") as lock:
        outcomes = [outcome(cell, folder) for cell in cells]
        missing = [each.cell for each in outcomes if each.result is None]
        if missing:
            engine.run(missing, folder, lock, jobs, threads, profile)
            outcomes = [outcome(cell, folder) for cell in cells]
        page = report.write(path.stem, outcomes, folder)
    passed = sum(each.status == "PASS" for each in outcomes)
    print(report.table(outcomes))
    print(f"{path}: {passed} of {len(cells)} cells ran with every verdict as claimed; {page}")
    return passed == len(cells)
