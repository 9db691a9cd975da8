"""Distance of the outputs of networks from a Gaussian law (claims P1, P1-gauss, E1, E2, B1 to B3, B5, S1 and A1 to A5).

All are measured in the law's own whitened coordinates, w = L^-1 (z - mean) with cov = L L^T, in which the law is
N(0, I). Samples are (networks, points), outputs of independently seeded networks.
"""

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.statistics.intervals import deviations, root_finding, squared_length, t_interval
from rndlib.theory.laws import Gaussian


def centred(cov: np.ndarray) -> Gaussian:
    """The Gaussian law with mean zero and this covariance, (points, points)."""
    return Gaussian(np.zeros(len(cov)), cov.diagonal(), cov)


def whitened(samples: np.ndarray, law: Gaussian) -> Float[np.ndarray, "*networks points"]:
    """L^-1 (z - mean) of every sample z; its squared length is chi-squared(points) under the law."""
    if law.cov is None:
        raise ValueError("law has no covariance: ask for it with full_cov=True")
    apart = np.asarray(samples) - law.mean
    try:
        root = linalg.cholesky(law.cov, lower=True)
    except linalg.LinAlgError as error:
        raise ValueError("cov is not positive definite: leave out training points and near repeats") from error
    return linalg.solve_triangular(root, apart.reshape(-1, len(root)).T, lower=True).T.reshape(apart.shape)


@check
def joint_law(samples: Any, law: Gaussian) -> Finding:
    """Distance of the networks' joint law over test points from a Gaussian one, by its first two moments.

    With m and S the mean and covariance of the whitened outputs at p points, the distance is delta / sqrt(p) with

        delta^2 = |m|^2 + 1/2 ||S - I||_F^2,

    to second order twice the Kullback-Leibler divergence. A law whose whitened mean is off by s in every direction is
    at s, one whose variances are off by the factor 1 + e at e / sqrt(2).
    """
    sample = Sample.of(samples)
    networks, points = sample.values.shape
    if networks <= points:
        raise ValueError(f"samples has {networks} networks for {points} points: give more networks or fewer points")
    rows, columns = np.triu_indices(points)
    diagonal = rows == columns

    def moments(functions: np.ndarray) -> np.ndarray:
        """Vectors whose mean has the length delta: w, and w w^T - I with its diagonal over sqrt 2."""
        white = whitened(functions, law)
        apart = deviations(white)
        products = apart[:, rows] * apart[:, columns] - diagonal
        return np.hstack([white, products * np.where(diagonal, sqrt(0.5), 1)])

    return root_finding(*squared_length(sample.groups(moments)), points)


@check
def excess_kurtosis(samples: np.ndarray, law: Gaussian) -> Finding:
    """`E |w|^4 / (p (p + 2)) - 1` for outputs at p points, judged by the end farther from 0.

    This is Mardia's kurtosis relative to its Gaussian value, with the law's moments in place of the sample's. If a
    factor 1 + e on the covariance varies from network to network, with E e = 0, it equals Var e.
    """
    white = whitened(samples, law)
    points = white.shape[1]
    return Finding.farther(*t_interval(np.sum(white**2, axis=1) ** 2 / (points * (points + 2)) - 1))
