"""A project with one tiny notebook, for the tests of runs and batches."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from unittest import mock

import psutil
import pytest
import without_kernels

from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.claims import Claim
from rndlib.running import checksums, provenance, runs
from rndlib.running.batch import grid
from rndlib.running.batch.cell import Cell
from rndlib.running.cli import main

NAME = "01_judge"
PARAMETERS = """\
width: int = 64  # units; the claim is that they are at most 100
rate: float = 1e-3  # step size
seed: int = 0  # of the numbers
pause: float = 0.0  # seconds between start and end
mode: str = ""  # how to fail: raise, die, hang, fill
"""
# Keeps a record of what was begun and ended, outside of its results.
JUDGE = """\
import json, os, random, signal, subprocess, time
from pathlib import Path
folder = Path(os.environ["RNDLIB_OUTPUT"])
def note(word):
    with open({log!r}, "a") as log:
        log.write(f"{{word}} {{width}} {{rate}} {{seed}}\\n")
note("begun")
time.sleep(pause)
if mode == "raise" and not os.path.exists({mended!r}):
    raise RuntimeError("a telling message")
if mode == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "hang":
    child = subprocess.Popen(["sleep", "600"])
    Path({log!r}).with_name("child").write_text(str(child.pid))
    time.sleep(600)
if mode == "fill":
    from rndlib import output
    output.write(folder / "large.bin", bytes(3_000_000))  # Leaves the disk as it was, where there is too little room.
numbers = random.Random(f"{{width}} {{rate}} {{seed}}")
claim = dict(id="Z1", statement="width is at most 100", notebook="01_judge", source="here", statistic="width over 100",
             unit="none", kind="rate", value=width / 100 + 1e-6 * numbers.random(), interval=None, tolerance=1.0,
             passed=width < 100, control="1000", control_value=10.0, control_rejected=True,
             near="120", near_value=1.2, near_rejected=True)
(folder / "claims.json").write_text(json.dumps({{"claims": [claim]}}))
(folder / "fig1.png").write_bytes(numbers.randbytes(20_000))
print("found", numbers.random())
note("ended")
"""


def project(place: Path) -> Path:
    """Make the project in `place`."""
    import nbformat.v4 as nb

    judge = JUDGE.format(log=str(place / "log"), mended=str(place / "mended"))
    cells = [
        nb.new_markdown_cell("# A judge"),
        nb.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nb.new_code_cell(judge),
    ]
    node = nb.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "gone", "display_name": "Gone", "language": "python"}}
    )
    (place / "notebooks").mkdir()
    (place / "notebooks" / f"{NAME}.ipynb").write_text(nb.writes(node), encoding="utf-8")
    (place / "notebooks" / "profiles.toml").write_text(f'["{NAME}".smoke]\nwidth = 8\n', encoding="utf-8")
    return place


def prepare(path: Path, batch: Path, value: Callable[[Cell], float] = lambda cell: 0.5) -> list[Cell]:
    """Put a result of each cell of a grid into the folder of its batch.

    value: what is judged against a tolerance of 1.
    """
    cells = grid.read(path)
    machine = provenance.hardware()
    for cell in cells:
        folder = cell.result(batch)
        folder.mkdir(parents=True)
        claim = Claim("Z1", "a statement", "here", NAME, "n", "", "none", "rate", 1.0, "", "wrong", "a slip")
        verdict = ledger.Verdict(claim, value(cell), None, control_value=2.0, near_value=2.0)
        run = runs.Run(
            cell.key, NAME, cell.profile, cell.values, {"python": "3"}, None, machine, "2026-01-01T00:00:00", 0.1, 1
        )
        (folder / runs.FILE).write_text(json.dumps(asdict(run)))
        (folder / ledger.FILE).write_text(json.dumps({"claims": [verdict.row()]}))
        (folder / f"{NAME}.ipynb").write_text("{}", encoding="utf-8")
        checksums.seal(folder)
    return cells


# A shell that may mount file systems of its own.
MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
can_mount = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*MOUNT, "mount -t tmpfs none /mnt"], capture_output=True).returncode != 0,
    reason="needs to mount a file system",
)

# A command in a network of its own, whose loopback is down.
NETWORK = ["unshare", "--user", "--map-root-user", "--net"]
can_have_a_network = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*NETWORK, "true"], capture_output=True).returncode != 0,
    reason="needs a network of its own",
)


def command(kernels: bool) -> list[str]:
    """The command line, with kernels or without."""
    if kernels:
        return [sys.executable, "-m", "rndlib"]
    return [sys.executable, str(Path(__file__).with_name("without_kernels.py"))]


def start(place: Path, *arguments: str, kernels: bool = False) -> subprocess.Popen[str]:
    """The command line in a project, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "RNDLIB_OUTPUT"}
    return subprocess.Popen(
        [*command(kernels), *arguments],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_a_terminal(place: Path, command: list[str]) -> tuple[int, str, str]:
    """A command in a project: its exit code, what it prints on stdout, and what a terminal shows of stderr."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))  # One without columns shows no progress.
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux reports the end of a terminal so.
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out, shown.decode()


def call(place: Path, *arguments: str, kernels: bool = False) -> tuple[int, str, str]:
    """The command line in a project, in this process: its exit code, and what it prints on stdout and stderr."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    try:
        with (
            mock.patch.dict(os.environ),
            nullcontext() if kernels else without_kernels.installed(),
            chdir(place),
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
        ):
            code = main(arguments)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def content(result: Path) -> dict[str, object]:
    """What two runs of the same must share to the last bit: all but times, places and the machine."""
    files: dict[str, object] = {
        path.relative_to(result).as_posix(): path.read_bytes()
        for path in result.rglob("*")
        if path.is_file() and path.name not in ("run.json", "SHA256SUMS") and path.suffix != ".ipynb"
    }
    cells = json.loads((result / f"{result.name}.ipynb").read_text(encoding="utf-8"))["cells"]
    run = json.loads((result / "run.json").read_text(encoding="utf-8"))
    files["outputs"] = [cell.get("outputs") for cell in cells]
    files["run"] = {key: run[key] for key in ("key", "notebook", "profile", "parameters", "versions")}
    return files


def contents(batch: Path) -> dict[str, dict[str, object]]:
    """The content of every cell of a batch that has a result."""
    return {path.parent.name: content(path) for path in batch.glob(f"cells/*/{NAME}")}


def begun(place: Path) -> list[str]:
    """What the notebook has noted."""
    log = place / "log"
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    """Wait for a condition, while a process runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
