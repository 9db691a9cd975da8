"""Whether outputs over networks are Gaussian, once their covariance is right (claim P1-gauss).

In the law's whitened coordinates w the squared length |w|^2 of p Gaussian outputs is chi-squared, and E |w|^4 is
p (p + 2). Outputs that are Gaussian given the hidden layers, with a covariance that varies from network to network,
have more: with the factor 1 + e on the covariance, E e = 0, E |w|^4 grows by the factor 1 + Var e.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.seeds import t_interval
from rndlib.evidence.statistics.whitening import whitened


def squared_lengths(samples: ArrayLike, cov: ArrayLike) -> Float[np.ndarray, " networks"]:
    """|w|^2 of each network, `z^T cov^-1 z` for its outputs z, `(networks,)`: chi-squared(points) if z ~ N(0, cov).

    Parameters
    ----------
    samples: `(networks, points)`, outputs of independently seeded networks at the same points.
    cov: `(points, points)`, covariance of the law, positive definite.

    Raises
    ------
    ValueError: shapes disagree, or a covariance that is not positive definite.
    """
    samples = checks.array("samples", samples, None, None)
    return np.sum(whitened(samples, np.zeros(samples.shape[1]), cov) ** 2, axis=1)


def excess_kurtosis(samples: ArrayLike, cov: ArrayLike, confidence: float = 0.95) -> Finding:
    """`E |w|^4 / (p (p + 2)) - 1` for outputs of mean zero: its interval, and the end farther from 0 as the value.

    Mardia's kurtosis over its Gaussian value, less 1, with the law's mean and covariance for the sample's. Arguments
    and errors as in `squared_lengths`, with at least two networks; `confidence` is that of each end, one-sided.
    """
    squares = squared_lengths(samples, cov)
    points = len(np.atleast_2d(cov))
    low, high = t_interval(squares**2 / (points * (points + 2)) - 1, checks.fraction("confidence", confidence))
    return Finding(max(high, -low), (low, high), "excess_kurtosis")
