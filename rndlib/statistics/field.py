"""1/2 eps-bar^2 as a field over x: covariances of pairs of test points, and the spread over bodies (claim M3)."""

from math import exp, sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.claims import Finding
from rndlib.statistics.length import squared_length


def field_covariance(values: ArrayLike, cov: ArrayLike, dof: int, confidence: float = 0.95) -> Finding:
    """How far the covariances over x are from 2 Sigma(x, x')^2 / dof, over all pairs of different test points at once.

    Values are taken in units of their variance Sigma(x, x), so that every pair counts, and the differences are put
    over the law's covariances, both as root mean squares over the pairs. Fields that are independent over x are at
    1; fields whose variance is off by the factor 1 + e are at 2 e.

    Parameters
    ----------
    values: `(bodies, points)`, one row a body or an ensemble, independent of the others; two points or more.
    cov: `(points, points)`, Sigma, covariance of one ensemble member.
    dof: heads of a body, or members of an ensemble less one.
    confidence: of each end of the interval, one-sided.

    Returns
    -------
    The interval, and its upper end as the value. The sampling noise is taken off.

    Raises
    ------
    ValueError: shapes disagree, fewer than two bodies or points, or a variance that is not positive.
    """
    relative, law = _relative(values, cov, dof)
    bodies, points = relative.shape
    if bodies < 2 or points < 2:
        raise ValueError(f"values has {bodies} bodies at {points} points: give at least two of each")
    centred = (relative - relative.mean(axis=0)) * sqrt(bodies / (bodies - 1))
    rows, columns = np.triu_indices(points, 1)
    expected = law[rows, columns]
    ends = squared_length(centred[:, rows] * centred[:, columns] - expected, checks.fraction("confidence", confidence))
    low, high = (sqrt(max(end, 0) / float(expected @ expected)) for end in ends)
    return Finding(high, (low, high))


def covariance_pairs(
    values: ArrayLike, cov: ArrayLike, dof: int
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """The law's covariance of every pair of different points, the one found, and its standard error over bodies.

    In the units and with the arguments of `field_covariance`.
    """
    relative, law = _relative(values, cov, dof)
    bodies, points = relative.shape
    rows, columns = np.triu_indices(points, 1)
    centred = (relative - relative.mean(axis=0)) * sqrt(bodies / (bodies - 1))
    products = centred[:, rows] * centred[:, columns]
    return law[rows, columns], products.mean(axis=0), products.std(axis=0, ddof=1) / sqrt(bodies)


def spread(values: ArrayLike, variance: ArrayLike, dof: int, confidence: float = 0.95) -> tuple[float, float, float]:
    """Variance of the values over bodies as a multiple of 2 Sigma^2 / dof, averaged over the points, with its interval.

    Parameters
    ----------
    values, dof: as in `field_covariance`.
    variance: `(points,)`, Sigma(x, x).
    confidence: of the interval, two-sided; normal for the logarithm.

    Returns
    -------
    estimate, low, high.

    Raises
    ------
    ValueError: shapes disagree, fewer than two bodies, or a variance that is not positive.
    """
    variance = checks.array("variance", variance, None)
    relative, _ = _relative(values, np.diag(variance), dof)
    bodies = len(relative)
    if bodies < 2:
        raise ValueError(f"values has {bodies} body: give at least two")
    each = np.mean((relative - relative.mean(axis=0)) ** 2, axis=1) * (bodies / (bodies - 1)) * dof / 2
    estimate = float(each.mean())
    tail = (1 - checks.fraction("confidence", confidence)) / 2
    reach = float(stats.norm.isf(tail)) * float(each.std(ddof=1)) / sqrt(bodies) / estimate
    return estimate, estimate * exp(-reach), estimate * exp(reach)


def _relative(values: ArrayLike, cov: ArrayLike, dof: int) -> tuple[np.ndarray, np.ndarray]:
    """Values over their variance, `(bodies, points)`, and the law of their covariance, `(points, points)`."""
    values = checks.array("values", values, None, None)
    cov = checks.array("cov", cov, values.shape[1], values.shape[1])
    variance = cov.diagonal()
    if variance.min() <= 0:
        raise ValueError(f"cov has a variance of {variance.min():.3g}: leave out training points")
    return values / variance, 2 * cov**2 / np.outer(variance, variance) / checks.whole("dof", dof, 1)
