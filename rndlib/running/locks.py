"""A lock between processes: on a file, with `flock`, so that it dies with the processes that hold it."""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Inside, this process holds the lock; one line on stderr says so where it has to wait for another process.

    Yields the lock's descriptor: a child process that inherits it (`pass_fds`) holds the lock, too. The file is made if
    missing and stays: a third process could make and lock it anew while a second one holds a file that was removed.

    Raises
    ------
    OSError: the file cannot be made, or its file system has no locks.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"rndlib: {path.parent} is in use by another process: waiting for it to end", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()
