"""Mean and variance of 1/2 eps-bar^2 over bodies, as multiples of what the law says (heads against width)."""

from math import exp, sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.evidence.statistics.seeds import t_interval


def level(values: ArrayLike, variance: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean of the values over bodies as a multiple of Sigma(x, x), averaged over the points, with its interval.

    Parameters
    ----------
    values: `(bodies, points)`, one row a body or an ensemble, independent of the others.
    variance: `(points,)`, Sigma(x, x), that of one ensemble member.
    confidence: of Student's interval, two-sided.

    Returns
    -------
    estimate, low, high.

    Raises
    ------
    ValueError: shapes disagree, fewer than two bodies, or a variance that is not positive.
    """
    each = _relative(values, variance).mean(axis=1)
    low, high = t_interval(each, (1 + checks.fraction("confidence", confidence)) / 2)
    return float(each.mean()), low, high


def spread(values: ArrayLike, variance: ArrayLike, dof: int, confidence: float = 0.95) -> tuple[float, float, float]:
    """Variance of the values over bodies as a multiple of 2 Sigma^2 / dof, averaged over the points, with its interval.

    Parameters
    ----------
    values, variance: as in `level`.
    dof: heads of a body, or members of an ensemble less one.
    confidence: of the interval, two-sided; normal for the logarithm.

    Returns
    -------
    estimate, low, high.

    Raises
    ------
    ValueError: as in `level`, or values that are the same for all bodies.
    """
    relative = _relative(values, variance)
    bodies = len(relative)
    each = np.mean((relative - relative.mean(axis=0)) ** 2, axis=1) * (bodies / (bodies - 1))
    each *= checks.whole("dof", dof, 1) / 2
    estimate = float(each.mean())
    if not estimate > 0:
        raise ValueError("values are the same for all bodies: train bodies with seeds of their own")
    tail = (1 - checks.fraction("confidence", confidence)) / 2
    reach = float(stats.norm.isf(tail)) * float(each.std(ddof=1)) / sqrt(bodies) / estimate
    return estimate, estimate * exp(-reach), estimate * exp(reach)


def _relative(values: ArrayLike, variance: ArrayLike) -> Float[np.ndarray, "bodies points"]:
    values = checks.array("values", values, None, None)
    variance = checks.array("variance", variance, values.shape[1])
    if len(values) < 2:
        raise ValueError(f"values has {len(values)} body: give at least two")
    if variance.min() <= 0:
        raise ValueError(f"variance has {variance.min():.3g}: leave out training points")
    return values / variance
