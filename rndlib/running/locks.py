"""Locks between processes: on a file, with `flock`, so that a lock dies with the process that held it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Busy(OSError):
    """Another process holds the lock."""


def take(path: Path, shared: bool = False, wait: bool = False) -> int:
    """Lock a file, made if missing, and return its descriptor: the lock lasts until that is closed everywhere.

    A child process that inherits the descriptor (`pass_fds`) keeps the lock, too. The file stays, since one removed
    by its holder could be locked by a second process while a third makes and locks it anew.

    Parameters
    ----------
    path: the file.
    shared: whether others may hold it with `shared` as well.
    wait: whether to wait for it.

    Raises
    ------
    Busy: another process holds it, unless `wait`.
    OSError: the file cannot be made.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        os.close(handle)
        raise Busy(f"{path.parent} is in use by another process: wait for it to end") from error
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def held(path: Path, shared: bool = False, wait: bool = False) -> Iterator[int]:
    """Inside, a file is locked; see `take`."""
    handle = take(path, shared, wait)
    try:
        yield handle
    finally:
        os.close(handle)
