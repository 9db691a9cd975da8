"""Relative errors of networks, and the rate at which a discrepancy falls with width (P2 to P5, N1-slope, N2-slope)."""

from math import exp

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.statistics.intervals import logarithms, t_interval


def relative_error(found: ArrayLike, expected: ArrayLike, scale: ArrayLike | None = None) -> Float[np.ndarray, " n"]:
    """`||found - expected|| / ||scale||` of each network, with the Euclidean norm over everything else.

    `found` is (networks, ...); `expected` and `scale`, which is `expected` by default, may be common to all networks.
    """
    found = checks.array("found", found, *(None,) * max(1, np.ndim(found)))
    expected = _like("expected", expected, found.shape)
    scale = expected if scale is None else _like("scale", scale, found.shape)
    size = np.linalg.norm(scale.reshape(len(found), -1), axis=1)
    if size.min() == 0:
        raise ValueError("scale is zero for a network: no error is relative to it")
    return np.linalg.norm((found - expected).reshape(len(found), -1), axis=1) / size


def _like(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    array = checks.array(name, values, *(shape[1:] if np.ndim(values) == len(shape) - 1 else shape))
    return np.broadcast_to(array, shape)


@check
def typical(errors: ArrayLike) -> Finding:
    """Geometric mean over networks of `errors`, `(networks,)`, judged by the upper end of its interval."""
    _, low, high = t_interval(logarithms("errors", errors, None))
    return Finding.upper(exp(low), exp(high))


@check
def slope(widths: ArrayLike, differences: ArrayLike) -> Finding:
    """Slope of log difference on log width by least squares, one fit per seed, judged by the upper end over seeds.

    `widths` (widths,) must include two different ones; `differences` (seeds, widths) are positive.
    """
    _, low, high = _slope(widths, differences)
    return Finding.upper(low, high)


@check
def rate(widths: ArrayLike, differences: ArrayLike, expected: float) -> Finding:
    """Slope of log difference on log width, judged by the distance from `expected` to the farther end.

    Both ends within a margin are two one-sided tests at 5 %.
    """
    _, low, high = _slope(widths, differences)
    return Finding.farther(low, high, checks.real("expected", expected))


def _slope(widths: ArrayLike, differences: ArrayLike) -> Estimate:
    log_widths = logarithms("widths", widths, None)
    log_differences = logarithms("differences", differences, None, len(log_widths))
    if len(np.unique(log_widths)) < 2:
        raise ValueError(f"widths = {np.asarray(widths).tolist()}: give at least two different ones")
    return t_interval(np.polyfit(log_widths, log_differences.T, 1)[0])
