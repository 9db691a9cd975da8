"""Whether RND error and ensemble variance agree from test point to test point (claim N3)."""

from math import atanh, exp, log, tanh

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.seeds import t_interval


def calibration(ensemble: ArrayLike, rnd: ArrayLike) -> tuple[float, float]:
    """Slope and Pearson correlation of the RND error against the ensemble variance over test points.

    The slope is that of the line through the origin which is closest in perpendicular distance (total least
    squares). Through the origin, because both vanish on the training set and scale is what is asked for; symmetric in
    the two, because under the laws both carry the same error (K heads and K + 1 members), so that it tends to 1
    where ordinary least squares is pulled below it, and swapping the axes gives the reciprocal.

    Parameters
    ----------
    ensemble: `(points,)`, ensemble variance.
    rnd: `(points,)`, RND error in the same units.

    Raises
    ------
    ValueError: shapes disagree, fewer than three points, or one of the two is constant.
    """
    ensemble = checks.array("ensemble", ensemble, None)
    rnd = checks.array("rnd", rnd, len(ensemble))
    if len(rnd) < 3 or np.ptp(rnd) == 0 or np.ptp(ensemble) == 0:
        raise ValueError("ensemble and rnd must vary over at least three points for a correlation")
    across = 2 * float(ensemble @ rnd)
    along = float(rnd @ rnd - ensemble @ ensemble)
    return (along + float(np.hypot(along, across))) / across, float(np.corrcoef(ensemble, rnd)[0, 1])


def agreement(ensemble: ArrayLike, rnd: ArrayLike, confidence: float = 0.95) -> Finding:
    """The larger of |slope - 1| and 1 - correlation, each at the outer end of its interval over seeds.

    Intervals are Student's, of the log slope and of Fisher's z. Both must lie inside a margin for their
    maximum to do so, so neither needs a correction for the other (an intersection-union test).

    Parameters
    ----------
    ensemble, rnd: `(seeds, points)`, one row a seed, as in `calibration`.
    confidence: of each end, one-sided.

    Returns
    -------
    The value, with the interval of the slope.
    """
    ensemble = checks.array("ensemble", ensemble, None, None)
    rnd = checks.array("rnd", rnd, *ensemble.shape)
    confidence = checks.fraction("confidence", confidence)
    pairs = [calibration(*rows) for rows in zip(ensemble, rnd, strict=True)]
    low, high = map(exp, t_interval(np.array([log(slope) for slope, _ in pairs]), confidence))
    # A correlation of one to rounding has no finite z.
    z = np.array([atanh(min(correlation, 1 - 1e-12)) for _, correlation in pairs])
    return Finding(max(high - 1, 1 - low, 1 - tanh(t_interval(z, confidence)[0])), (low, high), "agreement")
