"""Claims of notebook 05: the paper's numerical analysis, its Fig. 1 and Fig. 2."""

from rndlib.evidence.claims.claim import Claim

_NOTEBOOK = "05_numerical_analysis"
_FLOOR = "expected mean squared difference at the largest width over the Monte-Carlo floor, upper 95 % end"
_FLOOR_WHY = (
    "9 is a root mean squared difference of three times the Monte-Carlo noise, 27 % of the variance with 512 heads; "
    "under the laws, five seeds of each stay below 5 in 99 of 100 runs"
)
_SLOPE = "slope of log mean squared difference on log width, floor included, upper 95 % end"
_SLOPE_WHY = "-1/4 halves the difference with every 16-fold widening; a difference that stays has slope 0"
_SEED = "one seed: an ensemble and an RND model of its own"

ROWS = [
    Claim(
        id="N1",
        statement="Ensemble variance and RND error differ by no more than Monte-Carlo noise in a wide network.",
        source="Fig. 1",
        notebook=_NOTEBOOK,
        statistic=_FLOOR,
        check="above_floor",
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
        notebook=_NOTEBOOK,
        statistic=_SLOPE,
        check="slope",
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
        notebook=_NOTEBOOK,
        statistic=_FLOOR,
        check="above_floor",
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
        notebook=_NOTEBOOK,
        statistic=_SLOPE,
        check="slope",
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
        notebook=_NOTEBOOK,
        statistic="the larger of 1 - correlation and the error of the slope at the largest width, upper 95 % end",
        check="agreement",
        unit=_SEED,
        kind="equivalence",
        tolerance=0.25,
        why="a quarter of the step from slope 1 to the slope 2 that the missing half would give",
        control="without the half (slope 2)",
    ),
]
