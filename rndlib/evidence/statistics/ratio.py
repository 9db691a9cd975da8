"""Half the squared RND error against the ensemble variance, as a ratio (claims E3 and E4).

Bayesian RND has no half: its squared error is held against the variance of a Bayesian ensemble as it is (claim B4).

On the log scale the two directions of a miss weigh the same, and the sampling error does not depend on the scale.
Each network contributes to the log ratio at a point its own influence, q_b / mean(q) - 1 with q_b its squared
deviation there; means of influences over independent networks give the standard errors and, across points and
times, their dependence.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.evidence.claims import Finding


@dataclass(frozen=True)
class LogRatio:
    """log(1/2 E[error^2] / Var[function]), or that without the half, at several points or times, with a joint band."""

    estimate: Float[np.ndarray, " places"]
    low: Float[np.ndarray, " places"]
    high: Float[np.ndarray, " places"]
    check: str = "over_points"

    @property
    def finding(self) -> Finding:
        """The band's outermost end in either direction, which holds against a margin for all places at once."""
        low, high = float(self.low.min()), float(self.high.max())
        return Finding(max(-low, high), (low, high), self.check)


def over_points(
    errors: ArrayLike, functions: ArrayLike, confidence: float = 0.95, seed: int = 0, half: bool = True
) -> LogRatio:
    """The ratio at each test point, with a band that covers all points at once.

    The width of the band is the upper quantile of the largest standardised deviation over the points, among normal
    draws with the covariance that the networks' influences have, so it takes account of how the points hang together.

    Parameters
    ----------
    errors: `(rnd networks, points)`, errors u - g of independently seeded pairs; their mean is taken as zero.
    functions: `(members, points)`, outputs of independently seeded ensemble members.
    confidence: of the whole band, two-sided.
    seed: of those draws.
    half: whether the squared error is halved, as that of standard RND is and that of Bayesian RND is not.

    Raises
    ------
    ValueError: shapes disagree, fewer than two networks, or outputs that do not vary.
    """
    errors = checks.array("errors", errors, None, None)
    functions = checks.array("functions", functions, None, errors.shape[1])
    tail = 1 - checks.fraction("confidence", confidence)
    rnd, ensemble = _squares(errors, functions)
    if not half:
        rnd = 2 * rnd
    influence = np.vstack([(squares / squares.mean(axis=0) - 1) / len(squares) for squares in (rnd, ensemble)])
    cov = influence.T @ influence
    error = np.sqrt(cov.diagonal())
    # By Cholesky, whose factor is unique, so that every machine draws the same; the ridge is far below the noise.
    ridge = 1e-9 * np.diag(cov.diagonal())
    draws = np.random.default_rng(seed).multivariate_normal(np.zeros(len(cov)), cov + ridge, 4000, method="cholesky")
    return _band("over_points", rnd, ensemble, error * float(np.quantile(np.abs(draws / error).max(axis=1), 1 - tail)))


def over_times(errors: ArrayLike, functions: ArrayLike, variance: ArrayLike, confidence: float = 0.95) -> LogRatio:
    """The ratio at several training times, each averaged over test points with weights 1 / variance.

    Parameters
    ----------
    errors: `(times, rnd networks, points)`, errors of independently seeded pairs.
    functions: `(times, members, points)`, outputs of independently seeded members at the same times.
    variance: `(times, points)`, the law's variance of a function; it makes every point count the same.
    confidence: of all times together, two-sided (Bonferroni: the same networks may serve at every time).

    Raises
    ------
    ValueError: shapes disagree, fewer than two networks, outputs that do not vary, or a variance that is not
        positive.
    """
    errors = checks.array("errors", errors, None, None, None)
    times, _, points = errors.shape
    functions = checks.array("functions", functions, times, None, points)
    variance = checks.array("variance", variance, times, points)
    if variance.min() <= 0:
        raise ValueError(f"variance has {variance.min():.3g}: give positive numbers; leave out training points")
    tail = 1 - checks.fraction("confidence", confidence)
    per_time = [_squares(*pair) for pair in zip(errors, functions, strict=True)]
    rnd = np.stack([(squares / var).mean(axis=1) for (squares, _), var in zip(per_time, variance, strict=True)], 1)
    ensemble = np.stack([(squares / var).mean(axis=1) for (_, squares), var in zip(per_time, variance, strict=True)], 1)
    error = np.sqrt(sum((s.std(axis=0, ddof=1) / s.mean(axis=0)) ** 2 / len(s) for s in (rnd, ensemble)))
    return _band("over_times", rnd, ensemble, error * float(stats.norm.ppf(1 - tail / 2 / times)))


def _squares(errors: np.ndarray, functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each network's contribution to 1/2 E[error^2] and to the variance with ddof = 1: their means over networks."""
    members = len(functions)
    if members < 2 or len(errors) < 2:
        raise ValueError(f"errors and functions have {len(errors)} and {members} networks: give at least two of each")
    rnd = errors**2 / 2
    ensemble = (functions - functions.mean(axis=0)) ** 2 * (members / (members - 1))
    for name, squares in (("errors", rnd), ("functions", ensemble)):
        if not squares.mean(axis=0).min() > 0:
            raise ValueError(f"{name} do not vary at one of the points: leave out training points")
    return rnd, ensemble


def _band(check: str, rnd: np.ndarray, ensemble: np.ndarray, half_width: np.ndarray) -> LogRatio:
    estimate = np.log(rnd.mean(axis=0) / ensemble.mean(axis=0))
    return LogRatio(estimate, estimate - half_width, estimate + half_width, check)
