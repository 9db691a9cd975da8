"""The statistics of the preliminaries: shape, relative errors and rates, each where what it should find is known."""

from math import exp, sqrt

import numpy as np
import pytest
from power import most

from rndlib.paper.evidence import statistics

POINTS = 16
RNG = np.random.default_rng(0)
ROOT = np.linalg.qr(RNG.standard_normal((POINTS, POINTS)))[0] * np.geomspace(0.1, 3, POINTS)
LAW = statistics.centred(ROOT @ ROOT.T)


# The Gaussian shape


def test_excess_kurtosis_is_the_variance_of_the_covariance():
    """A factor of 1/2 or 3/2 on the covariance has variance 1/4."""
    missed = 0
    for _ in range(100):
        samples = RNG.standard_normal((4096, POINTS)) @ ROOT.T * np.sqrt(RNG.choice([0.5, 1.5], (4096, 1)))
        low, high = statistics.excess_kurtosis(samples, LAW).interval or (0, 0)
        missed += not low <= 0.25 <= high
    # 5 % at either end, and a little more as the fourth moment is skewed.
    assert missed <= most(100, 0.13)


def test_excess_kurtosis_sees_light_tails():
    at = RNG.uniform(-1, 1, (4096, POINTS)) * sqrt(3)
    found = statistics.excess_kurtosis(at, statistics.centred(np.eye(POINTS)))
    assert found.interval is not None
    low, high = found.interval
    assert low < high < 0
    assert found.value == -low


# Relative errors


def test_relative_error_is_one_number_per_network():
    expected = RNG.standard_normal((3, 4))
    found = expected * np.array([1, 1.1, 0])[:, None, None]
    np.testing.assert_allclose(statistics.relative_error(found, expected), [0, 0.1, 1], atol=1e-15)
    np.testing.assert_allclose(statistics.relative_error(found, found - expected, expected), [1] * 3)
    np.testing.assert_allclose(statistics.relative_error(found, found * 0, found + 2 * expected)[2], 0)


def test_typical_covers_the_geometric_mean():
    missed = 0
    for _ in range(300):
        found = statistics.typical(0.1 * np.exp(0.5 * RNG.standard_normal(8)))
        assert found.interval is not None
        low, high = found.interval
        assert found.value == high
        missed += (low > 0.1) + (high < 0.1)
    assert 0 < missed <= most(300, 0.1)


# The rate


WIDTHS = [64, 256, 1024]


@pytest.mark.parametrize("exponent", [-0.5, -1.0, 0.0])
def test_the_slope_of_a_power_law_and_its_distance_from_the_expected_one(exponent):
    differences = np.array([[3.0], [7.0]]) * np.array(WIDTHS, float) ** exponent
    slope, rate = statistics.slope(WIDTHS, differences), statistics.rate(WIDTHS, differences, -0.5)
    assert (slope.value, rate.value) == pytest.approx((exponent, abs(exponent + 0.5)))
    assert slope.interval == rate.interval == pytest.approx((exponent, exponent))


def test_rate_takes_the_farther_end():
    differences = np.power(np.array(WIDTHS, float), [[-0.4], [-0.5]])
    found = statistics.rate(WIDTHS, differences, -0.5)
    assert found.interval is not None
    low, high = found.interval
    assert found.value == pytest.approx(max(high + 0.5, -0.5 - low))
    assert exp(low) < exp(-0.45) < exp(high)
