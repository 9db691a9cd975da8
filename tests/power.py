"""Simulated runs of a statistic: how many may come out wrong."""

import numpy as np
from scipy import stats

from rndlib.theory.laws import Gaussian


def most(runs: int, rate: float = 0.01) -> int:
    """The number of wrong runs that a check which is wrong at this rate exceeds once in 10,000 times."""
    return int(stats.binom.ppf(1 - 1e-4, runs, rate))


def same_law(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two samples may be of one law, by Kolmogorov and Smirnov at a level of 1 in 10,000."""
    return np.asarray(stats.ks_2samp(first, second))[1] > 1e-4


def gaussian(mean: object, cov: object) -> Gaussian:
    """The law with this mean, which may be the same everywhere, and covariance."""
    cov = np.asarray(cov, float)
    return Gaussian(np.broadcast_to(np.asarray(mean, float), len(cov)), cov.diagonal(), cov)
