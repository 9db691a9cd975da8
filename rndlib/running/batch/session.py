"""Batches that run on one folder at the same time make one session.

A cell that failed is tried again in the next session, and not by another batch of the same: so each cell is run once,
and all batches end with the same table.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rndlib import output
from rndlib.running import locks

FILE = ".session"


@contextmanager
def joined(folder: Path) -> Iterator[str]:
    """The name of this folder's session: a new one, unless another batch runs there."""
    lock = folder / ".session.lock"
    try:
        alone = locks.take(lock)
    except locks.Busy:
        pass
    else:
        try:
            output.write(folder / FILE, uuid.uuid4().hex.encode())
        finally:
            os.close(alone)
    # A batch that begins between the two locks names the session anew, before either has run a cell.
    with locks.held(lock, shared=True, wait=True):
        yield (folder / FILE).read_text(encoding="utf-8")
