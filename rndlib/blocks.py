"""Independent pieces of work, a few at a time: one thread a core, results in order."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from rndlib import cores

Item = TypeVar("Item")
Result = TypeVar("Result")

_here = threading.local()


def split(count: int, size: int) -> list[list[int]]:
    """`range(count)` in consecutive blocks of one length, `size` or a little less.

    The last block repeats its last index where it has to: blocks of one shape share their compiled programs.
    """
    blocks = -(-count // size)
    length = -(-count // blocks)
    return [[min(i, count - 1) for i in range(start, start + length)] for start in range(0, count, length)]


def blockwise(function: Callable[[list[int]], np.ndarray], count: int, size: int) -> np.ndarray:
    """What `function` makes of each block of `range(count)`, in `parallel`, joined on the leading axis."""
    return np.concatenate(parallel(function, split(count, size)))[:count]


def parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`[function(item) for item in items]`, on as many threads as this process has cores (`rndlib.cores.count`).

    Compiled array code runs outside Python's lock, so threads suffice. Inside such a thread a further call works one
    item after the other: the cores are taken. The first error stops what has not begun.
    """
    items = list(items)
    if getattr(_here, "busy", False) or len(items) == 1:
        return [function(item) for item in items]

    def occupied(item: Item) -> Result:
        _here.busy = True
        return function(item)

    with ThreadPoolExecutor(cores.count()) as pool:
        futures = [pool.submit(occupied, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
