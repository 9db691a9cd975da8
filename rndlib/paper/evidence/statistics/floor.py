"""RND error against ensemble variance over test points: the Monte-Carlo floor of Fig. 1, the agreement of Fig. 2.

Under the laws, K independent heads and M members estimate the variance Sigma(x, x) by independent scaled chi-squared
variables with K and M - 1 degrees of freedom. The floor is the mean square of their difference,
2 Sigma^2 / K + 2 Sigma^2 / (M - 1), or 4 Sigma^2 / K if M = K + 1. Over x the difference is one smooth random
field, so its mean square scatters widely around the floor even over thousands of test points. `floor_draws` simulates
that scatter. The claims N1 to N3 are about what is left when partners take most of the noise away (`sharp_variance`).
RND errors and ensemble variances are in the same units throughout.
"""

from math import atanh, exp, log, tanh

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from rndlib import checks
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.partners import Partners
from rndlib.paper.evidence.statistics.intervals import deviations, grouped, t_interval

_LEFT_OUT = 1e-3  # share of the variance in the directions that the simulation drops


def floor(variance: ArrayLike, heads: int, members: int) -> float:
    """Expected mean squared difference, over points, of estimates from K = `heads` and M = `members` networks.

    `variance` (points,) is the law's variance, in ensemble units.
    """
    variance = checks.array("variance", variance, None)
    rate = 2 / checks.whole("heads", heads, 1) + 2 / (checks.whole("members", members, 2) - 1)
    return float(np.mean(variance**2)) * rate


def floor_draws(
    cov: ArrayLike, heads: int, members: int, draws: int = 1000, seed: int = 0
) -> Float[np.ndarray, " draws"]:
    """Draws, under the laws, of the mean square over points of RND error minus ensemble variance, in floors.

    `cov` (points, points) is the law's covariance, whose scale does not matter. With cov = F F^T and W a Wishart matrix
    in the few coordinates of F, an estimate at x is f_x^T W f_x / dof, so no function is ever drawn. Relative to their
    mean, the draws hardly depend on the number of points: a random thousand is enough.
    """
    factor = _factor(checks.array("cov", cov, None, None))
    rng = np.random.default_rng(seed)
    dofs = checks.whole("heads", heads, 1), checks.whole("members", members, 2) - 1

    def difference() -> np.ndarray:
        rnd, ensemble = (
            np.sum((factor @ _wishart_factor(rng, factor.shape[1], dof)) ** 2, axis=1) / dof for dof in dofs
        )
        return rnd - ensemble

    expected = floor(np.sum(factor**2, axis=1), heads, members)
    return np.array([np.mean(difference() ** 2) for _ in range(checks.whole("draws", draws, 1))]) / expected


def sharp_variance(samples: ArrayLike, partners: Partners, mean_zero: bool = False) -> Float[np.ndarray, " points"]:
    """Variance at every point of the functions `samples` (networks, points), with the noise that partners leave.

    Without partners it would be the mean square, divided by one less than the number of networks unless their mean is
    known to be zero, as that of errors. The estimate is unbiased, but need not be positive.
    """
    samples = checks.array("samples", samples, None, None)

    def squares(values: np.ndarray) -> np.ndarray:
        return (values if mean_zero else deviations(values)) ** 2

    return np.sum([group.mean(axis=0) for group in grouped(squares, samples, partners)], axis=0)


def calibration(ensemble: ArrayLike, rnd: ArrayLike) -> tuple[float, float]:
    """Slope and Pearson correlation of the RND error `(points,)` against the ensemble variance `(points,)`.

    The slope is that of the line through the origin with the smallest perpendicular distances (total least squares).
    Both quantities vanish on the training set, hence the origin. Under the laws both carry the same error (K heads and
    K + 1 members), so this slope tends to 1, and that of ordinary least squares to less.
    """
    ensemble = checks.array("ensemble", ensemble, None)
    rnd = checks.array("rnd", rnd, len(ensemble))
    if len(rnd) < 3 or np.ptp(rnd) == 0 or np.ptp(ensemble) == 0:
        raise ValueError("ensemble and rnd must vary over at least three points for a correlation")
    across = 2 * float(ensemble @ rnd)
    along = float(rnd @ rnd - ensemble @ ensemble)
    return (along + float(np.hypot(along, across))) / across, float(np.corrcoef(ensemble, rnd)[0, 1])


@check
def agreement(ensemble: ArrayLike, rnd: ArrayLike) -> Finding:
    """The larger of |slope - 1| and 1 - correlation, each at the outer end of its interval over seeds (claim N3).

    `ensemble` and `rnd` are (seeds, points). The intervals are Student's, of the log slope and of Fisher's z; that of
    the slope is returned. The maximum is within a margin only if both are, so neither needs a correction for the other
    (an intersection-union test).
    """
    ensemble = checks.array("ensemble", ensemble, None, None)
    rnd = checks.array("rnd", rnd, *ensemble.shape)
    pairs = [calibration(*rows) for rows in zip(ensemble, rnd, strict=True)]
    low, high = map(exp, t_interval([log(slope) for slope, _ in pairs])[1:])
    # A correlation of one to rounding has no finite z.
    z = t_interval([atanh(min(correlation, 1 - 1e-12)) for _, correlation in pairs])
    return Finding(max(high - 1, 1 - low, 1 - tanh(z.low)), (low, high))


def _wishart_factor(rng: np.random.Generator, size: int, dof: int) -> np.ndarray:
    """Bartlett's triangular factor of a draw of Z Z^T, for standard normal Z of `(size, dof)`."""
    columns = min(size, dof)
    factor = np.tril(rng.standard_normal((size, columns)), -1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(dof - np.arange(columns))))
    return factor


def _factor(cov: np.ndarray) -> np.ndarray:
    """F of `(points, rank)` with F F^T = cov up to a `_LEFT_OUT` share of its trace."""
    if cov.shape[0] != cov.shape[1]:
        raise ValueError(f"cov has shape {cov.shape}: give a square matrix")
    values, vectors = linalg.eigh(cov)
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    if values[0] <= 0:
        raise ValueError("cov has no positive eigenvalue: give the covariance of functions that vary")
    rank = int(np.searchsorted(np.cumsum(values), (1 - _LEFT_OUT) * values.sum())) + 1
    # An eigenvector has either sign; one fixed choice makes every machine draw the same.
    signs = np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0))
    return (vectors * signs)[:, :rank] * np.sqrt(values[:rank])
