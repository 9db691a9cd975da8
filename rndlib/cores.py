"""The machine's cores: how many this process may use, and independent pieces of work on all of them."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

COUNT = "PYTHON_CPU_COUNT"
"""Number of cores that Python should count; from 3.13 on `os.process_cpu_count` reads it, too."""

_in_thread = threading.local()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """BLAS and PyTorch with one thread each meanwhile: theirs would wait, by spinning, on cores that others need.

    From the main thread alone: the numbers are the process's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_libraries().limit(limits=1, user_api="blas"))
        if torch := sys.modules.get("torch"):
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield


def count() -> int:
    """Number of threads that should compute at once: one per core of this process, or what the environment states."""
    stated = os.environ.get(COUNT, "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    affinity = getattr(os, "sched_getaffinity", None)  # Not on macOS.
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def split(count: int, size: int) -> list[list[int]]:
    """`range(count)` in consecutive blocks of equal length, at most `size`.

    The last block may repeat its last index: blocks of one shape share their compiled programs.
    """
    blocks = -(-count // size)
    length = -(-count // blocks)
    return [[min(i, count - 1) for i in range(start, start + length)] for start in range(0, count, length)]


def slices(count: int, size: int, start: int = 0) -> list[slice]:
    """Consecutive slices of `start .. count` of length `size`; the last may be shorter."""
    return [slice(first, min(first + size, count)) for first in range(start, count, size)]


def blockwise(function: Callable[[list[int]], np.ndarray], count: int, size: int) -> np.ndarray:
    """The results of `function` for the blocks of `range(count)`, in `parallel`, joined on the leading axis."""
    return np.concatenate(parallel(function, split(count, size)))[:count]


def parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`[function(item) for item in items]`, on `count` threads.

    Compiled array code runs outside Python's lock, so threads suffice. A nested call runs its items one after the
    other, because the cores are taken. The first error cancels the items that have not begun.
    """
    items = list(items)
    if getattr(_in_thread, "busy", False) or len(items) == 1:
        return list(map(function, items))

    def occupied(item: Item) -> Result:
        _in_thread.busy = True
        return function(item)

    with one_thread_each(), ThreadPoolExecutor(count()) as pool:
        return list(pool.map(occupied, items))
