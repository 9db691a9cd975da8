"""The law of 1/2 eps-bar^2 over bodies and of an ensemble's variance over ensembles (claims M2 and M2-pair).

The distance is Kolmogorov's: by how much the two sides may differ about any probability "at most s". A body, or an
ensemble, counts once at each test point. Test points are never pooled: each gives a distance of its own, with a band
that holds at all of them at once (Bonferroni, whatever their dependence).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.claims import Finding


def distance_to_law(values: ArrayLike, law: Any, confidence: float = 0.95) -> Finding:
    """Largest Kolmogorov distance over the test points between the law that the values follow and `law`.

    The distance from the sample differs from that by no more than the sample's own, whose law is the same whatever the
    values follow (the Kolmogorov-Smirnov statistic), so the interval is exact at every number of bodies.

    Parameters
    ----------
    values: `(bodies, points)`, one row a body or an ensemble, independent of the others.
    law: a frozen SciPy distribution for each point, as `laws.mean_square` gives it.
    confidence: of the interval for all points, two-sided.

    Returns
    -------
    The interval of the largest distance, and its upper end as the value.

    Raises
    ------
    ValueError: values that are not a matrix of finite numbers, or a law of another number of points.
    """
    values = checks.array("values", values, None, None)
    bodies, points = values.shape
    places = checks.array("law.cdf(values)", law.cdf(values), bodies, points)
    distances = [stats.kstest(column, "uniform").statistic for column in places.T]
    return _within(distances, bodies, confidence)


def distance_between(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Finding:
    """Largest Kolmogorov distance over the test points between the laws of two independent samples.

    The band is that of the two-sample statistic for equal laws: laws that differ by less than a margin of a tenth have
    nearly the same.

    Parameters
    ----------
    first, second: `(bodies, points)` each, as in `distance_to_law`; the numbers of bodies may differ.
    confidence: of the interval for all points, two-sided.

    Raises
    ------
    ValueError: shapes disagree.
    """
    first = checks.array("first", first, None, None)
    second = checks.array("second", second, None, first.shape[1])
    n, m = len(first), len(second)
    distances = [stats.ks_2samp(*columns, method="asymp").statistic for columns in zip(first.T, second.T, strict=True)]
    return _within(distances, max(1, round(n * m / (n + m))), confidence)


def _within(distances: list[Any], bodies: int, confidence: float) -> Finding:
    tail = (1 - checks.fraction("confidence", confidence)) / len(distances)
    reach = float(stats.kstwo.ppf(1 - tail, bodies))
    largest = float(np.max(distances))
    return Finding(min(1, largest + reach), (max(0, largest - reach), min(1, largest + reach)))
