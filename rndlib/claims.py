"""The paper's claims, each declared once: what is said, where, how it is checked, and how far off it may be.

The tolerances stand here, before any run; `why` says where each comes from. Everything that shows a claim (the
notebooks' ledgers, the command line, the README) reads this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from types import MappingProxyType
from typing import Literal

Kind = Literal["equivalence", "rate", "floor"]


@dataclass(frozen=True)
class Claim:
    """One row of the ledger, as declared.

    id: the row's name, as in "E1".
    statement: the claim in one line.
    source: its place in the paper.
    notebook: the notebook that checks it.
    statistic: the number that is compared with `tolerance`; the check passes where it is at most that.
    unit: what is independent of what, hence what the interval counts.
    kind: "equivalence" at a margin, a "rate", or agreement with a Monte-Carlo "floor".
    tolerance: the largest value at which the check passes.
    why: where the tolerance comes from; nothing in it is a number that a run of the notebook found.
    control: the wrong variant that the same check must reject.
    """

    id: str
    statement: str
    source: str
    notebook: str
    statistic: str
    unit: str
    kind: Kind
    tolerance: float
    why: str
    control: str


@dataclass(frozen=True)
class Finding:
    """What a statistic found: the number to hold against a claim's tolerance, and the interval it comes from."""

    value: float
    interval: tuple[float, float] | None = None


_ENSEMBLE = "01_ensemble_equivalence"
_EXPERIMENT = "05_numerical_analysis"
_JOINT = "whitened distance to the law per square root of a test point, upper 95 % end"
_JOINT_WHY = (
    "0.25 is a mean off by a quarter of a standard deviation in every whitened direction, or variances off by 35 %; "
    "about 0.03 nats of Kullback-Leibler divergence a test point"
)
_FLOOR = "expected mean squared difference at the largest width over the Monte-Carlo floor, upper 95 % end"
_FLOOR_WHY = (
    "9 is a root mean squared difference of three times the Monte-Carlo noise, 27 % of the variance with 512 heads; "
    "under the laws, five seeds of each stay below 5 in 99 of 100 runs"
)
_SLOPE = "slope of log mean squared difference on log width, floor included, upper 95 % end"
_SLOPE_WHY = "-1/4 halves the difference with every 16-fold widening; a difference that stays has slope 0"
_SEED = "one seed: an ensemble and an RND model of its own"

_ROWS = [
    Claim(
        id="E1",
        statement="A converged ensemble is Gaussian with the mean and covariance of the trained-network law.",
        source="Theorem 2.1",
        notebook=_ENSEMBLE,
        statistic=_JOINT,
        unit="one ensemble member",
        kind="equivalence",
        tolerance=0.25,
        why=_JOINT_WHY,
        control="the NTK-GP posterior covariance in place of the ensemble's",
    ),
    Claim(
        id="E2",
        statement="The converged RND error is Gaussian with zero mean and the covariance of the prior kappa twice.",
        source="Theorem 3.1",
        notebook=_ENSEMBLE,
        statistic=_JOINT,
        unit="one pair of predictor and target, one head",
        kind="equivalence",
        tolerance=0.25,
        why=_JOINT_WHY,
        control="the prior kappa once instead of twice",
    ),
    Claim(
        id="E3",
        statement="Half the expected squared RND error equals the ensemble variance at every x, whatever the labels.",
        source="Corollary 3.2, with the half of its proof",
        notebook=_ENSEMBLE,
        statistic="largest absolute log ratio over test points, outer end of the simultaneous 95 % band",
        unit="one network with its own seed, RND pair or ensemble member",
        kind="equivalence",
        tolerance=log(2) / 2,
        why="half of log 2: every ratio is nearer to 1 than to the 2 of the printed form",
        control="without the half, as printed",
    ),
    Claim(
        id="E4",
        statement="Half the mean squared RND error equals the ensemble variance at every training time.",
        source="Corollary 3.2, carried to finite t by the error dynamics of Section 3",
        notebook=_ENSEMBLE,
        statistic="largest absolute log ratio over training times, each averaged over test points, outer 95 % end",
        unit="one network with its own seed, RND pair or ensemble member",
        kind="equivalence",
        tolerance=log(1.25),
        why="25 % of the variance, about 12 % of a standard deviation",
        control="RND at time t against the ensemble at 2t",
    ),
    Claim(
        id="N1",
        statement="Ensemble variance and RND error differ by no more than Monte-Carlo noise in a wide network.",
        source="Fig. 1",
        notebook=_EXPERIMENT,
        statistic=_FLOOR,
        unit=_SEED,
        kind="floor",
        tolerance=9.0,
        why=_FLOOR_WHY,
        control="RND against the Bayesian ensemble",
    ),
    Claim(
        id="N1-slope",
        statement="The mean squared difference between ensemble variance and RND error falls with width.",
        source="Fig. 1",
        notebook=_EXPERIMENT,
        statistic=_SLOPE,
        unit=_SEED,
        kind="rate",
        tolerance=-0.25,
        why=_SLOPE_WHY,
        control="RND against the Bayesian ensemble",
    ),
    Claim(
        id="N2",
        statement="Bayesian ensemble variance and Bayesian RND error differ by no more than Monte-Carlo noise.",
        source="Fig. 1",
        notebook=_EXPERIMENT,
        statistic=_FLOOR,
        unit=_SEED,
        kind="floor",
        tolerance=9.0,
        why=_FLOOR_WHY,
        control="Bayesian RND against the standard ensemble",
    ),
    Claim(
        id="N2-slope",
        statement="The mean squared difference of the Bayesian pair falls with width.",
        source="Fig. 1",
        notebook=_EXPERIMENT,
        statistic=_SLOPE,
        unit=_SEED,
        kind="rate",
        tolerance=-0.25,
        why=_SLOPE_WHY,
        control="Bayesian RND against the standard ensemble",
    ),
    Claim(
        id="N3",
        statement="Over test points, RND error and ensemble variance correlate and scale one to one, both pairs.",
        source="Fig. 2 (a), (b)",
        notebook=_EXPERIMENT,
        statistic="the larger of 1 - correlation and the error of the slope at the largest width, upper 95 % end",
        unit=_SEED,
        kind="equivalence",
        tolerance=0.25,
        why="a quarter of the step from slope 1 to the slope 2 that the missing half would give",
        control="without the half (slope 2)",
    ),
]

CLAIMS: Mapping[str, Claim] = MappingProxyType({claim.id: claim for claim in _ROWS})
