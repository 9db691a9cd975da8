"""One run as a process of its own: started, watched, and stopped with everything that it started."""

import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

LINES = 40  # kept of what it says
TICK = 0.5  # seconds between two looks at it
GRACE = 15.0  # seconds to end by itself


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (minus the number of the signal that killed it), its last lines, and whether
    it had to be stopped at its limit.
    """

    code: int
    said: str
    late: bool


def run(
    command: Sequence[str], environment: dict[str, str], keep: int, limit: float | None, stop: threading.Event
) -> Ended:
    """Run a command to its end, in a process group of its own.

    It is asked to end when `stop` is set and killed when it then takes too long, together with every process that it
    or one of these has started. Its stdin stays open as long as this process lives.

    Parameters
    ----------
    command: program and arguments.
    environment: its environment variables.
    keep: descriptor of a lock that it inherits, so that the lock lasts as long as either of the two.
    limit: seconds after which it is stopped; None for none.
    stop: set where it is to end early.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=[keep],
        start_new_session=True,
        text=True,
        errors="replace",
    )
    lines: deque[str] = deque(maxlen=LINES)
    # A thread, since a process that is left over may keep the pipe open for longer than its parent lives.
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    family: set[psutil.Process] = set()
    try:
        _wait(process, None if limit is None else time.monotonic() + limit, stop, family)
        late = process.poll() is None and not stop.is_set()
    finally:
        _end(process, family)
    reader.join(timeout=TICK)
    if process.stdin is not None:
        process.stdin.close()
    return Ended(process.returncode, "".join(lines).strip(), late)


def _read(process: subprocess.Popen[str], lines: deque[str]) -> None:
    if process.stdout is not None:
        with process.stdout as stream:
            lines.extend(stream)


def _wait(
    process: subprocess.Popen[str], until: float | None, stop: threading.Event, family: set[psutil.Process]
) -> None:
    """Until it has ended, or is to end; notes what it has started on the way."""
    while not stop.is_set() and (until is None or time.monotonic() < until):
        try:
            process.wait(TICK)
            return
        except subprocess.TimeoutExpired:
            _note(process, family)


def _end(process: subprocess.Popen[str], family: set[psutil.Process]) -> None:
    """End it, if it has not, and every other of its family."""
    if process.poll() is None:
        _note(process, family)
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            _note(process, family)
            process.kill()
            process.wait()
    for left in family:  # psutil does not take a new process with an old number for the old one.
        try:
            left.kill()
        except psutil.NoSuchProcess:
            continue


def _note(process: subprocess.Popen[str], family: set[psutil.Process]) -> None:
    try:
        family.update(psutil.Process(process.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return


def rndlib() -> list[str]:
    """The command line of this rndlib, in this interpreter."""
    return [sys.executable, "-m", "rndlib"]
