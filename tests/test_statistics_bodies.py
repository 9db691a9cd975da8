"""The ratio over bodies: its value, and intervals that count bodies and not heads."""

import numpy as np
import pytest
from scipy import stats

from rndlib.evidence.statistics import over_bodies


def test_the_ratio_is_the_mean_over_heads_and_points_in_units_of_the_variance():
    errors = np.array([[1.0, 20.0], [3.0, 0.0], [1.0, 10.0], [1.0, 10.0]])  # two bodies of two heads
    ratio, low, high = over_bodies(errors, [1.0, 100.0], heads=2)
    per_body = np.array([(1 + 9 + 4 + 0) / 4, 1.0])
    half = stats.t.ppf(0.975, 1) * per_body.std(ddof=1) / np.sqrt(2)
    np.testing.assert_allclose([ratio, low, high], per_body.mean() + np.array([0, -half, half]))


def test_intervals_cover_where_heads_of_a_body_hang_together():
    """A body scales all of its heads. Heads taken as independent would give intervals a third as wide."""
    rng = np.random.default_rng(0)
    missed, runs, variance = 0, 400, np.array([1.0, 9.0, 0.04])
    for _ in range(runs):
        scale = rng.choice([0.5, 1.5], size=(16, 1, 1))
        errors = np.sqrt(scale * variance) * rng.standard_normal((16, 32, 3))
        _, low, high = over_bodies(errors.reshape(-1, 3), variance, heads=32)
        missed += not low <= 1 <= high
    # 5 % is meant; a two-valued scale on 16 bodies is not normal, so up to 8 % are allowed, and their scatter.
    assert missed <= stats.binom.ppf(1 - 1e-4, runs, 0.08)


@pytest.mark.parametrize(
    ("errors", "variance", "heads", "message"),
    [
        (np.ones((4, 2)), [1.0], 2, "variance has shape"),
        (np.ones((4, 2)), [1.0, 0.0], 2, "variance has 0"),
        (np.ones((4, 2)), [1.0, 1.0], 3, "errors has 4 rows"),
        (np.ones((4, 2)), [1.0, 1.0], 4, "at least two"),
        (np.ones((4, 2)), [1.0, 1.0], 0, "heads = 0"),
    ],
)
def test_bad_input(errors, variance, heads, message):
    with pytest.raises(ValueError, match=message):
        over_bodies(errors, variance, heads)
