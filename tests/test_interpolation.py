"""Interpolation of functions that are analytic in the right half-plane."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rndlib.theory import interpolation
from rndlib.theory.interpolation import ACCURACY, Interval

EPS = np.finfo(float).eps
# Intervals from a point to a ratio of a million, whose polynomials have some hundred terms.
los, ratios = st.floats(1e-3, 1e3), st.floats(0, 6).map(lambda exponent: 10**exponent)
places = st.floats(-3, 3).map(lambda exponent: 10**exponent)


def bound(interval):
    """Of the error for a function that does not exceed 1 in the half-plane, and of rounding.

    Trefethen's theorem has 4 rho^-degree / (rho - 1), with rho^-degree at most `ACCURACY`; in sums over the nodes
    rounding grows as the logarithm of their number, at most 7 for the most nodes here, and with the basis' own error.
    """
    root = np.sqrt(interval.hi / interval.lo)
    r = max((root - 1) / (root + 1), 1e-3)
    rho = (1 + np.sqrt(1 - r * r)) / r
    return 4 * ACCURACY / (rho - 1) + 50 * interval.size * EPS


def inside(interval, count=300):
    return np.geomspace(interval.lo, interval.hi, count).clip(interval.lo, interval.hi)


@given(los, ratios, places, places)
def test_bounded_functions_are_known_between_the_nodes(lo, ratio, real, imaginary):
    """Of absolute value 1 on the imaginary axis, with poles anywhere to its left."""
    interval = Interval(lo, lo * ratio)

    def f(v):
        pole = lo * (real + 1j * imaginary)
        return ((v - pole) * (v - pole.conjugate()) / ((v + pole) * (v + pole.conjugate()))).real

    v = inside(interval)
    assert np.abs(f(interval.nodes) @ interval.basis(v) - f(v)).max() < bound(interval)


@pytest.mark.parametrize("ratio", [1.1, 2, 100])
def test_there_are_as_many_nodes_as_it_takes(ratio, monkeypatch):
    """Of a pole at the half-plane's edge; half as many would not do, nor does any number for a pole inside."""
    interval = Interval(1.0, float(ratio))
    v = inside(interval)
    middle = np.sqrt(ratio)

    def error(f):
        return np.abs(f(interval.nodes) @ interval.basis(v) - f(v)).max()

    def edge(v):
        return 1 / (v / middle + 1e-3)

    def within(v):
        return 1 / ((v / middle - 1) ** 2 + 0.01 * (1 - ratio**-0.5) ** 2)

    assert error(edge) < 1e-12
    assert error(within) > 1e-6
    monkeypatch.setattr(interpolation, "ACCURACY", ACCURACY**0.5)
    assert error(edge) > 1e-10
