"""1/2 eps-bar^2 as a field over x: its covariances at pairs of test points (claim M3)."""

from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.length import squared_length


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
    law, products = _pairs(values, cov, dof)
    ends = squared_length(products - law, checks.fraction("confidence", confidence))
    low, high = (sqrt(max(end, 0) / float(law @ law)) for end in ends)
    return Finding(high, (low, high), "field_covariance")


def covariance_pairs(
    values: ArrayLike, cov: ArrayLike, dof: int
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """The law's covariance of every pair of different points, the one found, and its standard error over bodies.

    In the units and with the arguments of `field_covariance`.
    """
    law, products = _pairs(values, cov, dof)
    return law, products.mean(axis=0), products.std(axis=0, ddof=1) / sqrt(len(products))


def _pairs(
    values: ArrayLike, cov: ArrayLike, dof: int
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, "bodies pairs"]]:
    """The law's covariance of every pair, and each body's product, whose mean is the covariance found (ddof = 1)."""
    values = checks.array("values", values, None, None)
    bodies, points = values.shape
    cov = checks.array("cov", cov, points, points)
    variance = cov.diagonal()
    if bodies < 2 or points < 2:
        raise ValueError(f"values has {bodies} bodies at {points} points: give at least two of each")
    if variance.min() <= 0:
        raise ValueError(f"cov has a variance of {variance.min():.3g}: leave out training points")
    relative = values / variance
    centred = (relative - relative.mean(axis=0)) * sqrt(bodies / (bodies - 1))
    rows, columns = np.triu_indices(points, 1)
    law = 2 * cov**2 / np.outer(variance, variance) / checks.whole("dof", dof, 1)
    return law[rows, columns], centred[:, rows] * centred[:, columns]
