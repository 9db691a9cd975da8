"""The series of the Gaussian expectations, against their closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rndlib import series as module
from rndlib.activations import ACTIVATIONS
from rndlib.expectations import expectations
from rndlib.series import has_series, series

MIXTURES = ["silu", "tanh"]
ALL = slice(0, 30), slice(0, 40)
# Some hundred terms, all of one sign where they are largest, are rounded one by one.
ROUNDING = 400 * np.finfo(float).eps


def pairs(seed, largest):
    """Variances up to `largest`, zero among them, in ascending order, and covariances, with |rho| = 1 among them."""
    rng = np.random.default_rng(seed)
    q1, q2 = (np.sort(np.append(0.0, largest * rng.random(size) ** 3)) for size in (29, 39))
    rho = rng.uniform(-1, 1, (30, 40))
    rho[:, ::5], rho[:, 1::5] = 1, -1
    return q1, q2, rho * np.sqrt(np.outer(q1, q2))


def errors(name, q1, q2, c):
    """Of value and slope, each relative to its largest, which is that at c = sqrt(q q')."""
    found = series(ACTIVATIONS[name], q1, q2).expectations(*ALL, c)
    assert found
    exact = expectations(ACTIVATIONS[name], q1[:, None], q2[None], c)
    last = expectations(ACTIVATIONS[name], q1[-1:, None], q2[None, -1:], np.sqrt(np.outer(q1[-1:], q2[-1:])))
    return [np.abs(f - e).max() / top.item() for f, e, top in zip(found, exact, last, strict=True)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(MIXTURES), st.integers(0, 2**32 - 1), st.floats(-6, 0.5))
def test_series_and_closed_form_are_one(name, seed, magnitude):
    assert max(errors(name, *pairs(seed, 10.0**magnitude))) < ROUNDING


@pytest.mark.parametrize("name", MIXTURES)
def test_the_truncation_is_what_bounds_the_error(name, monkeypatch):
    monkeypatch.setattr(module, "TRUNCATION", 1e-6)
    error = max(errors(name, *pairs(0, 3.0)))
    # Cut as late as necessary and no later: within the bound, which a term more or less moves by less than tenfold.
    assert 1e-8 < error < 1e-6


@pytest.mark.parametrize("name", MIXTURES)
def test_too_large_variances_are_left_to_the_closed_form(name):
    q1, q2, c = pairs(0, 1e3)
    for scale in (1, 1e6):
        assert series(ACTIVATIONS[name], scale * q1, scale * q2).expectations(*ALL, scale * c) is None


def test_closed_forms_of_one_term_need_no_series():
    assert [name for name in sorted(ACTIVATIONS) if has_series(ACTIVATIONS[name])] == MIXTURES
