"""The gain on diagonal kernels, where each direction can be followed in exact arithmetic."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from rndlib.theory.dynamics import carried, covariance, gain

EIGENVALUES = np.array([1e-11, 1e-4, 0.3, 1.0, 1.9])


@pytest.mark.parametrize("steps", [0, 1, 2, 37, 1000])
def test_descent_keeps_its_digits_in_every_direction(steps):
    """(1 - (1 - rate lambda)^k) / lambda as fractions of whole numbers, the learning rate 1 being exact."""
    exact = [(1 - (1 - Fraction(v)) ** steps) / Fraction(v) for v in EIGENVALUES.tolist()]
    G = gain(np.diag(EIGENVALUES), np.eye(5), float(steps), 1.0)
    # Relative, so that slow directions count too. k multiplies the rounding of 1 - rate lambda, hence the eps k.
    np.testing.assert_allclose(np.diag(G), [float(e) for e in exact], rtol=2e-16 * (steps + 10))


@pytest.mark.parametrize("time", [0.0, 1e-3, 5.0, 1e4])
def test_flow_keeps_its_digits_in_every_direction(time):
    """(1 - exp(-lambda t)) / lambda by its series where that converges fast, directly where nothing cancels."""
    x = EIGENVALUES * time
    series = time * sum((-x) ** k / np.prod(np.arange(1.0, k + 2)) for k in range(30))
    exact = np.where(x < 1, series, (1 - np.exp(-x)) / EIGENVALUES)
    np.testing.assert_allclose(np.diag(gain(np.diag(EIGENVALUES), np.eye(5), time, None)), exact, rtol=1e-14)


@pytest.mark.parametrize("learning_rate", [None, 0.5])
@pytest.mark.parametrize("smallest", [0.0, 1e-18, -1e-18])
def test_an_eigenvalue_of_zero_gives_the_time(smallest, learning_rate):
    G = gain(np.diag([smallest, 1.0]), np.eye(2), 100.0, learning_rate)
    np.testing.assert_allclose(np.diag(G), [100, 1], rtol=1e-14)


@pytest.mark.parametrize("smallest", [0.0, 1e-16, -1e-16])
@pytest.mark.parametrize("time", [1e10, 1e300, inf])
def test_an_eigenvalue_within_rounding_has_no_limit(time, smallest):
    # 1e-16 is below 2 eps = 4.4e-16; its Cholesky factor exists all the same.
    with pytest.raises(ValueError, match=r"X: the tangent kernel of its rows is singular in float64 \(its? .*\)"):
        gain(np.diag([smallest, 1.0]), np.eye(2), time, None)


def test_a_time_near_the_largest_float_is_the_limit():
    A = np.diag([0.5, 50.0])
    np.testing.assert_allclose(gain(A, np.eye(2), 1e308, None), gain(A, np.eye(2), inf, None), rtol=1e-15)


def test_conditioning_close_to_the_limit_is_accepted():
    A = np.diag([1e-14, 1.0])
    np.testing.assert_allclose(np.diag(gain(A, np.eye(2), inf, None)), [1e14, 1], rtol=1e-14)


def test_the_covariance_is_that_of_the_errors_that_are_carried():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    A, C = np.cov(rng.normal(size=(4, 20))), rng.normal(size=(4, 5))
    G = gain(A, C, 0.7, None)
    start = root @ root.T
    found = covariance(G, start[:4, :4], start[:4, 4:], start[4:, 4:])
    errors = carried(G, root.T[:, :4], root.T[:, 4:])  # whose products add up to the covariance
    np.testing.assert_allclose(found, errors.T @ errors, rtol=1e-12)
    np.testing.assert_allclose(covariance(G, start[:4, :4], start[:4, 4:], np.diag(start)[4:]), np.diag(found))
