"""Independent pieces of work, a few at a time: one thread a core, results in order."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def split(count: int, size: int) -> list[range]:
    """`range(count)` in consecutive blocks of `size`, the last one shorter."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`[function(item) for item in items]`, on as many threads as this process has cores.

    Compiled array code runs outside Python's lock, so threads suffice. The first error stops what has not begun.
    """
    with ThreadPoolExecutor(_cores()) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
