"""Snakemake as a process of its own: found, started, watched, and stopped with everything that it started."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from rndlib import cores, output
from rndlib.running import checksums
from rndlib.running.batch.cell import Cell
from rndlib.running.parameters import UsageError

RNDLIB = [sys.executable, "-m", "rndlib"]  # the command line of this rndlib, in this interpreter
HERE = Path(__file__).resolve().parent
QUEUE, LOG = "queue.json", "snakemake.log"  # in the folder of the batch
TICK = 0.5  # seconds between two looks at it
GRACE = 60.0  # seconds to end by itself, in which it cancels the jobs of a cluster


def run(cells: Sequence[Cell], folder: Path, lock: int, jobs: int | None, threads: int, profile: str | None) -> None:
    """Run cells that have no whole result in the folder of a batch; the rest is as for `batch.run`.

    Snakemake inherits the descriptor `lock`, so that the folder stays locked until both processes have ended. Raises
    UsageError if Snakemake or the profile is missing, or Snakemake ended before any cell began.
    """
    command = [snakemake(), *_arguments(folder, jobs, threads, profile)]
    for cell in cells:  # A damaged result becomes a missing one; earlier failures are forgotten.
        (cell.result(folder) / checksums.FILE).unlink(missing_ok=True)
        cell.log(folder).unlink(missing_ok=True)
    queue = [_job(cell, folder.resolve()) for cell in cells]
    output.write(folder / QUEUE, json.dumps(queue, indent=1).encode())
    with (folder / LOG).open("wb") as log:
        # In a session of its own, or Ctrl-C would reach it twice.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock], start_new_session=True
        )
        try:
            with tqdm(total=len(cells), unit="cell", disable=None) as bar:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(TICK)
                    bar.n = sum((cell.result(folder) / checksums.FILE).exists() for cell in cells)
                    bar.refresh()
        except BaseException:
            stop(process)
            raise
    if not any(cell.log(folder).exists() for cell in cells):
        last = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise UsageError(f"Snakemake ran no cell: {last}; look into {folder / LOG}")


def snakemake() -> str:
    """The path of Snakemake: RNDLIB_SNAKEMAKE, in this environment, in the checkout's own, on PATH; or a UsageError."""
    places = [Path(sys.executable).parent, HERE.parent.parent.parent / ".venv-workflow" / "bin"]
    path = os.pathsep.join([*map(str, places), os.environ.get("PATH", os.defpath)])
    named = os.environ.get("RNDLIB_SNAKEMAKE", "snakemake")
    program = shutil.which(named, path=path)
    if program is None:
        raise UsageError(
            f"batches need Snakemake, and {named} was not found: pip install 'rndlib[batch]' or, in a checkout, "
            "ci/bootstrap .venv-workflow; or let the variable RNDLIB_SNAKEMAKE name one"
        )
    return program


def _arguments(folder: Path, jobs: int | None, threads: int, profile: str | None) -> list[str]:
    # Snakemake's own lock is not needed, and outlives a Snakemake that is killed.
    arguments = ["--nolock", "--keep-going", "--rerun-incomplete", "--nocolor", "--scheduler", "greedy"]
    arguments += ["--snakefile", str(HERE / "Snakefile"), "--directory", str(folder.resolve())]
    if profile is None:
        jobs = jobs or max(1, len(cores.usable()) // threads)
        arguments += ["--workflow-profile", "none", "--cores", str(jobs * threads)]
    else:
        place = HERE / "slurm" if profile == "slurm" else Path(profile).resolve()
        if not (place / "config.yaml").is_file():
            raise UsageError(f"--workflow-profile {profile}: has no config.yaml: name slurm, or a folder with one")
        arguments += ["--workflow-profile", str(place), *([] if jobs is None else ["--jobs", str(jobs)])]
    return [*arguments, "--config", f"threads={threads}"]


def _job(cell: Cell, folder: Path) -> dict[str, object]:
    """What the Snakefile needs to know of a cell."""
    command = shlex.join([*RNDLIB, *cell.command(folder)])
    return {
        "result": cell.result(folder).relative_to(folder).as_posix(),
        "label": cell.label,
        "command": f"cd {shlex.quote(str(Path.cwd()))} && {command}",
        "timeout": cell.timeout,
    }


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt it with everything that it started; kill all of them after a while, or at a second Ctrl-C."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(GRACE)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
