"""Claims of notebook 03: the engineered target, the error prior, and the posterior covariance it leads to."""

from math import log

from rndlib.evidence.claims.claim import Claim
from rndlib.evidence.claims.shared import JOINT, JOINT_WHY

_NOTEBOOK = "03_bayesian_target"
_PAIR = "one predictor with its target, one head"

ROWS = [
    Claim(
        id="B1",
        statement="The engineered target is a draw from GP(0, Theta - kappa).",
        source="Proposition 4.1",
        notebook=_NOTEBOOK,
        statistic=JOINT,
        check="joint_law",
        unit=_PAIR,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the last layer's part of psi not set to zero",
    ),
    Claim(
        id="B2",
        statement="Predictor and target are uncorrelated at the start and add up to an error prior of Theta.",
        source="Section 4, the equation for the error prior, with the proof of Theorem 4.2",
        notebook=_NOTEBOOK,
        statistic=JOINT + "; predictor and target together",
        check="joint_law",
        unit=_PAIR,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the target taken at its own psi instead of at the predictor's parameters",
    ),
    Claim(
        id="B3",
        statement="The converged Bayesian RND error has mean zero and the covariance of the NTK-GP posterior.",
        source="Theorem 4.2",
        notebook=_NOTEBOOK,
        statistic=JOINT,
        check="joint_law",
        unit=_PAIR,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the standard target in place of the engineered one",
    ),
    Claim(
        id="B3-time",
        statement="Before convergence, at time t, the error has the covariance of the law at t.",
        source="Theorem 4.2, carried to finite t by the error dynamics of Section 3",
        notebook=_NOTEBOOK,
        statistic=JOINT + "; the worst of the times",
        check="joint_law",
        unit=_PAIR,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="the posterior in place of the law at t",
    ),
    Claim(
        id="B4",
        statement="The expected squared Bayesian RND error equals the variance of a Bayesian ensemble at every x.",
        source="Theorem 4.2, with the Bayesian ensembles of Section 4",
        notebook=_NOTEBOOK,
        statistic="largest absolute log ratio over test points, outer end of the simultaneous 95 % band",
        check="over_points",
        unit="one network with its own seed, predictor or ensemble member",
        kind="equivalence",
        tolerance=log(2) / 2,
        why="half of log 2: every ratio is nearer to 1 than to the 1/2 that the half of standard RND would give",
        control="standard ensembles in place of Bayesian ones",
    ),
    Claim(
        id="B5",
        statement="With observation noise the error has the covariance of the noisy posterior, at every noise level.",
        source="Section 4, footnote on observation noise",
        notebook=_NOTEBOOK,
        statistic=JOINT + "; the worst of the noise levels",
        check="joint_law",
        unit=_PAIR,
        kind="equivalence",
        tolerance=0.25,
        why=JOINT_WHY,
        control="jittered targets, without the pull of the parameters to their start",
    ),
]
