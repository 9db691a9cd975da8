"""Intervals over independent networks or seeds, and the parts that several statistics share."""

from collections.abc import Sequence
from math import exp, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.paper.evidence.claims import Finding
from rndlib.paper.evidence.estimate import Estimate

CONFIDENCE = 0.95
"""Of each end of an interval, or of both together if it is two-sided: what the tolerances of the claims are for."""
STANDARD_ERRORS = float(stats.norm.ppf(CONFIDENCE))
"""To the end of a one-sided interval."""


def t_interval(values: Sequence[float] | np.ndarray, sides: Literal[1, 2] = 1) -> Estimate:
    """Mean over seeds of `values`, `(seeds,)`, with Student's interval; the confidence is of each end or of both."""
    seeds, mean = np.size(values), float(np.mean(values))
    if seeds < 2:
        raise ValueError(f"{seeds} seed gives no interval: run at least two")
    half_width = float(stats.t.isf((1 - CONFIDENCE) / sides, seeds - 1) * stats.sem(values))
    return Estimate(mean, mean - half_width, mean + half_width)


def over_seeds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Geometric mean over seeds of positive `values`, `(seeds, places)`, and its interval: three arrays `(places,)`.

    The interval is Student's for the logarithm, two-sided.
    """
    mean, low, high = np.exp([t_interval(column, sides=2) for column in logarithms("values", values).T]).T
    return mean, low, high


def level(values: np.ndarray, variance: np.ndarray) -> Estimate:
    """Mean of the values over networks as a multiple of Sigma(x, x), averaged over test points.

    `values` (networks, points) are the variance estimates of networks or ensembles; `variance` (points,) is
    Sigma(x, x), the theory's variance of one ensemble member. Student's interval is two-sided.
    """
    return t_interval(np.mean(values / positive_variance(variance), axis=1), sides=2)


def spread(values: np.ndarray, variance: np.ndarray, dof: int) -> Estimate:
    """Variance of the values over networks as a multiple of 2 Sigma^2 / dof, averaged over test points.

    Arguments as in `level`; dof is heads per network, or members per ensemble minus one. The interval is two-sided, and
    normal for the logarithm.
    """
    per_network = np.mean(deviations(values / positive_variance(variance)) ** 2, axis=1) * dof / 2
    estimate = float(per_network.mean())
    half_width = float(stats.norm.isf((1 - CONFIDENCE) / 2) * stats.sem(per_network)) / estimate
    return Estimate(estimate, estimate * exp(-half_width), estimate * exp(half_width))


def deviations(values: Float[np.ndarray, "networks *places"]) -> Float[np.ndarray, "networks *places"]:
    """Deviations from the mean over networks, scaled so that their mean square is the variance with ddof = 1."""
    return (values - values.mean(axis=0)) * sqrt(len(values) / (len(values) - 1))


def squared_length(groups: Sequence[Float[np.ndarray, "_ places"]]) -> tuple[float, float]:
    """Unbiased estimate of |mu|^2, and the half-width of its interval.

    mu = sum E phi is over one or more independent groups of networks, which have one phi each. With the mean m of every
    group, of n networks with the covariance C, and V = sum C / n,

        E |sum m|^2 = |mu|^2 + tr V,   Var |sum m|^2 = 4 mu^T V mu + 2 tr V^2.

    C is estimated from the networks, so the ends remain correct if it grows with mu.
    """
    mu = np.sum([phi.mean(axis=0) for phi in groups], axis=0)
    # V = R^T R.
    R = np.concatenate([(phi - phi.mean(axis=0)) / sqrt(len(phi) * (len(phi) - 1)) for phi in groups])
    # With fewer networks than places, the Gram matrix over networks is smaller, and has the same traces.
    gram = R @ R.T if len(R) < R.shape[1] else R.T @ R
    noise = 2 * float(np.sum(gram**2))
    # The mean is noisy too, which adds 4 tr V^2 to its quadratic form; the variance is never below the theory's.
    linear = 4 * float(np.sum((R @ mu) ** 2))
    return float(mu @ mu) - float(np.trace(gram)), STANDARD_ERRORS * sqrt(max(linear - noise, noise))


def root_finding(square: float, half_width: float, unit: float = 1.0) -> Finding:
    """A distance, judged by its upper confidence limit, from the interval of its square in units of `unit`."""
    return Finding.upper(*(sqrt(max(of, 0) / unit) for of in (square, square - half_width, square + half_width)))


def positive_variance(variance: np.ndarray) -> np.ndarray:
    """The theory's variance, checked to be positive."""
    if np.min(variance) <= 0:
        raise ValueError(f"variance has {np.min(variance):.3g}: give positive numbers; leave out training points")
    return np.asarray(variance)


def logarithms(name: str, values: np.ndarray) -> np.ndarray:
    """The logarithms of an array, checked to be positive."""
    if np.min(values) <= 0:
        raise ValueError(f"{name} has {np.min(values):.3g}: give positive numbers, because logarithms are taken")
    return np.log(values)
