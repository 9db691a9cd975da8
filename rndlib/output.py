"""Where a run's files go: the folder named by the environment variable RNDLIB_OUTPUT, or nowhere."""

import errno
import os
from pathlib import Path

VARIABLE = "RNDLIB_OUTPUT"
# Errors of the system for a folder that takes no more files, and their remedies.
REFUSED = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "choose a folder that you may write",
    errno.EPERM: "choose a folder that you may write",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EIO: "look at the disk",
    errno.ENOLCK: "choose a folder on a file system that has locks",
    errno.EOPNOTSUPP: "choose a folder on a file system that has locks",
}


class Unwritable(OSError):
    """Results cannot be written; the message is one line that says where, why, and what to do."""


def folder() -> Path | None:
    """The folder for this run's files, or None if nothing is to be written; a ValueError if it does not exist."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_dir():
        raise ValueError(f"{VARIABLE} = {named!r} is not a folder: create it first, or unset the variable")
    return path


def write(path: Path, content: bytes) -> None:
    """Write the whole file or nothing: under a temporary name beside it, flushed to disk, then renamed."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def settle(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refusal(error: OSError) -> str | None:
    """One line about an error that means that results cannot be written; None for any other error."""
    if error.errno not in REFUSED:
        return None
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror}: {REFUSED[error.errno]}, then start again; whole results are kept"
