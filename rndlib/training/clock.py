"""How the time of gradient flow is cut into steps."""

from collections.abc import Callable
from math import inf, sqrt

import numpy as np
from jaxtyping import Float

NODES = 400
"""Times at which the progress of training is tabulated."""


def clock(
    eigenvalues: Float[np.ndarray, " n"], time: float, heads: float = 0.0
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Cut `time` into any number of steps: the times to each step's midpoint, and over the whole step.

    `eigenvalues` are the kernel's. A mode with eigenvalue lambda moves while lambda t is of order one. So time is
    replaced by progress u(t) = sum_i w_i lambda_i t / (1 + lambda_i t), from 0 to 1, and steps and midpoints are equal
    in u. The weights w_i ~ lambda_i^{-1/4} favour the slow modes, which move the parameters furthest.

    heads : many heads per unit of a body's width raise the largest eigenvalue far above its limit, as in a Wishart
        matrix. The eigenvalues are stretched on a logarithmic scale, with the smallest in its place.
    """
    values = np.maximum(eigenvalues, 1e-12 * eigenvalues.max())
    spread = np.log(values.max() / values.min())
    values = values * (1 + sqrt(heads)) ** (2 * np.log(values / values.min()) / spread if spread > 0 else 2.0)
    weights = values**-0.25 / np.sum(values**-0.25)

    def progress(t: np.ndarray) -> np.ndarray:
        done = values * t[:, None]
        return (weights * done / (1 + done)).sum(1)

    nodes = np.append(0.0, np.geomspace(1e-8 / values.max(), 1e8 / values.min(), NODES))
    table = progress(nodes)
    end = 1.0 if time == inf else np.interp(time, nodes, table)

    def cut(steps: int) -> tuple[np.ndarray, np.ndarray]:
        times = np.interp(np.linspace(0, end, 2 * steps + 1), table, nodes)
        times[-1] = time
        return times[1::2] - times[:-1:2], times[2::2] - times[:-1:2]

    return cut
