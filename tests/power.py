"""Simulated runs of a check: how many may come out wrong, judged by the claim's declared tolerance."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from rndlib.paper.evidence.claims import CLAIMS
from rndlib.theory.laws import Gaussian

RUNS = 100
"""Enough to see a check that is wrong in a fifth of the runs, as `test_a_check_that_is_often_wrong_is_seen` shows."""


def most(runs: int, rate: float = 0.01) -> int:
    """The number of wrong runs that a check which is wrong at this rate exceeds once in 10,000 times."""
    return int(stats.binom.ppf(1 - 1e-4, runs, rate))


def judge(claim: str, findings: Sequence[Sequence[float]]) -> None:
    """Of `(value, control's value)` per run, one in 100 may fail the tolerance, and one in 100 controls may meet it."""
    tolerance = CLAIMS[claim].tolerance
    assert sum(value > tolerance for value, _ in findings) <= most(len(findings))
    assert sum(control <= tolerance for _, control in findings) <= most(len(findings))


def same_law(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two samples may be of one law, by Kolmogorov and Smirnov at a level of 1 in 10,000."""
    return np.asarray(stats.ks_2samp(first, second))[1] > 1e-4


def gaussian(mean: object, cov: object) -> Gaussian:
    """The law with this mean, which may be the same everywhere, and covariance."""
    cov = np.asarray(cov, float)
    return Gaussian(np.broadcast_to(np.asarray(mean, float), len(cov)), cov.diagonal(), cov)
