"""Errors at several widths, extrapolated to infinite width (claims E-limit, M-limit, B-limit and S-limit).

A network of finite width n deviates from its limit by terms of order 1/n and higher. A line in 1/n through the errors
at several widths, none of which is zero, should extrapolate to zero at 1/n = 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.statistics.intervals import CONFIDENCE, deviations, positive_variance

Groups = Sequence[Float[np.ndarray, " _"]]
"""Independent groups of networks, with one number each; an error is the sum of the groups' means."""


@dataclass(frozen=True)
class Limit(Finding):
    """The line `infinite + slope / n`, with the interval at infinite width, and the errors at the widths it is from.

    It is judged by the end of the interval that is farther from zero.
    """

    infinite: Estimate = field(kw_only=True)
    slope: float = field(kw_only=True)
    errors: tuple[Estimate, ...] = field(kw_only=True)


def relative_variance(samples: Any, variance: np.ndarray) -> Groups:
    """Relative error of the variance (ddof = 1) of samples (networks, points), averaged over test points.

    `variance` (points,) is the theory's.
    """
    variance = positive_variance(variance)
    return Sample.of(samples).groups(lambda values: np.mean(deviations(values) ** 2 / variance, axis=1) - 1)


def excess_spread(samples: Any, variance: np.ndarray, dof: int) -> Groups:
    """Excess of the mean squared deviation of q from Sigma over the theory's 2 Sigma^2 / dof, averaged over points.

    `samples` (networks, points) are the q of independent networks or ensembles; `variance` (points,) is Sigma(x, x),
    the theory's variance of one ensemble member; dof is heads per network, or members minus one. Under Theorem 3.4 it
    is zero. If the squared errors of heads on one network have the correlation r, it is (dof - 1) r.
    """
    variance = positive_variance(variance)
    return Sample.of(samples).groups(lambda values: np.mean((values / variance - 1) ** 2, axis=1) * dof / 2 - 1)


@check
def limit(errors: Mapping[int, Groups]) -> Limit:
    """The error at infinite width, by least squares on a line in 1/n, with Student's interval over networks.

    `errors` are by width, such as those of `relative_variance` or `excess_spread`, and independent. All widths have the
    same weight: weights from the data would prefer those at which the error happens to come out small. The interval has
    Welch's degrees of freedom; those of single widths are two-sided.
    """
    if len(errors) < 2:
        raise ValueError(f"errors has the widths {list(errors)}: give errors at two or more")
    # Two rows that give the line's height at 1/n = 0 and its slope, from the errors at all widths.
    height, slope = np.linalg.pinv(np.stack([np.ones(len(errors)), [1 / width for width in errors]], axis=1))
    at_widths = [_sum([(1.0, group) for group in groups], (1 + CONFIDENCE) / 2) for groups in errors.values()]
    weighted = [(weight, group) for weight, groups in zip(height, errors.values(), strict=True) for group in groups]
    infinite = _sum(weighted, CONFIDENCE)
    judged = Finding.farther(*infinite)
    line = float(slope @ [error.value for error in at_widths])
    return Limit(*judged.numbers, infinite=infinite, slope=line, errors=tuple(at_widths))


def limit_of_variance(samples: Mapping[int, Any], variance: np.ndarray) -> Limit:
    """`limit` of the `relative_variance` of samples by width."""
    return limit({width: relative_variance(sample, variance) for width, sample in samples.items()})


def _sum(groups: Sequence[tuple[float, np.ndarray]], confidence: float) -> Estimate:
    """A weighted sum of means of independent groups, with its interval."""
    value = float(sum(weight * group.mean() for weight, group in groups))
    terms = [weight**2 * group.var(ddof=1) / len(group) for weight, group in groups]
    if not (total := float(sum(terms))) > 0:
        return Estimate(value, value, value)
    spread = sum(term**2 / (len(group) - 1) for term, (_, group) in zip(terms, groups, strict=True))
    half_width = sqrt(total) * float(stats.t.ppf(confidence, total**2 / spread))
    return Estimate(value, value - half_width, value + half_width)
