"""Half the squared RND error against the ensemble variance, as a log ratio (claims E3 and E4).

Bayesian RND has no half: its squared error is compared with the variance of a Bayesian ensemble directly (claim B4).

On the log scale, errors in either direction weigh the same, and the sampling error does not depend on the scale. The
influence of a network on the log ratio at a point is q_b / mean(q) - 1, with q_b its squared deviation there. Means of
influences over independent networks give the standard errors and their dependence across points and times.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.evidence.claims import Finding, check
from rndlib.evidence.statistics.intervals import positive_variance


@dataclass(frozen=True)
class LogRatio:
    """log(1/2 E[error^2] / Var[function]), or that without the half, at several points or times, with a joint band."""

    estimate: Float[np.ndarray, " places"]
    low: Float[np.ndarray, " places"]
    high: Float[np.ndarray, " places"]
    check: str | None = None

    @property
    def finding(self) -> Finding:
        """The band's outermost end in either direction, which holds for all places at once."""
        return replace(Finding.farther(float(self.low.min()), float(self.high.max())), check=self.check)


@check
def over_points(
    errors: ArrayLike, functions: ArrayLike, confidence: float = 0.95, seed: int = 0, half: bool = True
) -> LogRatio:
    """The ratio at each test point, with a two-sided band that covers all points at once.

    `errors` (rnd networks, points) are of independently seeded pairs, with mean zero; `functions` (members, points) are
    of independently seeded members. `half` halves the squared error, as for standard RND and not for Bayesian RND. The
    width of the band is a quantile of the largest standardised deviation over the points, simulated by normal draws
    with the covariance of the networks' influences.
    """
    errors = checks.array("errors", errors, None, None)
    functions = checks.array("functions", functions, None, errors.shape[1])
    confidence = checks.fraction("confidence", confidence)
    rnd, ensemble = _squares(errors, functions)
    if not half:
        rnd = 2 * rnd
    influence = np.vstack([(squares / squares.mean(axis=0) - 1) / len(squares) for squares in (rnd, ensemble)])
    cov = influence.T @ influence
    error = np.sqrt(cov.diagonal())
    # By Cholesky, whose factor is unique, so that every machine draws the same; the ridge is far below the noise.
    ridge = 1e-9 * np.diag(cov.diagonal())
    draws = np.random.default_rng(seed).multivariate_normal(np.zeros(len(cov)), cov + ridge, 4000, method="cholesky")
    return _band(rnd, ensemble, error * float(np.quantile(np.abs(draws / error).max(axis=1), confidence)))


@check
def over_times(errors: ArrayLike, functions: ArrayLike, variance: ArrayLike, confidence: float = 0.95) -> LogRatio:
    """The ratio at several training times, each averaged over test points with weights 1 / variance.

    `errors` (times, rnd networks, points), `functions` (times, members, points) and the law's `variance` (times,
    points). The band is two-sided for all times together (Bonferroni: the same networks may serve at every time).
    """
    errors = checks.array("errors", errors, None, None, None)
    times, _, points = errors.shape
    functions = checks.array("functions", functions, times, None, points)
    variance = positive_variance(variance, times, points)
    tail = (1 - checks.fraction("confidence", confidence)) / 2 / times
    rnd, ensemble = ((squares / variance[:, None]).mean(axis=2).T for squares in _squares(errors, functions))
    error = np.hypot(*(stats.sem(squares) / squares.mean(axis=0) for squares in (rnd, ensemble)))
    return _band(rnd, ensemble, error * float(stats.norm.ppf(1 - tail)))


def _squares(errors: np.ndarray, functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each network's contribution to 1/2 E[error^2] and to the variance with ddof = 1, at `(..., networks, points)`."""
    pairs, members = errors.shape[-2], functions.shape[-2]
    if min(pairs, members) < 2:
        raise ValueError(f"errors and functions have {pairs} and {members} networks: give at least two of each")
    rnd = errors**2 / 2
    ensemble = (functions - functions.mean(axis=-2, keepdims=True)) ** 2 * (members / (members - 1))
    for name, squares in (("errors", rnd), ("functions", ensemble)):
        if not squares.mean(axis=-2).min() > 0:
            raise ValueError(f"{name} do not vary at one of the points: leave out training points")
    return rnd, ensemble


def _band(rnd: np.ndarray, ensemble: np.ndarray, half_width: np.ndarray) -> LogRatio:
    estimate = np.log(rnd.mean(axis=0) / ensemble.mean(axis=0))
    return LogRatio(estimate, estimate - half_width, estimate + half_width)
