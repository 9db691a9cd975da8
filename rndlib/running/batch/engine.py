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
from rndlib.running import checksums, failures
from rndlib.running.batch.cell import Cell
from rndlib.running.parameters import UsageError

HERE = Path(__file__).resolve().parent
QUEUE, LOG = "queue.json", "snakemake.log"  # in the folder of the batch
TICK = 0.5  # seconds between two looks at it
GRACE = 60.0  # seconds to end by itself, in which it cancels the jobs of a cluster


def run(cells: Sequence[Cell], folder: Path, lock: int, jobs: int | None, threads: int, profile: str | None) -> None:
    """Run cells to their results or failures.

    Parameters
    ----------
    cells: those without a whole result in `folder`.
    folder: of the batch; Snakemake's working directory.
    lock: descriptor of the folder's lock. Snakemake inherits it, so the lock lasts until both processes have ended.
    jobs, threads, profile: see `rndlib.running.batch.batch.run`.

    Raises
    ------
    UsageError: Snakemake or the profile is missing, or Snakemake ended before any cell began.
    OSError: the folder cannot be written.
    """
    command = [snakemake(), *_arguments(folder, jobs, threads, profile)]
    for cell in cells:  # A damaged result becomes a missing one; earlier failures are forgotten.
        for old in (cell.result(folder) / checksums.FILE, cell.place(folder) / failures.FILE, cell.log(folder)):
            old.unlink(missing_ok=True)
    queue = [_job(cell, folder.resolve()) for cell in cells]
    output.write(folder / QUEUE, json.dumps(queue, indent=1).encode())
    with (folder / LOG).open("wb") as log:
        process = _started(command, log.fileno(), lock)
        try:
            _watch(process, cells, folder)
        except BaseException:
            _stop(process)
            raise
    if not any(cell.log(folder).exists() for cell in cells):
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {process.returncode}")
        raise UsageError(f"Snakemake ran no cell: {last}; look into {folder / LOG}")


def snakemake() -> str:
    """The path of Snakemake: RNDLIB_SNAKEMAKE, in this environment, in the checkout's own for it, or on PATH.

    Raises
    ------
    UsageError: there is none.
    """
    checkout = HERE.parent.parent.parent
    places = [Path(sys.executable).parent / "snakemake", checkout / ".venv-workflow" / "bin" / "snakemake"]
    named = os.environ.get("RNDLIB_SNAKEMAKE")
    found = shutil.which(named or next((str(place) for place in places if place.exists()), "snakemake"))
    if found is None:
        raise UsageError(
            f"batches need Snakemake, and {named or 'snakemake'} was not found: pip install 'rndlib[batch]' or, in a "
            "checkout, ci/bootstrap .venv-workflow; or let the variable RNDLIB_SNAKEMAKE name one"
        )
    return found


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
    command = shlex.join([*rndlib(), *cell.command(folder)])
    return {
        "result": cell.result(folder).relative_to(folder).as_posix(),
        "label": cell.label,
        "command": f"cd {shlex.quote(str(Path.cwd()))} && {command}",
        "timeout": cell.timeout,
    }


def rndlib() -> list[str]:
    """The command line of this rndlib, in this interpreter."""
    return [sys.executable, "-m", "rndlib"]


def _started(command: list[str], log: int, lock: int) -> subprocess.Popen[bytes]:
    # In a group of its own, or Ctrl-C would reach it twice. Where interrupts are ignored, as in the background of a
    # script, it would inherit that and could not be interrupted either; a handler is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock], start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(process: subprocess.Popen[bytes], cells: Sequence[Cell], folder: Path) -> None:
    """Wait for it to end; on a terminal, show how many cells have a result or have failed."""
    with tqdm(total=len(cells), unit="cell", disable=not sys.stderr.isatty()) as bar:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(TICK)
            if not bar.disable:
                failed = sum((cell.place(folder) / failures.FILE).exists() for cell in cells)
                bar.n = failed + sum((cell.result(folder) / checksums.FILE).exists() for cell in cells)
                bar.set_postfix_str(f"{failed} failed" if failed else "")


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(GRACE)
    except BaseException:  # It takes too long, or there was a second Ctrl-C.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
