"""Intervals over independent networks, bodies or seeds, and the parts that several statistics share."""

from collections.abc import Callable, Sequence
from math import exp, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.paper.evidence.claims import Finding
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.partners import Partners

CONFIDENCE = 0.95
"""Of each end of an interval, or of both together if it is two-sided: what the tolerances of the claims are for."""
STANDARD_ERRORS = float(stats.norm.ppf(CONFIDENCE))
"""To the end of a one-sided interval."""


def t_interval(values: ArrayLike, confidence: float = CONFIDENCE, sides: Literal[1, 2] = 1) -> Estimate:
    """Mean over seeds of `values`, `(seeds,)`, with Student's interval; `confidence` is for each end or for both."""
    values = checks.array("values", values, None)
    tail = (1 - checks.fraction("confidence", confidence)) / sides
    seeds, mean = len(values), float(values.mean())
    if seeds < 2:
        raise ValueError(f"{seeds} seed gives no interval: run at least two")
    half_width = float(stats.t.ppf(1 - tail, seeds - 1) * stats.sem(values))
    return Estimate(mean, mean - half_width, mean + half_width)


def over_seeds(values: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Geometric mean over seeds of positive `values`, `(seeds, places)`, and its interval: three arrays `(places,)`.

    The interval is Student's for the logarithm, two-sided.
    """
    logs = logarithms("values", values, None, None)
    mean, low, high = np.exp([t_interval(column, sides=2) for column in logs.T]).T
    return mean, low, high


def level(values: ArrayLike, variance: ArrayLike) -> Estimate:
    """Mean of the values over bodies as a multiple of Sigma(x, x), averaged over test points.

    `values` (bodies, points) are the variance estimates of bodies or ensembles; `variance` (points,) is Sigma(x, x),
    the law's variance of one ensemble member. Student's interval is two-sided.
    """
    return t_interval(_in_units(values, variance).mean(axis=1), sides=2)


def spread(values: ArrayLike, variance: ArrayLike, dof: int) -> Estimate:
    """Variance of the values over bodies as a multiple of 2 Sigma^2 / dof, averaged over test points.

    Arguments as in `level`; dof is heads per body, or members per ensemble minus one. The interval is two-sided, and
    normal for the logarithm.
    """
    relative = _in_units(values, variance)
    per_body = np.mean(deviations(relative) ** 2, axis=1)
    per_body *= checks.whole("dof", dof, 1) / 2
    estimate = float(per_body.mean())
    if not estimate > 0:
        raise ValueError("values are the same for all bodies: train bodies with seeds of their own")
    half_width = float(stats.norm.isf((1 - CONFIDENCE) / 2) * stats.sem(per_body)) / estimate
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
    return _length(float(mu @ mu), gram, R @ mu)


def squared_length_by_products(products: Float[np.ndarray, "n n"], sizes: Sequence[int]) -> tuple[float, float]:
    """As `squared_length`, from the scalar products of all phi in place of the phi; `sizes` are those of the groups."""
    group, count = np.repeat(np.arange(len(sizes)), sizes), np.asarray(sizes, float)
    averages = (np.arange(len(sizes))[:, None] == group) / count[:, None]  # one row per group
    scale = np.sqrt(count * (count - 1))[group]
    of_mu = averages.sum(axis=0)
    to_mu = products @ of_mu
    rows = products - (averages @ products)[group]
    gram = (rows - (rows @ averages.T)[:, group]) / np.outer(scale, scale)
    return _length(float(of_mu @ to_mu), gram, (to_mu - (averages @ to_mu)[group]) / scale)


def _length(square: float, gram: Float[np.ndarray, "n n"], along: Float[np.ndarray, " m"]) -> tuple[float, float]:
    """`squared_length` from |mu|^2 with the noise of mu in it, R^T R or R R^T, and R mu."""
    noise = 2 * float(np.sum(gram**2))
    # mu is noisy too, which adds 4 tr V^2 to its quadratic form; the variance is never below the law's.
    linear = 4 * float(np.sum(along**2))
    return square - float(np.trace(gram)), STANDARD_ERRORS * sqrt(max(linear - noise, noise))


def grouped(
    each: Callable[[np.ndarray], np.ndarray], samples: np.ndarray, partners: Partners | None
) -> list[Float[np.ndarray, "_ ..."]]:
    """Independent groups of networks or bodies whose means of `each` add up to an estimate of its mean over networks.

    `samples` (networks, ...) are of trained networks; without `partners` there is one group. `each` takes the samples
    or partners of a group, heads of one body as if they were networks, and gives an array of as many rows.
    """
    if partners is None:
        return [each(samples)]
    partners = checked(partners, samples)
    bodies, heads = partners.others.shape[:2]
    further = each(partners.others.reshape(-1, *samples.shape[1:]))
    further = further.reshape(bodies, heads, *further.shape[1:]).mean(axis=1)
    return [each(samples) - partners.share * each(partners.own), partners.share * further]


def checked(partners: Partners, samples: np.ndarray) -> Partners:
    """The partners of these samples (networks, ...), with a ValueError if they cannot be."""
    own = checks.array("partners.own", partners.own, *samples.shape)
    others = checks.array("partners.others", partners.others, None, None, *samples.shape[1:])
    if len(others) < 2:
        raise ValueError(f"partners.others has {len(others)} body: give at least two")
    return Partners(own, others)


def error_over_pairs(terms: Float[np.ndarray, "n n"]) -> float:
    """Standard error of a mean over pairs of independent networks, a U-statistic that may be degenerate.

    `terms` are centred at their mean and have zeros on the diagonal.
    """
    n = len(terms)
    noise = 2 * float(np.mean(terms**2)) / n**2
    # A network's row contains the noise of its partners too, once more than it should be counted.
    linear = 4 * float(terms.mean(axis=1).var(ddof=1)) / n
    return sqrt(max(linear - noise, noise))


def root_finding(square: float, half_width: float, unit: float = 1.0) -> Finding:
    """A distance, judged by its upper end, from the interval of its square in units of `unit`."""
    low, high = (sqrt(max(end, 0) / unit) for end in (square - half_width, square + half_width))
    return Finding.upper(low, high)


def positive_variance(variance: ArrayLike, *sizes: int) -> np.ndarray:
    """A law's variance as an array of these sizes, checked to be positive."""
    variance = checks.array("variance", variance, *sizes)
    if variance.min() <= 0:
        raise ValueError(f"variance has {variance.min():.3g}: give positive numbers; leave out training points")
    return variance


def logarithms(name: str, values: ArrayLike, *sizes: int | None) -> np.ndarray:
    """The logarithms of an array of these sizes, checked to be positive."""
    values = checks.array(name, values, *sizes)
    if values.min() <= 0:
        raise ValueError(f"{name} has {values.min():.3g}: give positive numbers, because logarithms are taken")
    return np.log(values)


def _in_units(values: ArrayLike, variance: ArrayLike) -> Float[np.ndarray, "bodies points"]:
    values = checks.array("values", values, None, None)
    if len(values) < 2:
        raise ValueError(f"values has {len(values)} body: give at least two")
    return values / positive_variance(variance, values.shape[1])
