"""How fast a discrepancy falls with width (claims N1-slope and N2-slope, P2-slope and P3)."""

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.seeds import t_interval


def slope(widths: ArrayLike, differences: ArrayLike, confidence: float = 0.95) -> Finding:
    """Slope of log difference on log width by least squares, one fit a seed; its interval over seeds, upper end.

    Parameters
    ----------
    widths: `(widths,)`, at least two different ones.
    differences: `(seeds, widths)`, positive.
    confidence: of each end, one-sided.

    Raises
    ------
    ValueError: shapes disagree, fewer than two seeds or widths, or a number that is not positive.
    """
    low, high = _slope_interval(widths, differences, confidence)
    return Finding(high, (low, high), "slope")


def rate(widths: ArrayLike, differences: ArrayLike, expected: float, confidence: float = 0.95) -> Finding:
    """How far that slope is from the `expected` one: its interval, and the distance of the farther end as the value.

    Arguments and errors as in `slope`; both ends inside a margin are two one-sided tests at `confidence`.
    """
    low, high = _slope_interval(widths, differences, confidence)
    expected = checks.real("expected", expected)
    return Finding(max(high - expected, expected - low), (low, high), "rate")


def _slope_interval(widths: ArrayLike, differences: ArrayLike, confidence: float) -> tuple[float, float]:
    widths = checks.array("widths", widths, None)
    differences = checks.array("differences", differences, None, len(widths))
    if widths.min() <= 0 or differences.min() <= 0:
        raise ValueError("widths and differences must be positive: their logarithms are fitted")
    if len(np.unique(widths)) < 2:
        raise ValueError(f"widths = {widths.tolist()}: give at least two different ones")
    slopes = np.polyfit(np.log(widths), np.log(differences).T, 1)[0]
    return t_interval(slopes, checks.fraction("confidence", confidence))
