"""Silence around libraries that report on themselves, so that a notebook's output is what it was asked for."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Python warnings are ignored, and what compiled code writes to standard error goes nowhere.

    Errors are raised as ever. The process's own file descriptor is what is turned away, hence for all its threads.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
