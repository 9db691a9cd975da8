"""A lock between processes: on a file, with `flock`, so that it ends with the processes that hold it."""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold the lock inside; a line on stderr says so where another process has to end first.

    Yields the lock's descriptor: a child process that inherits it (`pass_fds`) holds the lock, too. The file is made if
    missing and stays: removing it would let two processes each lock a file of this name.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"rndlib: {path.parent} is in use by another process: waiting for it to end", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()
