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
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.partners import Partners
from rndlib.paper.evidence.statistics.intervals import CONFIDENCE, deviations, grouped, positive_variance

Pair = tuple[Partners | None, Partners | None]


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
    errors: ArrayLike,
    functions: ArrayLike,
    half: bool = True,
    partners: Pair = (None, None),
) -> LogRatio:
    """The ratio at each test point, with a two-sided band that covers all points at once.

    `errors` (rnd networks, points) are of independently seeded pairs, with mean zero; `functions` (members, points) are
    of independently seeded members. `half` halves the squared error, as for standard RND and not for Bayesian RND.
    `partners` of errors and functions lower the noise. The width of the band is a quantile
    of the largest standardised deviation over the points, simulated by normal draws with the covariance of the
    networks' influences.
    """
    errors = checks.array("errors", errors, None, None)
    functions = checks.array("functions", functions, None, errors.shape[1])
    (rnd, rnd_rows), (ensemble, ensemble_rows) = map(_influences, _squares(errors, functions, partners, half))
    rows = np.vstack([rnd_rows, ensemble_rows])
    cov = rows.T @ rows
    error = np.sqrt(cov.diagonal())
    # By Cholesky, whose factor is unique, so that every machine draws the same; the ridge is far below the noise.
    ridge = 1e-9 * np.diag(cov.diagonal())
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(cov)), cov + ridge, 4000, method="cholesky")
    return _band(rnd, ensemble, error * float(np.quantile(np.abs(draws / error).max(axis=1), CONFIDENCE)))


@check
def over_times(
    errors: ArrayLike,
    functions: ArrayLike,
    variance: ArrayLike,
    partners: Pair = (None, None),
) -> LogRatio:
    """The ratio at several training times, each averaged over test points with weights 1 / variance.

    `errors` (times, rnd networks, points), `functions` (times, members, points), the law's `variance` (times, points),
    and `partners` of errors and functions, as `Partners.stacked` gives them. The band is two-sided for all times
    together (Bonferroni: the same networks may serve at every time).
    """
    errors = checks.array("errors", errors, None, None, None)
    times, _, points = errors.shape
    functions = checks.array("functions", functions, times, None, points)
    variance = positive_variance(variance, times, points)
    tail = (1 - CONFIDENCE) / 2 / times
    squares = _squares(np.swapaxes(errors, 0, 1), np.swapaxes(functions, 0, 1), partners)
    averaged = ([np.mean(of / variance, axis=2) for of in groups] for groups in squares)
    (rnd, rnd_rows), (ensemble, ensemble_rows) = map(_influences, averaged)
    error = np.linalg.norm(np.vstack([rnd_rows, ensemble_rows]), axis=0)
    return _band(rnd, ensemble, error * float(stats.norm.ppf(1 - tail)))


@check
def to_law(squares: ArrayLike, variance: ArrayLike) -> LogRatio:
    """Squared errors of networks, or of bodies, over the variance of a law, averaged over test points.

    `squares` (networks, points), and the law's `variance` (points,). The interval is two-sided.
    """
    squares = checks.array("squares", squares, None, None)
    variance = positive_variance(variance, squares.shape[1])
    if len(squares) < 2:
        raise ValueError(f"squares has {len(squares)} network: give at least two")
    ratio, rows = _influences([np.mean(squares / variance, axis=1, keepdims=True)])
    tail = (1 - CONFIDENCE) / 2
    return _band(ratio, np.ones(1), np.linalg.norm(rows, axis=0) * float(stats.norm.ppf(1 - tail)))


def _squares(
    errors: np.ndarray, functions: np.ndarray, partners: Pair, half: bool = True
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Each network's contribution to the mean squared error, or half of it, and to the variance with ddof = 1."""
    pairs, members = len(errors), len(functions)
    if min(pairs, members) < 2:
        raise ValueError(f"errors and functions have {pairs} and {members} networks: give at least two of each")
    for name, size in (("errors", np.mean(errors**2, axis=0)), ("functions", functions.var(axis=0))):
        if not size.min() > 0:
            raise ValueError(f"{name} do not vary at one of the points: leave out training points")
    scale = 0.5 if half else 1.0
    rnd = grouped(lambda values: scale * values**2, errors, partners[0])
    return rnd, grouped(lambda values: deviations(values) ** 2, functions, partners[1])


def _influences(groups: list[np.ndarray]) -> tuple[np.ndarray, Float[np.ndarray, "networks places"]]:
    """The sum of the groups' means, and each network's influence on its logarithm."""
    total = np.sum([values.mean(axis=0) for values in groups], axis=0)
    if not np.min(total) > 0:
        raise ValueError("partners leave no variance at one of the points: give more networks")
    return total, np.vstack([(values - values.mean(axis=0)) / len(values) / total for values in groups])


def _band(rnd: np.ndarray, ensemble: np.ndarray, half_width: np.ndarray) -> LogRatio:
    estimate = np.log(rnd / ensemble)
    return LogRatio(estimate, estimate - half_width, estimate + half_width)
