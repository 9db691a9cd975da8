"""The time grid of gradient flow, which depends on the exact kernel only and is the same for every backend."""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, exp, inf, log

import numpy as np

from rndlib.cores import slices

PART = 2**16
"""Numbers that are computed at the same time."""


@lru_cache(maxsize=64)
def clock(spectrum: tuple[float, ...], time: float) -> Callable[[int], np.ndarray]:
    """Cut `time` into any number of steps: to each step's midpoint and over the whole step in turn, (2 steps,).

    `spectrum` holds the eigenvalues of the kernel. A mode with eigenvalue lambda moves while lambda t is of order one.
    So time is replaced by progress u(t) = sum_i w_i lambda_i t / (1 + lambda_i t), from 0 to 1, and steps and midpoints
    are equal in u. The weights w_i ~ lambda_i^{-1/4} favour the slow modes, which move the parameters furthest.
    """
    eigenvalues = np.array(spectrum)
    weights = eigenvalues**-0.25 / np.sum(eigenvalues**-0.25)

    def progress(t: np.ndarray) -> np.ndarray:
        done = eigenvalues * t[:, None]
        return (weights * done / (1 + done)).sum(1)

    fine = np.concatenate([[0.0], np.geomspace(1e-8 / eigenvalues.max(), 1e8 / eigenvalues.min(), 20_001)])
    # In parts that stay in the cache: the whole array of times and eigenvalues takes 46 MiB at 300 points, thrice.
    table = np.concatenate([progress(fine[some]) for some in slices(len(fine), max(1, PART // len(eigenvalues)))])
    end = 1.0 if time == inf else progress(np.array([min(time, fine[-1])]))[0]

    def cut(steps: int) -> np.ndarray:
        times = np.interp(np.linspace(0, end, 2 * steps + 1), table, fine)
        times[-1] = time
        return times[1:] - np.repeat(times[:-1:2], 2)

    return cut


def stretched(eigenvalues: np.ndarray, largest: float) -> tuple[float, ...]:
    """The eigenvalues on a logarithmic scale stretched so that the smallest stays and the largest becomes `largest`.

    `largest` is rounded up by at most a tenth, so that most blocks of a fit share a time grid.
    """
    if largest > 0:
        largest = exp(ceil(10 * log(largest)) / 10)
    values = np.maximum(eigenvalues, 1e-12 * eigenvalues.max())
    spread = np.log(values.max() / values.min())
    return tuple(values * (largest / values.max()) ** (np.log(values / values.min()) / spread if spread > 0 else 1.0))
