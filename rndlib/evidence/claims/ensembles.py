"""Claims of notebook 01: an ensemble's law, RND's law, and their equality in expectation."""

from math import log

from rndlib.evidence.claims.claim import Claim
from rndlib.evidence.claims.shared import JOINT, JOINT_WHY

_NOTEBOOK = "01_ensemble_equivalence"

ROWS = [
    Claim(
        id="E1",
        statement="A converged ensemble is Gaussian with the mean and covariance of the trained-network law.",
        source="Theorem 2.1",
        notebook=_NOTEBOOK,
        statistic=JOINT,
        check="joint_law",
        unit="one ensemble member",
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the NTK-GP posterior covariance in place of the ensemble's",
    ),
    Claim(
        id="E2",
        statement="The converged RND error is Gaussian with zero mean and the covariance of the prior kappa twice.",
        source="Theorem 3.1",
        notebook=_NOTEBOOK,
        statistic=JOINT,
        check="joint_law",
        unit="one pair of predictor and target, one head",
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the prior kappa once instead of twice",
    ),
    Claim(
        id="E3",
        statement="Half the expected squared RND error equals the ensemble variance at every x, whatever the labels.",
        source="Corollary 3.2, with the half of its proof",
        notebook=_NOTEBOOK,
        statistic="largest absolute log ratio over test points, outer end of the simultaneous 95 % band",
        check="over_points",
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
        notebook=_NOTEBOOK,
        statistic="largest absolute log ratio over training times, each averaged over test points, outer 95 % end",
        check="over_times",
        unit="one network with its own seed, RND pair or ensemble member",
        kind="equivalence",
        tolerance=log(1.25),
        why="25 % of the variance, about 12 % of a standard deviation",
        control="RND at time t against the ensemble at 2t",
    ),
]
