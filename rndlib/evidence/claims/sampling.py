"""Claims of notebook 04: samples of the posterior made of Bayesian RND errors, and how many there are."""

from rndlib.evidence.claims.claim import Claim
from rndlib.evidence.claims.shared import JOINT, JOINT_WHY

_NOTEBOOK = "04_posterior_sampling"
_STANDARD = "standard RND errors added to the mean"
_BODY = "one body with its own seed, one head; the mean estimate is common to all"
_REPLACED = "heads drawn with replacement, as printed, and counted as independent"

ROWS = [
    Claim(
        id="S1",
        statement="Mean estimate plus Bayesian RND error has the mean and covariance of the NTK-GP posterior.",
        source="Corollary 4.3",
        notebook=_NOTEBOOK,
        statistic=JOINT,
        check="joint_law",
        unit=_BODY,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control=_STANDARD,
    ),
    Claim(
        id="S1-energy",
        statement="Mean estimate plus Bayesian RND error is a draw from the NTK-GP posterior, jointly over points.",
        source="Corollary 4.3",
        notebook=_NOTEBOOK,
        statistic="energy distance to the posterior over that of standard RND's law, upper 95 % end",
        check="energy",
        unit=_BODY,
        kind="equivalence",
        tolerance=0.5,
        why=(
            "a half: the energy distance is a metric, so that the samples are then nearer to the posterior than to the "
            "law of standard RND errors, which is at 1"
        ),
        control=_STANDARD,
    ),
    Claim(
        id="S2",
        statement="Samples made of different heads of one fit are independent.",
        source="Corollary 4.3, with Proposition 3.3",
        notebook=_NOTEBOOK,
        statistic="distance correlation of two samples of a fit, times the number of heads, upper 95 % end",
        check="dependence_of_samples",
        unit="one body of K heads with its own seed",
        kind="equivalence",
        tolerance=0.5,
        why="a half: nearer to independence than to drawing with replacement, whose distance correlation is 1/K",
        control=_REPLACED,
    ),
    Claim(
        id="S2-draws",
        statement="K samples drawn from a fit with K heads are K different ones.",
        source="Corollary 4.3, drawn without replacement",
        notebook=_NOTEBOOK,
        statistic="number of samples that repeat an earlier one, among K",
        check="repeats",
        unit="one fit of K heads",
        kind="equivalence",
        tolerance=0.5,
        why="less than one: a sample that comes twice is no second sample",
        control=_REPLACED,
    ),
]
