"""Distance of the outputs of networks from a Gaussian law (claims P1, P1-gauss, E1, E2, B1 to B3, B5 and S1).

All are measured in the law's own whitened coordinates, w = L^-1 (z - mean) with cov = L L^T, in which the law is
N(0, I). `samples` are `(networks, points)`, outputs of independently seeded networks; `mean` and `cov` are the law's.
"""

from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from rndlib import checks
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.partners import Partners
from rndlib.paper.evidence.statistics.intervals import deviations, grouped, root_finding, squared_length, t_interval


def whitened(samples: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Float[np.ndarray, "networks points"]:
    """L^-1 (z - mean) of every sample z; its squared length is chi-squared(points) under the law."""
    samples = checks.array("samples", samples, None, None)
    points = samples.shape[1]
    mean, cov = checks.array("mean", mean, points), checks.array("cov", cov, points, points)
    try:
        root = linalg.cholesky(cov, lower=True)
    except linalg.LinAlgError as error:
        raise ValueError("cov is not positive definite: leave out training points and near repeats") from error
    return linalg.solve_triangular(root, (samples - mean).T, lower=True).T


@check
def joint_law(samples: ArrayLike, mean: ArrayLike, cov: ArrayLike, partners: Partners | None = None) -> Finding:
    """Distance of the networks' joint law over test points from N(mean, cov), by its first two moments.

    With m and S the mean and covariance of the whitened outputs at p points, the distance is delta / sqrt(p) with

        delta^2 = |m|^2 + 1/2 ||S - I||_F^2,

    to second order twice the Kullback-Leibler divergence. A law whose whitened mean is off by s in every direction is
    at s, one whose variances are off by the factor 1 + e at e / sqrt(2). `partners` lower the noise of m and S.
    """
    samples = checks.array("samples", samples, None, None)
    networks, points = samples.shape
    if networks <= points:
        raise ValueError(f"samples has {networks} networks for {points} points: give more networks or fewer points")
    rows, columns = np.triu_indices(points)
    diagonal = rows == columns

    def moments(samples: np.ndarray) -> np.ndarray:
        """Vectors whose mean has the length delta: w, and w w^T - I with its diagonal over sqrt 2."""
        white = whitened(samples, mean, cov)
        centred = deviations(white)
        products = (centred[:, rows] * centred[:, columns] - diagonal) * np.where(diagonal, sqrt(0.5), 1)
        return np.hstack([white, products])

    return root_finding(*squared_length(grouped(moments, samples, partners)), points)


@check
def excess_kurtosis(samples: ArrayLike, cov: ArrayLike) -> Finding:
    """`E |w|^4 / (p (p + 2)) - 1` for outputs of mean zero at p points, judged by the end farther from 0.

    This is Mardia's kurtosis relative to its Gaussian value, with the law's moments in place of the sample's. If a
    factor 1 + e on the covariance varies from network to network, with E e = 0, it equals Var e.
    """
    samples = checks.array("samples", samples, None, None)
    points = samples.shape[1]
    squares = np.sum(whitened(samples, np.zeros(points), cov) ** 2, axis=1)
    _, low, high = t_interval(squares**2 / (points * (points + 2)) - 1)
    return Finding.farther(low, high)
