"""Each statistic against exact draws of the Gaussian laws, where what it should find is known.

How often a claim's check is wrong at its tolerance is measured on the networks of the notebooks (`ci/repeats.py`).
"""

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest
from power import gaussian, most, same_law
from scipy import stats

from rndlib.paper.evidence import statistics
from rndlib.paper.evidence.control_variates import Sample


def _features(points: int, rank: int = 12, seed: int = 0) -> np.ndarray:
    """F of a smooth covariance F F^T: slow and fast waves over the line, whose variance changes tenfold along it."""
    x = np.linspace(0, 1, points)
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, rank)
    waves = np.cos(np.arange(rank) * 3 * x[:, None] + phases) * 0.75 ** np.arange(rank)
    return waves * (0.5 + 1.2 * x[:, None])


def _trained(rng: np.random.Generator, features: np.ndarray, networks: int = 512) -> Sample:
    """Draws of N(0, F F^T) for features F (points, rank), and control variates that correlate by 0.995 with them.

    Training moves a wide network about a tenth of its size away from its control variate.
    """
    own, moved = rng.standard_normal((2, networks, features.shape[-1]))
    others = rng.standard_normal((512, 32, features.shape[-1]))
    return Sample((own + 0.1 * moved) / sqrt(1.01), own, others).each(lambda z: z @ features.T)


# Ratios


def test_over_points_estimates_the_log_ratio():
    rng = np.random.default_rng(3)
    errors, functions = rng.standard_normal((50, 3)), rng.standard_normal((40, 3)) + 7
    found = statistics.over_points(errors, functions)
    logs, low, high = found.logs
    np.testing.assert_allclose(logs, np.log(np.mean(errors**2 / 2, 0) / functions.var(0, ddof=1)))
    np.testing.assert_allclose(high - logs, logs - low)
    assert found.value == max(-low.min(), high.max())
    assert found.interval == (low.min(), high.max())
    assert abs(found.estimate or 0) == abs(logs).max()
    np.testing.assert_allclose(found.ratios, np.stack([[1, 2, 3], *np.exp(found.logs)], axis=1))
    np.testing.assert_allclose(statistics.over_points(errors, functions, 1.0).logs, found.logs + log(2))


@pytest.mark.check
def test_over_points_covers_all_points_at_once():
    rng = np.random.default_rng(4)
    F = _features(16)
    missed = 0
    for _ in range(150):
        _, low, high = statistics.over_points(_trained(rng, sqrt(2) * F), _trained(rng, F)).logs
        missed += bool((low > 0).any() or (high < 0).any())
    assert missed <= most(150, 0.05)


@pytest.mark.check
def test_over_times_covers_all_times_at_once():
    rng = np.random.default_rng(6)
    F = _features(30)
    # Training shrinks the leading directions first, each at its own rate.
    laws = [F * np.exp(-4 * 0.75 ** np.arange(12) * t) for t in (0.1, 0.3, 1.0)]
    variance = np.sum(np.square(laws), axis=2)
    missed = 0
    for _ in range(100):
        errors, functions = ([_trained(rng, c * law) for law in laws] for c in (sqrt(2), 1))
        _, low, high = statistics.over_times(errors, functions, variance).logs
        missed += bool((low > 0).any() or (high < 0).any())
    assert missed <= most(100, 0.05)


def test_over_times_weighs_points_by_the_law():
    errors = np.array([[[2.0, 30.0], [-2.0, 10.0]]])
    functions = np.array([[[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]]])
    found = statistics.over_times(errors, functions, np.array([[1.0, 100.0]]))
    # 1/2 E[error^2] is 2 and 250, the variance 4 and 400.
    assert found.estimate == pytest.approx(log((2 + 2.5) / (4 + 4)))


# The Monte-Carlo error


def test_floor_is_that_of_the_claims():
    variance = np.array([1.0, 3.0])
    assert statistics.floor(variance, heads=512, members=513) == pytest.approx(4 * 5 / 512)
    assert statistics.floor(variance, heads=8, members=17) == pytest.approx(5 * (2 / 8 + 2 / 16))


@pytest.mark.parametrize(("heads", "members"), [(64, 65), (5, 40)])
def test_floor_draws_follow_the_law_of_brute_force(heads, members):
    F = _features(40)
    draws = statistics.floor_draws(F @ F.T, heads, members, draws=800)
    rng = np.random.default_rng(7)
    floor = statistics.floor(np.sum(F**2, 1), heads, members)

    def estimate(dof: int) -> np.ndarray:
        """A variance at every point, of functions that are all drawn."""
        return np.mean((F @ rng.standard_normal((F.shape[1], dof))) ** 2, axis=1)

    brute = [np.mean((estimate(heads) - estimate(members - 1)) ** 2) for _ in range(800)]
    assert abs(draws.mean() - 1) < 5 * draws.std() / sqrt(800)
    assert same_law(draws, np.array(brute) / floor)
    assert not same_law(1.3 * draws, np.array(brute) / floor)  # The power: a floor that is off by 30 %.
    np.testing.assert_allclose(statistics.floor_draws(9 * F @ F.T, heads, members, draws=20), draws[:20])


