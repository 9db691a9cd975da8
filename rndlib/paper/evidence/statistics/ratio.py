"""The squared RND error against the ensemble variance, as a log ratio (claims E3, E4, B4, A2 and those of notebook 08).

On the log scale, errors in either direction weigh the same, and the sampling error does not depend on the scale. The
influence of a network on the log ratio at a point is q_b / mean(q) - 1, with q_b its squared deviation there. Means of
influences over independent networks give the standard errors and their dependence across points.

`factor` multiplies the squared error: 1/2 for standard RND, and 1 for Bayesian RND.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.statistics.intervals import CONFIDENCE, deviations, positive_variance

Samples = Sequence[Any] | np.ndarray
"""One sample for each time."""


@dataclass(frozen=True)
class LogRatio(Finding):
    """The log ratio at several points or times: `logs` are the estimate and the ends of a joint band at each place.

    It is judged by the band's outermost end in either direction, which holds for all places at once; `estimate` is the
    one that is farthest from 0.
    """

    logs: Float[np.ndarray, "3 places"] = field(kw_only=True)

    @property
    def ratios(self) -> Float[np.ndarray, "places 4"]:
        """Number of the place, ratio, and the ends of its band, for figures."""
        return np.stack([np.arange(1, self.logs.shape[1] + 1), *np.exp(self.logs)], axis=1)


@check
def over_points(errors: Any, functions: Any, factor: float = 0.5) -> LogRatio:
    """The ratio at each test point, with a two-sided band that covers all points at once.

    `errors` (RND networks, points) are of independently seeded pairs, with mean zero; `functions` (members, points) are
    of independently seeded members. The width of the band is a quantile of the largest standardised deviation over the
    points, simulated by normal draws with the covariance of the networks' influences.
    """
    (rnd, ensemble), rows = _influences(*_squares(errors, functions))
    cov = rows.T @ rows
    error = np.sqrt(cov.diagonal())
    # By Cholesky, whose factor is unique, so that every machine draws the same; the ridge is far below the noise.
    ridge = 1e-9 * np.diag(cov.diagonal())
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(cov)), cov + ridge, 4000, method="cholesky")
    width = np.quantile(np.abs(draws / error).max(axis=1), CONFIDENCE)
    return _band(np.log(factor * rnd / ensemble), error * width)


@check
def over_times(errors: Samples, functions: Samples, variance: np.ndarray, factor: float = 0.5) -> LogRatio:
    """The ratio at several training times, each averaged over test points with weights 1 / variance.

    `errors` and `functions` are samples as in `over_points`, one for each time, and `variance` (times, points) is the
    theory's. The band is two-sided for all times together (Bonferroni: the same networks may serve at every time).
    """
    width = stats.norm.ppf(1 - (1 - CONFIDENCE) / 2 / len(errors))
    logs, half_widths = [], []
    for *samples, weights in zip(errors, functions, positive_variance(variance), strict=True):
        sides = [[np.mean(of / weights, axis=1, keepdims=True) for of in groups] for groups in _squares(*samples)]
        (rnd, ensemble), rows = _influences(*sides)
        logs.append(np.log(factor * rnd / ensemble))
        half_widths.append(np.linalg.norm(rows, axis=0) * width)
    return _band(np.concatenate(logs), np.concatenate(half_widths))


@check
def to_law(squares: np.ndarray, variance: np.ndarray) -> LogRatio:
    """Squared errors of networks over a theoretical variance, averaged over test points.

    `squares` (networks, points), and the theory's `variance` (points,). The interval is two-sided.
    """
    relative = np.mean(squares / positive_variance(variance), axis=1, keepdims=True)
    (ratio,), rows = _influences([relative])
    return _band(np.log(ratio), np.linalg.norm(rows, axis=0) * stats.norm.ppf((1 + CONFIDENCE) / 2))


def _squares(errors: Any, functions: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Each network's contribution to the mean squared error, and to the variance with ddof = 1."""
    of_functions = Sample.of(functions).groups(lambda values: deviations(values) ** 2)
    return Sample.of(errors).groups(np.square), of_functions


def _influences(*sides: list[np.ndarray]) -> tuple[list[np.ndarray], Float[np.ndarray, "networks places"]]:
    """The sum of the groups' means on each side of a ratio, and each network's influence on the logarithm."""
    totals = [np.sum([values.mean(axis=0) for values in groups], axis=0) for groups in sides]
    if not np.min(totals) > 0:
        raise ValueError(
            "a variance is not positive at one of the points: leave out training points, or train more networks"
        )
    pairs = [(values, total) for groups, total in zip(sides, totals, strict=True) for values in groups]
    return totals, np.vstack([(values - values.mean(axis=0)) / len(values) / total for values, total in pairs])


def _band(logs: np.ndarray, half_widths: np.ndarray) -> LogRatio:
    low, high = logs - half_widths, logs + half_widths
    judged = Finding.farther(float(logs[np.abs(logs).argmax()]), float(low.min()), float(high.max()))
    return LogRatio(*judged.numbers, logs=np.stack([logs, low, high]))
