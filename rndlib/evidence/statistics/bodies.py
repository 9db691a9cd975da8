"""The variance of many heads on shared bodies over that of the law, with the body as the unit of replication."""

from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.statistics.seeds import t_interval


def over_bodies(
    errors: ArrayLike, variance: ArrayLike, heads: int, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean squared error over the law's variance, averaged over heads and test points, and its interval over bodies.

    Heads of one body share what it has learned, and points of one head its function; so they are averaged first, and
    one body gives one number.

    Parameters
    ----------
    errors: `(bodies * heads, points)`, errors of every head, body-major, as the estimators return them.
    variance: `(points,)`, the law's variance; it makes every point count the same.
    heads: of one body.
    confidence: of Student's interval, two-sided.

    Returns
    -------
    The ratio, and the ends of its interval.

    Raises
    ------
    ValueError: shapes disagree, rows that are no whole number of bodies, fewer than two bodies, or a variance that
        is not positive.
    """
    errors = checks.array("errors", errors, None, None)
    variance = checks.array("variance", variance, errors.shape[1])
    if variance.min() <= 0:
        raise ValueError(f"variance has {variance.min():.3g}: give positive numbers; leave out training points")
    if len(errors) % checks.whole("heads", heads, 1):
        raise ValueError(f"errors has {len(errors)} rows: give a whole number of bodies of {heads} heads")
    ratios = (errors**2 / variance).mean(axis=1).reshape(-1, heads).mean(axis=1)
    low, high = t_interval(ratios, (1 + checks.fraction("confidence", confidence)) / 2)
    return float(ratios.mean()), low, high
