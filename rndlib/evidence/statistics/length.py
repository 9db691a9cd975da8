"""Squared length of a mean over networks, when the length may be zero."""

from math import sqrt

import numpy as np
from jaxtyping import Float
from scipy import stats


def squared_length(phi: Float[np.ndarray, "networks places"], confidence: float) -> tuple[float, float]:
    """Interval of |E phi|^2, each end at `confidence`, one-sided; the lower end may be negative.

    With n networks, mu = E phi and C the covariance of phi,

        E |mean phi|^2 = |mu|^2 + tr C / n,   Var |mean phi|^2 = 4 mu^T C mu / n + 2 tr C^2 / n^2.

    C is taken from the networks, which keeps the ends honest where it grows with mu.
    """
    networks = len(phi)
    mu = phi.mean(axis=0)
    centred = phi - mu
    # With fewer networks than places the Gram matrix over networks is the smaller one; it has the same traces.
    gram = (centred @ centred.T if networks < phi.shape[1] else centred.T @ centred) / (networks - 1)
    square = float(mu @ mu - np.trace(gram) / networks)
    noise = 2 * float(np.sum(gram**2)) / networks**2
    # mu carries noise too, which adds 4 tr C^2 / n^2 to its quadratic form; the variance is never below the law's.
    along = float(np.sum((centred @ mu) ** 2)) / (networks - 1)
    reach = float(stats.norm.ppf(confidence)) * sqrt(max(4 * along / networks - noise, noise))
    return square - reach, square + reach
