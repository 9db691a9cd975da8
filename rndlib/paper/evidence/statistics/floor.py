"""RND error against ensemble variance over test points: the Monte-Carlo error of Fig. 1, the agreement of Fig. 2.

Under the laws, K independent heads and M members estimate the variance Sigma(x, x) by independent scaled chi-squared
variables with K and M - 1 degrees of freedom. The Monte-Carlo error, the `floor`, is the mean square of their
difference, 2 Sigma^2 / K + 2 Sigma^2 / (M - 1), or 4 Sigma^2 / K if M = K + 1. Over x the difference is one smooth
random field, so its mean square scatters widely even over thousands of test points. `floor_draws` simulates that
scatter. The claims N1 to N3 are about what is left when control variates take most of the noise away
(`sharp_variance`). RND errors and ensemble variances are in the same units throughout.
"""

from math import atanh, exp, log, tanh
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.statistics.intervals import deviations, t_interval

_LEFT_OUT = 1e-3  # share of the variance in the directions that the simulation drops


def floor(variance: np.ndarray, heads: int, members: int) -> float:
    """Expected mean squared difference, over points, of estimates from K = `heads` and M = `members` networks.

    `variance` (points,) is the law's variance, in ensemble units.
    """
    return float(np.mean(np.square(variance))) * (2 / heads + 2 / (members - 1))


def floor_draws(
    cov: np.ndarray, heads: int, members: int, draws: int = 1000, seed: int = 0
) -> Float[np.ndarray, " draws"]:
    """Draws, under the laws, of the mean square over points of RND error minus ensemble variance, in floors.

    `cov` (points, points) is the law's covariance, whose scale does not matter. With cov = F F^T and W a Wishart matrix
    in the few coordinates of F, an estimate at x is f_x^T W f_x / dof, so no function is ever drawn. Relative to their
    mean, the draws hardly depend on the number of points: a random thousand is enough.
    """
    factor, rng = _factor(cov), np.random.default_rng(seed)

    def difference() -> np.ndarray:
        rnd, ensemble = (
            np.sum((factor @ _wishart_factor(rng, factor.shape[1], dof)) ** 2, axis=1) / dof
            for dof in (heads, members - 1)
        )
        return rnd - ensemble

    expected = floor(np.sum(factor**2, axis=1), heads, members)
    return np.array([np.mean(difference() ** 2) for _ in range(draws)]) / expected


def sharp_variance(samples: Any, mean_zero: bool = False) -> Float[np.ndarray, " points"]:
    """Variance at every point of samples (networks, points), with the noise that control variates leave.

    Without control variates it is the mean square, divided by one less than the number of networks unless their mean is
    known to be zero, as that of errors. The estimate is unbiased, but need not be positive.
    """
    groups = Sample.of(samples).groups(lambda values: (values if mean_zero else deviations(values)) ** 2)
    return np.sum([group.mean(axis=0) for group in groups], axis=0)


def calibration(ensemble: np.ndarray, rnd: np.ndarray) -> tuple[float, float]:
    """Slope and Pearson correlation of the RND error `(points,)` against the ensemble variance `(points,)`.

    The slope is that of the line through the origin with the smallest perpendicular distances (total least squares).
    Both quantities vanish on the training set, hence the origin. Under the laws both carry the same error (K heads and
    K + 1 members), so this slope tends to 1, and that of ordinary least squares to less.
    """
    across = 2 * float(np.dot(ensemble, rnd))
    along = float(np.dot(rnd, rnd) - np.dot(ensemble, ensemble))
    return (along + float(np.hypot(along, across))) / across, float(np.corrcoef(ensemble, rnd)[0, 1])


@check
def agreement(ensemble: np.ndarray, rnd: np.ndarray) -> Finding:
    """The larger of |slope - 1| and 1 - correlation, each at its outer confidence limit over seeds (claim N3).

    `ensemble` and `rnd` are (seeds, points). The intervals are Student's, of the log slope and of Fisher's z; that of
    the slope is returned. The maximum is within a margin only if both are, so neither needs a correction for the other
    (an intersection-union test).
    """
    pairs = [calibration(*rows) for rows in zip(np.asarray(ensemble), np.asarray(rnd), strict=True)]
    slope, low, high = map(exp, t_interval([log(slope) for slope, _ in pairs]))
    # A correlation of one to rounding has no finite z.
    z = t_interval([atanh(min(correlation, 1 - 1e-12)) for _, correlation in pairs])
    return Finding(max(high - 1, 1 - low, 1 - tanh(z.low)), (low, high), slope)


def _wishart_factor(rng: np.random.Generator, size: int, dof: int) -> np.ndarray:
    """Bartlett's triangular factor of a draw of Z Z^T, for standard normal Z of `(size, dof)`."""
    columns = min(size, dof)
    factor = np.tril(rng.standard_normal((size, columns)), -1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(dof - np.arange(columns))))
    return factor


def _factor(cov: np.ndarray) -> np.ndarray:
    """F of `(points, rank)` with F F^T = cov up to a `_LEFT_OUT` share of its trace."""
    values, vectors = linalg.eigh(cov)
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    rank = int(np.searchsorted(np.cumsum(values), (1 - _LEFT_OUT) * values.sum())) + 1
    # An eigenvector has either sign; one fixed choice makes every machine draw the same.
    signs = np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0))
    return (vectors * signs)[:, :rank] * np.sqrt(values[:rank])
