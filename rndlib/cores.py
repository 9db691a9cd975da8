"""The machine's cores: how many this process may use, and independent pieces of work on all of them."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

COUNT = "PYTHON_CPU_COUNT"
"""How many cores Python is to count; its own `os.process_cpu_count` reads it from 3.13 on."""

BLAS = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"]
THREADS = ["OMP_NUM_THREADS", *BLAS, "NUMEXPR_NUM_THREADS", "PJRT_NPROC", COUNT]
"""Read by OpenMP, by the BLAS libraries, by numexpr and by XLA when they are loaded, and by `count`."""

_in_thread = threading.local()


def usable() -> list[int]:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Not on macOS.
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def count() -> int:
    """How many threads of this process should compute at once: one per core, or as the environment says."""
    stated = os.environ.get(COUNT, "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else len(usable())


def pin(cores: Sequence[int]) -> None:
    """Keep the calling thread, and the processes that it starts, on these cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # Some containers forbid it.
            os.sched_setaffinity(0, cores)


def threads(count: int) -> dict[str, str]:
    """Environment variables for a process that is to use `count` threads; those that are set already stay."""
    return {name: os.environ.get(name, str(count)) for name in THREADS}


def one_blas_thread() -> dict[str, str]:
    """Environment variables for one BLAS thread, unless they are set.

    BLAS's own threads wait by spinning, on cores that the threads of `parallel` and of XLA compute on: they made
    notebook 05 a fifth slower.
    """
    return {name: os.environ.get(name, "1") for name in BLAS}


def split(count: int, size: int) -> list[list[int]]:
    """`range(count)` in consecutive blocks of one length, `size` or a little less.

    The last block repeats its last index where it has to: blocks of one shape share their compiled programs.
    """
    blocks = -(-count // size)
    length = -(-count // blocks)
    return [[min(i, count - 1) for i in range(start, start + length)] for start in range(0, count, length)]


def blockwise(function: Callable[[list[int]], np.ndarray], count: int, size: int) -> np.ndarray:
    """The results of `function` for the blocks of `range(count)`, in `parallel`, joined on the leading axis."""
    return np.concatenate(parallel(function, split(count, size)))[:count]


def parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`[function(item) for item in items]`, on `count` threads.

    Compiled array code runs outside Python's lock, so threads suffice. Inside such a thread a further call works one
    item after the other, as the cores are taken. The first error stops what has not begun.
    """
    items = list(items)
    if getattr(_in_thread, "busy", False) or len(items) == 1:
        return [function(item) for item in items]

    def occupied(item: Item) -> Result:
        _in_thread.busy = True
        return function(item)

    with ThreadPoolExecutor(count()) as pool:
        futures = [pool.submit(occupied, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
