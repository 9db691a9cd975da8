"""How good Gaussian predictions of real numbers are: proper scores, and how often an interval covers."""

from math import pi, sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import norm

from rndlib import checks

Rows = Float[np.ndarray, " t"]


def negative_log_likelihood(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean over points of `-log N(y | mean, std^2)`; lower is better.

    y, mean, std: (T,) each, in one unit u; the result is in nats, and moves by `log c` when u becomes c times smaller.

    Raises
    ------
    ValueError: shapes disagree, a number is not finite, or a std is not above 0.

    >>> from rndlib.practice import scores
    >>> round(scores.negative_log_likelihood([0.0, 2.0], [0.0, 0.0], [1.0, 1.0]), 3)
    1.919
    """
    y, mean, std = _checked(y, mean, std)
    return float(-norm.logpdf(y, mean, std).mean())


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean over points of the continuous ranked probability score of `N(mean, std^2)`; lower is better.

    `E|Y - y| - E|Y - Y'| / 2` for independent draws Y, Y' of the prediction, in closed form (Gneiting and Raftery,
    2007, Section 4.2). In the unit of y; for a std of nearly 0 it is the absolute error. One far miss costs in
    proportion to its distance, where `negative_log_likelihood` squares it. Arguments and errors as there.

    >>> from rndlib.practice import scores
    >>> round(scores.crps([0.0, 2.0], [0.0, 0.0], [1.0, 1.0]), 3)
    0.843
    """
    y, mean, std = _checked(y, mean, std)
    z = (y - mean) / std
    return float((std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / sqrt(pi))).mean())


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.9) -> float:
    """Share of points inside the central interval of `N(mean, std^2)` that should hold `level` of them.

    Best is `level` itself; a wide interval is not punished, so read it beside a proper score. Arguments and errors as
    in `negative_log_likelihood`; also ValueError for a level that is not between 0 and 1.

    >>> from rndlib.practice import scores
    >>> scores.coverage([0.0, 2.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    y, mean, std = _checked(y, mean, std)
    return float((np.abs(y - mean) <= _half_width(std, level)).mean())


def interval_width(std: ArrayLike, level: float = 0.9) -> float:
    """Mean over points of the width of that interval, in the unit of `std` (T,). Errors as in `coverage`.

    >>> from rndlib.practice import scores
    >>> round(scores.interval_width([1.0, 1.0]), 2)
    3.29
    """
    return float(2 * _half_width(_positive(std, None), level).mean())


def _half_width(std: Rows, level: float) -> Rows:
    return norm.ppf((1 + checks.fraction("level", level)) / 2) * std


def _checked(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Rows, Rows, Rows]:
    y = checks.array("y", y, None)
    return y, checks.array("mean", mean, len(y)), _positive(std, len(y))


def _positive(std: ArrayLike, size: int | None) -> Rows:
    std = checks.array("std", std, size)
    if std.min() <= 0:
        raise ValueError(f"std has an entry of {std.min():.6g}: give standard deviations of observations, above 0")
    return std
