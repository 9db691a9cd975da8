"""The law of 1/2 eps-bar^2 over bodies and of an ensemble's variance over ensembles (claims M2 and M2-pair).

The distance is that of Cramér and von Mises: by how much the probabilities "at most s" differ, as a root mean square
over s. It is taken over all test points at once, as the squared length of the mean of one vector a body,

    phi = (1[q(x) <= s] - P(s))  over the points x and the levels s,

with P the law's probability. A body, or an ensemble, counts once, whatever the dependence among its test points.
"""

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.length import squared_length

_LEVELS = (np.arange(32) + 0.5) / 32  # a grid of probabilities; twice as fine a one changes a distance by parts in 1000


def distance_to_law(values: ArrayLike, law: Any, confidence: float = 0.95) -> Finding:
    """Root mean square, over levels and test points, of what the values' probabilities are off the law's.

    Parameters
    ----------
    values: `(bodies, points)`, one row a body or an ensemble, independent of the others.
    law: a frozen SciPy distribution for each point, as `laws.mean_square` gives it.
    confidence: of each end of the interval, one-sided.

    Returns
    -------
    The interval, freed of sampling noise, and its upper end as the value. The law of other degrees of freedom is, at
    equal means, 0.10 away for 1 against 2, 0.05 for 2 against 3, and 0.016 for 7 against 8.

    Raises
    ------
    ValueError: values that are not a matrix of finite numbers, fewer than two bodies, or a law of another number of
        points.
    """
    return _length("distance_to_law", _below(values, law) - _LEVELS[:, None], confidence)


def distance_between(first: ArrayLike, second: ArrayLike, law: Any, confidence: float = 0.95) -> Finding:
    """Root mean square, over levels and test points, of what the probabilities of two samples differ by.

    Parameters
    ----------
    first, second: `(bodies, points)` each, independent samples of one size, as in `distance_to_law`.
    law: as in `distance_to_law`; its quantiles serve as levels for both, and its truth is not assumed.
    confidence: of each end of the interval, one-sided.

    Raises
    ------
    ValueError: as in `distance_to_law`, or samples of different sizes.
    """
    first = checks.array("first", first, None, None)
    second = checks.array("second", second, *first.shape)
    # Of two independent samples of one size, the rows make independent pairs in whatever order they come.
    return _length("distance_between", _below(first, law) - _below(second, law), confidence)


def _below(values: ArrayLike, law: Any) -> Float[np.ndarray, "bodies levels points"]:
    values = checks.array("values", values, None, None)
    quantiles = checks.array("law.ppf", law.ppf(_LEVELS[:, None]), len(_LEVELS), values.shape[1])
    return (values[:, None, :] <= quantiles).astype(float)


def _length(check: str, phi: Float[np.ndarray, "bodies levels points"], confidence: float) -> Finding:
    bodies, levels, points = phi.shape
    if bodies < 2:
        raise ValueError(f"values has {bodies} body: give at least two")
    ends = squared_length(phi.reshape(bodies, -1), checks.fraction("confidence", confidence))
    low, high = (sqrt(max(end, 0) / (levels * points)) for end in ends)
    return Finding(high, (low, high), check)
