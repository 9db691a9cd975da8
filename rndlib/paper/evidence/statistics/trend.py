"""Relative errors of networks, and the rate at which they decrease with width (P2 to P5, N1-slope, N2-slope, A-slopes).

`differences` are positive, (seeds, widths), with one row for each independent seed.
"""

from collections.abc import Sequence
from math import exp

import numpy as np
from jaxtyping import Float

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.statistics.intervals import logarithms, t_interval


def relative_error(found: np.ndarray, expected: np.ndarray, scale: np.ndarray | None = None) -> Float[np.ndarray, " n"]:
    """`||found - expected|| / ||scale||` of each network, with the Euclidean norm over everything else.

    `found` is (networks, ...); `expected` and `scale`, which is `expected` by default, may be common to all networks.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.broadcast_to(expected if scale is None else scale, found.shape)
    norms = [np.linalg.norm(of.reshape(len(of), -1), axis=1) for of in (found - expected, scale)]
    return norms[0] / norms[1]


@check
def typical(errors: np.ndarray) -> Finding:
    """Geometric mean over networks of `errors`, `(networks,)`, judged by its upper confidence limit."""
    return Finding.upper(*map(exp, t_interval(logarithms("errors", errors))))


@check
def slope(widths: Sequence[int], differences: np.ndarray) -> Finding:
    """Slope of log difference on log width by least squares, one fit per seed, judged by the upper confidence limit."""
    return Finding.upper(*_slope(widths, differences))


@check
def rate(widths: Sequence[int], differences: np.ndarray, expected: float = -0.5) -> Finding:
    """Slope of log difference on log width, judged by the distance from `expected` to the farther end.

    Both ends within a margin are two one-sided tests at 5 %.
    """
    return Finding.farther(*_slope(widths, differences), expected)


def _slope(widths: Sequence[int], differences: np.ndarray) -> Estimate:
    if len(np.unique(widths)) < 2:
        raise ValueError(f"widths = {np.asarray(widths).tolist()}: give at least two different ones")
    return t_interval(np.polyfit(np.log(widths), logarithms("differences", differences).T, 1)[0])
