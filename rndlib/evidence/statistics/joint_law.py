"""How far the joint law of several outputs lies from a Gaussian law (claims P1, E1 and E2).

In the law's own whitened coordinates (w = L^-1 (z - mean), cov = L L^T) the law is N(0, I). Networks whose
whitened mean and covariance are m and S lie at the distance

    delta^2 = |m|^2 + 1/2 ||S - I||_F^2,

to second order twice the Kullback-Leibler divergence from the law, in whatever basis the outputs are given. It is
the squared length of the mean of one vector a network, phi = (w, (w w^T - I) with its diagonal over sqrt 2), whose
interval is that of `rndlib.evidence.statistics.length`. Under the law phi has covariance I, and the squared length
times the number of networks is chi-squared with p + p (p + 1) / 2 degrees of freedom.
"""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.length import squared_length
from rndlib.evidence.statistics.whitening import whitened


def joint_law(samples: ArrayLike, mean: ArrayLike, cov: ArrayLike, confidence: float = 0.95) -> Finding:
    """Distance of the networks' joint law over test points from N(mean, cov).

    Parameters
    ----------
    samples: `(networks, points)`, outputs of independently seeded networks at the same points.
    mean: `(points,)`, mean of the law.
    cov: `(points, points)`, covariance of the law, positive definite.
    confidence: of each end of the interval, one-sided.

    Returns
    -------
    delta / sqrt(points): its interval, and the upper end as the value. A law whose whitened mean is off by s in
    every direction is at s; one whose variances are off by the factor 1 + e at e / sqrt(2).

    Raises
    ------
    ValueError: shapes disagree, no more networks than there are points, or a covariance that is not positive
        definite.
    """
    white = whitened(samples, mean, cov)
    networks, points = white.shape
    confidence = checks.fraction("confidence", confidence)
    if networks <= points:
        raise ValueError(f"samples has {networks} networks for {points} points: give more networks or fewer points")

    phi = _deviations(white)
    low, high = (sqrt(max(end, 0) / points) for end in squared_length(phi, confidence))
    return Finding(high, (low, high), "joint_law")


def _deviations(white: np.ndarray) -> np.ndarray:
    """phi of each network, `(networks, points + points (points + 1) / 2)`."""
    networks, points = white.shape
    centred = (white - white.mean(axis=0)) * sqrt(networks / (networks - 1))
    rows, columns = np.triu_indices(points)
    diagonal = rows == columns
    products = (centred[:, rows] * centred[:, columns] - diagonal) * np.where(diagonal, sqrt(0.5), 1)
    return np.hstack([white, products])
