"""The law of half the mean squared error of K heads, and of an ensemble's variance (claims M2, M2-pair and M3).

Below, q(x) stands for either, and `values` (networks, points) are the q of independent networks or ensembles, whatever
the dependence among their test points. Squared distances are estimated without bias, so they are zero on average for
two equal laws.
"""

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.statistics.intervals import deviations, positive_variance, root_finding, squared_length

_LEVELS = (np.arange(32) + 0.5) / 32  # A grid twice as fine changes a distance by parts in 1000.


@check
def distance_to_law(values: np.ndarray, law: Any) -> Finding:
    """RMS difference between the CDF of q over networks and the law's, over 32 levels and all test points.

    `law` has one frozen SciPy distribution per point, such as `laws.mean_square`. This is the distance of Cramér and
    von Mises. Between scaled chi-squared laws of equal means it is 0.10 for 1 and 2 degrees of freedom, 0.05 for 2 and
    3, and 0.016 for 7 and 8.
    """
    return _rms(_below(values, law) - _LEVELS[:, None])


@check
def distance_between(first: np.ndarray, second: np.ndarray, law: Any) -> Finding:
    """RMS difference between the CDFs of two samples of q of equal size, over 32 levels and all test points.

    The quantiles of `law` are the levels for both samples; it need not be true.
    """
    # The samples are independent and of one size, so their rows form independent pairs in any order.
    return _rms(_below(first, law) - _below(second, law))


@check
def field_covariance(values: np.ndarray, cov: np.ndarray, dof: int) -> Finding:
    """Relative difference between the covariances of q over x and the law's 2 Sigma(x, x')^2 / dof.

    Sigma is `cov` (points, points), the covariance of one ensemble member; dof is heads per network, or members minus
    one. Differences and covariances are root mean squares over all pairs of different points, with q in units of
    Sigma(x, x). Fields that are independent over x are at 1, fields whose variance is off by the factor 1 + e at 2 e.
    """
    law, products = _pairs(values, cov, dof)
    return root_finding(*squared_length([products - law]), float(law @ law))


def covariance_pairs(
    values: np.ndarray, cov: np.ndarray, dof: int
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """Covariance of q at every pair of different points: the law's, the estimate, and its standard error over networks.

    Units and arguments as in `field_covariance`.
    """
    law, products = _pairs(values, cov, dof)
    return law, products.mean(axis=0), products.std(axis=0, ddof=1) / sqrt(len(products))


def _below(values: np.ndarray, law: Any) -> Float[np.ndarray, "networks levels points"]:
    return (np.asarray(values)[:, None, :] <= law.ppf(_LEVELS[:, None])).astype(float)


def _rms(differences: Float[np.ndarray, "networks levels points"]) -> Finding:
    networks, levels, points = differences.shape
    return root_finding(*squared_length([differences.reshape(networks, -1)]), levels * points)


def _pairs(
    values: np.ndarray, cov: np.ndarray, dof: int
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, "networks pairs"]]:
    """The law's covariance of every pair, and each network's product, whose mean is the estimate (ddof = 1)."""
    variance = positive_variance(cov.diagonal())
    apart = deviations(values / variance)
    rows, columns = np.triu_indices(len(cov), 1)
    law = 2 * cov**2 / np.outer(variance, variance) / dof
    return law[rows, columns], apart[:, rows] * apart[:, columns]
