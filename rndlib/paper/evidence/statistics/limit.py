"""Errors at several widths, extrapolated to infinite width (claims E-limit, M-limit, B-limit and S-limit).

A finite network of width n departs from its law by terms of order 1/n and higher. A line in 1/n through the errors at
several widths meets 1/n = 0 at an error that should be zero, though at no width is it zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.partners import Partners
from rndlib.paper.evidence.statistics.intervals import CONFIDENCE, deviations, grouped, positive_variance

Groups = Sequence[Float[np.ndarray, " _"]]


@dataclass(frozen=True)
class Limit:
    """The line `infinite + slope / n`, with the interval at infinite width, and the errors at the widths it is from."""

    infinite: Estimate
    slope: float
    errors: tuple[Estimate, ...]
    check: str | None = None

    @property
    def finding(self) -> Finding:
        """The interval at infinite width, judged by the end that is farther from zero."""
        return replace(Finding.farther(self.infinite.low, self.infinite.high), check=self.check)


def relative_variance(
    samples: ArrayLike, variance: ArrayLike, partners: Partners | None = None
) -> list[Float[np.ndarray, " _"]]:
    """Relative error of the variance (ddof = 1) of `samples` (networks, points), averaged over test points.

    `variance` (points,) is the law's. Returns groups of independent networks or bodies, with one number each; the error
    is the sum of the groups' means.
    """
    samples = checks.array("samples", samples, None, None)
    variance = positive_variance(variance, samples.shape[1])

    def errors(values: np.ndarray) -> np.ndarray:
        return np.mean(deviations(values) ** 2 / variance, axis=1) - 1

    return grouped(errors, samples, partners)


def excess_spread(
    values: ArrayLike, variance: ArrayLike, dof: int, partners: Partners | None = None
) -> list[Float[np.ndarray, " _"]]:
    """Excess of the mean squared deviation of q from Sigma over the law's 2 Sigma^2 / dof, averaged over test points.

    `values` (bodies, points) are the q of independent bodies or ensembles; `variance` (points,) is Sigma(x, x), the
    law's variance of one ensemble member; dof is heads per body, or members minus one. Under Theorem 3.4 it is zero.
    If the squared errors of heads on one body have the correlation r, it is (dof - 1) r. Returns groups of independent
    bodies, as `relative_variance` does; `partners` are those of the values (`Partners.half_mean_squares`).
    """
    values = checks.array("values", values, None, None)
    variance = positive_variance(variance, values.shape[1])
    dof = checks.whole("dof", dof, 1)

    def excess(values: np.ndarray) -> np.ndarray:
        return np.mean((values / variance - 1) ** 2, axis=1) * dof / 2 - 1

    return grouped(excess, values, partners)


@check
def limit(widths: ArrayLike, errors: Sequence[Groups]) -> Limit:
    """The error at infinite width, by least squares on a line in 1/n, with Student's interval over networks.

    At each of the `widths`, the error is the sum of the means of one or more groups of networks, such as those of
    `relative_variance` or `excess_spread`; the groups of all widths are independent. All widths have the same weight:
    weights from the data would prefer those at which the error happens to come out small. The interval has Welch's
    degrees of freedom; those of single widths are two-sided.
    """
    widths = checks.array("widths", widths, None)
    if len(np.unique(widths)) < 2 or len(errors) != len(widths) or widths.min() <= 0:
        raise ValueError(
            f"widths = {widths.tolist()} with errors at {len(errors)}: give errors at two or more different widths > 0"
        )
    groups = [[checks.array("errors", group, None) for group in at] for at in errors]
    if min(len(group) for at in groups for group in at) < 2:
        raise ValueError("errors has a group of one network: give at least two networks")
    # Two rows that give the line's height at 1/n = 0 and its slope, from the errors at all widths.
    height, slope = np.linalg.pinv(np.stack([np.ones(len(widths)), 1 / widths], axis=1))
    values = np.array([sum(group.mean() for group in at) for at in groups])
    at_widths = tuple(
        _estimate(float(value), [group.var(ddof=1) / len(group) for group in at], at, (1 + CONFIDENCE) / 2)
        for value, at in zip(values, groups, strict=True)
    )
    parts = [c**2 * group.var(ddof=1) / len(group) for c, at in zip(height, groups, strict=True) for group in at]
    infinite = _estimate(float(height @ values), parts, [group for at in groups for group in at], CONFIDENCE)
    return Limit(infinite, float(slope @ values), at_widths)


def _estimate(value: float, variances: Sequence[float], groups: Groups, confidence: float) -> Estimate:
    """A sum of independent means, with its interval: `variances` are those of the terms, over the `groups`."""
    total = float(sum(variances))
    spread = sum(part**2 / (len(group) - 1) for part, group in zip(variances, groups, strict=True))
    if not total > 0:
        return Estimate(value, value, value)
    half_width = sqrt(total) * float(stats.t.ppf(confidence, total**2 / spread))
    return Estimate(value, value - half_width, value + half_width)
