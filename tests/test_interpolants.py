"""Interpolated Gaussian expectations, against their closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rndlib.theory import interpolants, interpolation
from rndlib.theory.expectations import expectations
from rndlib.theory.interpolants import interpolant
from rndlib.theory.mixtures import MIXTURES as CLOSED_FORMS

MIXTURES = ["silu", "tanh"]
ANY = 10**9  # Nodes, as if there were points enough for so many.
# Of a sum over as many nodes as there may be, rounded one by one; the closed form's own is less.
ROUNDING = 12 * interpolants.MOST_NODES * np.finfo(float).eps


def pairs(seed, largest):
    """Variances up to `largest`, zero among them, in any order, and covariances, with |rho| = 1 among them."""
    rng = np.random.default_rng(seed)
    q1, q2 = (rng.permutation(np.append([0.0, largest], largest * rng.random(size) ** 3)) for size in (58, 78))
    rho = rng.uniform(-1, 1, (60, 80))
    rho[:, ::5], rho[:, 1::5] = 1, -1
    return q1, q2, rho * np.sqrt(np.outer(q1, q2))


def strip(name, q1, q2, rows):
    """Of points that are to be interpolated."""
    series = interpolant(CLOSED_FORMS[name], q1, q2, ANY)
    assert series is not None
    return series.strip(rows)


def errors(name, q1, q2, c, rows):
    """Of value and slope, each relative to its largest."""
    found = strip(name, q1, q2, rows)(slice(10, 70), c[rows, 10:70])
    exact = expectations(name, q1[rows, None], q2[None, 10:70], c[rows, 10:70])
    return [np.abs(f - e).max() / np.abs(e).max() for f, e in zip(found, exact, strict=True)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(MIXTURES), st.integers(0, 2**32 - 1), st.floats(-1, 2.5), st.booleans())
def test_interpolant_and_closed_form_are_one(name, seed, magnitude, few):
    q1, q2, c = pairs(seed, 10.0**magnitude)
    rows = np.arange(0, 60, 7) if few else slice(0, 60)
    assert max(errors(name, q1, q2, c, rows)) < ROUNDING


@pytest.mark.parametrize("name", MIXTURES)
def test_few_points_are_nodes_themselves(name):
    q1, q2, c = pairs(0, 3.0)
    found = interpolant(CLOSED_FORMS[name], q1[:2], q2, ANY)
    assert found is not None
    assert found.coefficients.shape[2] == 2
    values = strip(name, q1[:2], q2, slice(0, 2))(slice(0, 80), c[:2])
    for part, exact in zip(values, expectations(name, q1[:2, None], q2[None], c[:2]), strict=True):
        np.testing.assert_allclose(part, exact, rtol=0, atol=ROUNDING * np.abs(exact).max())


@pytest.mark.parametrize("name", MIXTURES)
def test_the_number_of_nodes_is_what_bounds_the_error(name, monkeypatch):
    monkeypatch.setattr(interpolation, "ACCURACY", 1e-5)
    error = max(errors(name, *pairs(0, 3.0), slice(0, 60)))
    assert 1e-9 < error < 1e-5


@pytest.mark.parametrize("name", MIXTURES)
def test_what_the_closed_form_does_as_well_is_left_to_it(name):
    activation = CLOSED_FORMS[name]
    q1, q2, _ = pairs(0, 1.0)
    assert interpolant(activation, q1, q2, ANY) is not None
    # More nodes than are allowed in all, variances that the smallest noise swallows, and more nodes of one of them.
    assert interpolant(activation, q1, q2, 1000) is None
    assert interpolant(activation, 1e-4 * q1, 1e-4 * q2, ANY) is None
    many = np.linspace(0, 1e5, 200)
    assert interpolant(activation, many, many, ANY) is None
    assert interpolant(activation, many[-2:], many[-2:], ANY) is None  # nodes of y
    # Ends of float64, where there are more nodes than numbers.
    assert interpolant(activation, 1e149 * q1, 1e149 * q2, ANY) is None


def test_closed_forms_of_one_term_are_not_interpolated():
    q1, q2, _ = pairs(0, 1.0)
    assert [name for name in sorted(CLOSED_FORMS) if interpolant(CLOSED_FORMS[name], q1, q2, ANY)] == MIXTURES