@pytest.mark.parametrize("mean_zero", [True, False])
def test_a_sharp_variance_is_unbiased_and_has_less_noise(mean_zero):
    """Of networks that are nearly their control variates; the mean is known to be zero, or must not count."""
    rng, shift = np.random.default_rng(8), 0 if mean_zero else 5
    found, plain = [], []
    for _ in range(300):
        own, off, others = (rng.standard_normal(shape) for shape in ((20, 2), (20, 2), (10, 8, 2)))
        samples, scale = 1.2 * own + 0.2 * off + shift, np.array([1.0, 3.0])
        sample = Sample(samples, own + shift, others + shift).each(lambda values, scale=scale: scale * values)
        found.append(statistics.sharp_variance(sample, mean_zero) / scale**2)
        plain.append(np.var(samples, axis=0, ddof=1))
    error = np.std(found) / sqrt(600)
    assert abs(np.mean(found) - (1.2**2 + 0.2**2)) < 4 * error
    assert np.std(found) < 0.75 * np.std(plain)


# The slope


def test_slope_covers():
    """A bias as large as the variance at width 32 that falls as 1 / width, seen over the floor of 512 heads."""
    rng = np.random.default_rng(9)
    widths = np.array([32, 64, 128, 256, 512, 1024, 2048, 4096])
    expected = (32 / widths) ** 2 + 4 / 512
    truth = np.polyfit(np.log(widths), np.log(expected), 1)[0]
    missed = 0
    for _ in range(300):
        # The floor's logarithm scatters by about 0.6 from seed to seed where the field over x has few dimensions.
        scatter = np.exp(0.6 * rng.standard_normal((5, 8)))
        missed += statistics.slope(widths.tolist(), scatter * expected).value < truth
    assert missed <= most(300, 0.05)


# Agreement over test points


def test_calibration_of_a_line():
    x = np.array([0.1, 0.5, 2.0, 3.0])
    assert statistics.calibration(x, 1.7 * x) == pytest.approx((1.7, 1))
    assert statistics.calibration(1.7 * x, x) == pytest.approx((1 / 1.7, 1))


def test_calibration_is_not_pulled_down_by_the_error_of_the_ensemble():
    rng = np.random.default_rng(10)
    truth = rng.uniform(0, 1, 50_000)
    x, y = truth + 0.3 * rng.standard_normal((2, 50_000))
    slope, _ = statistics.calibration(x, y)
    # The delta method puts the standard error below sqrt(2 / n) times error over signal, 0.3 / rms(truth) = 0.52.
    assert abs(slope - 1) < 5 * sqrt(2 / 50_000) * 0.52 * sqrt(1 + 0.52**2)
    assert np.polyfit(x, y, 1)[0] < 0.6


def test_agreement_counts_a_lost_correlation():
    rng = np.random.default_rng(12)
    ensemble = rng.uniform(1, 2, (5, 200))
    assert statistics.agreement(ensemble, ensemble).value == pytest.approx(0, abs=1e-9)
    # Same scale, no relation: the slope alone would pass.
    found = statistics.agreement(ensemble, rng.permuted(ensemble, axis=1))
    assert found.interval == pytest.approx((1, 1), abs=0.1)
    assert found.value > 0.8


def test_interval_over_seeds_is_students_of_the_log():
    logs = np.array([[0.0, 1.0], [0.2, 3.0], [0.1, 2.0]])
    mean, low, high = statistics.over_seeds(np.exp(logs))
    centre = np.array([0.1, 2.0])
    np.testing.assert_allclose(mean, np.exp(centre))
    half = stats.t.ppf(0.975, 2) * logs.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(low, np.exp(centre - half))
    np.testing.assert_allclose(high, np.exp(centre + half))


UNIT, ONES, TWO = statistics.centred(np.eye(6)), np.ones((9, 2)), np.ones(2)
SINGULAR = gaussian(0, np.ones((2, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.joint_law(np.zeros((3, 6)), UNIT), "3 networks for 6 points"),
        (lambda: statistics.joint_law(ONES, SINGULAR), "cov is not positive definite"),
        (lambda: statistics.joint_law(np.zeros((9, 6)), replace(UNIT, cov=None)), "full_cov=True"),
        (lambda: statistics.energy(np.zeros((9, 6)), UNIT, UNIT), "the law itself"),
        (lambda: statistics.energy(ONES, SINGULAR, SINGULAR), "cov is not positive definite"),
        (lambda: statistics.exact_draws(replace(UNIT, cov=None), 3), "full_cov=True"),
        (lambda: statistics.over_points(ONES, ONES), "a variance is not positive"),
        (lambda: statistics.over_times(ONES[None], ONES[None], np.array([[1.0, 0.0]])), "variance has 0"),
        (lambda: statistics.slope([32, 64], np.array([[1.0, 2.0]])), "1 seed gives no interval"),
        (lambda: statistics.slope([32, 32], ONES), "at least two different"),
        (lambda: statistics.slope([32, 64], np.array([[1.0, 0.0]] * 2)), "differences has 0: give positive"),
        (lambda: statistics.typical(np.array([0.1])), "1 seed"),
        (lambda: statistics.typical(np.array([0.1, 0.0])), "errors has 0: give positive"),
        (lambda: statistics.over_seeds(np.array([[1.0], [0.0]])), "values has 0: give positive"),
        (lambda: statistics.limit({8: [np.ones(3)]}), "at two or more"),
        (lambda: statistics.relative_variance(ONES, np.array([1.0, 0.0])), "variance has 0"),
        (lambda: statistics.dependence(np.ones((3, 2, 1)), np.eye(1)), "four of two heads"),
        (lambda: statistics.dependence(np.ones((9, 1, 1)), np.eye(1)), "four of two heads"),
        (lambda: statistics.dependence(np.ones((9, 2, 2)), np.ones((2, 2))), "positive definite"),
        (lambda: statistics.field_covariance(ONES, np.zeros((2, 2)), 2), "leave out training points"),
        (lambda: statistics.level(ONES[:1], TWO), "at least two"),
        (lambda: statistics.spread(ONES, 0 * TWO, 2), "leave out training points"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
