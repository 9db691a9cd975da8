"""Claims of notebook 02: independent heads, and the chi-squared law of K heads and of K + 1 ensemble members."""

from rndlib.evidence.claims.claim import Claim

_NOTEBOOK = "02_multihead_chi_squared"
_PROBABILITY = (
    "0.05: probabilities 'at most s' are off by five percentage points, as by a factor of 1.2 in scale with two heads; "
    "there, one degree of freedom fewer is ten off"
)

ROWS = [
    Claim(
        id="M1",
        statement="The heads of one body are independent, at every training time.",
        source="Proposition 3.3",
        notebook=_NOTEBOOK,
        statistic="correlation of heads in errors, squares and distances, the largest over times, upper 95 % end",
        check="dependence",
        unit="one body with its own seed",
        kind="equivalence",
        tolerance=0.2,
        why=(
            "squares with correlation r make the variance of the mean over two heads 1 + r times what it should be; "
            "0.2 is a fifth, and less than half of the correlation that sharing half of an output row would cause"
        ),
        control="heads that share half of an output row with the first one",
    ),
    Claim(
        id="M2",
        statement="Half the mean squared error of K heads, and the variance of K + 1 members, are Sigma/K chi2(K).",
        source="Theorem 3.4",
        notebook=_NOTEBOOK,
        statistic="error of the probabilities 'at most s', rms over s and points, the larger of both, upper 95 % end",
        check="distance_to_law",
        unit="one body of K heads, one ensemble of K + 1 members",
        kind="equivalence",
        tolerance=0.05,
        why=_PROBABILITY,
        control="K - 1 degrees of freedom",
    ),
    Claim(
        id="M2-pair",
        statement="Half the mean squared error of K heads has the law of the variance of K + 1 members.",
        source="Theorem 3.4",
        notebook=_NOTEBOOK,
        statistic="difference of the probabilities 'at most s', rms over s and test points, upper 95 % end",
        check="distance_between",
        unit="one body of K heads, one ensemble of K + 1 members",
        kind="equivalence",
        tolerance=0.05,
        why=_PROBABILITY,
        control="ensembles of K members",
    ),
    Claim(
        id="M3",
        statement="So it is over x: half the mean squared errors at x and x' have the covariance 2 Sigma(x, x')^2/K.",
        source="Theorem 3.4 at pairs of points, by Proposition 3.3 and Theorem 3.1",
        notebook=_NOTEBOOK,
        statistic="difference of the covariances from the law's over pairs of points, relative, rms, upper 95 % end",
        check="field_covariance",
        unit="one body of K heads",
        kind="equivalence",
        tolerance=0.5,
        why="half: nearer to the law than to independence over x, which is at 1",
        control="fields that are independent over x",
    ),
]
