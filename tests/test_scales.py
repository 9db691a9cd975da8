"""Scales that no network is made for are named before any training, with what to give instead; others are not."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits

from rndlib import MLP, checks, datasets, kernels
from rndlib.checks import FAR, LITTLE, ScaleWarning
from rndlib.paper.practice import data

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = X[:, 0]
PRIOR = 1.85
DIABETES: Any = load_diabetes(return_X_y=True, scaled=False)
PATIENTS, PROGRESS = DIABETES
DIGITS: Any = load_digits()


def prior(X: np.ndarray) -> float:
    return float(np.sqrt(kernels.diagonal(MLP(X.shape[1]), X).ntk.mean()))


def said(*arguments, **options) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        checks.scales(*arguments, **options)
    assert all(warning.category is ScaleWarning for warning in found)
    return [str(warning.message) for warning in found]


def with_column(values: np.ndarray) -> np.ndarray:
    return np.column_stack([X[:, :2], values])


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (
            with_column(2000 + 10 * X[:, 2]),
            r"column 2 has mean 2e\+03 and deviation \d+(\.\d)?, give \(column - 200\d.*\) /",
        ),
        (with_column(1e4 * X[:, 2]), r"column 2 has mean .* and deviation 8.*e\+03, give"),
        (with_column(1e-4 * X[:, 2]), r"column 2 has mean .* and deviation .*e-0\d, give"),
        (with_column(np.full(40, 365.0)), "column 2 is 365 throughout, leave it out"),
        (X / 1000, r"all of X has a root mean square of 0.001, give X / 0.0009\d"),
        (PATIENTS, r"column 0 has mean 48.5 .*; column 3 .*; column 4 .*, and 3 more such columns"),
        (255 * RNG.uniform(size=(9, 4, 4, 1)), r"column 0 has mean 1\d\d"),
    ],
)
def test_a_column_off_scale_is_named(points, says):
    (message,) = said(points, None, None)
    assert re.match(f"X: networks expect columns of mean 0 and deviation 1: {says}", message)


@pytest.mark.parametrize("column", [2000 + 10 * X[:, 2], 1e4 * X[:, 2], 1e-4 * X[:, 2]], ids=["far", "large", "little"])
def test_what_is_advised_for_a_column_is_enough(column):
    found = re.search(r"give \(column ([+-]) (\S+)\) / (\S+)$", said(with_column(column), None, None)[0])
    assert found
    assert not said(with_column((column + float(found[1] + found[2])) / float(found[3])), None, None)


@pytest.mark.parametrize(
    ("y", "prior_std", "noise_std", "says"),
    [
        (1e4 * Y, PRIOR, 0.0, r"y has mean .* a deviation of 1.9: variances will be too small .* give \(y \+ \d+\) / "),
        (Y + 1000, PRIOR, 0.0, r"y has mean 1e\+03 .* too small .* give \(y - 999.8\) / "),
        (1e4 * Y, PRIOR, 100.0, r"y has .* too small .* give \(y \+ \d+\) / .* and noise_std / "),
        (Y, 0.03, 0.0, r"y has .* too small"),
        (1e-4 * Y, PRIOR, 0.0, r"y has .* too large"),
        (np.full(40, 100.0), PRIOR, 0.0, r"y has .* too small .* give y / 100$"),
    ],
)
def test_labels_far_from_the_prior_are_named(y, prior_std, noise_std, says):
    (message,) = said(X, y, prior_std, noise_std)
    assert re.match(says, message)


@pytest.mark.parametrize(("y", "noise_std"), [(1e4 * Y, 100.0), (Y + 1000, 1.0), (1e-4 * Y, 0.0)])
def test_what_is_advised_for_labels_is_enough(y, noise_std):
    found = re.search(r"give (?:y|\(y ([+-]) (\S+)\)) / (\S+)", said(X, y, PRIOR, noise_std)[0])
    assert found
    centre, scale = float(f"{found[1] or ''}{found[2] or 0}"), float(found[3])
    assert not said(X, (y + centre) / scale, PRIOR, noise_std / scale)


def test_labels_that_noise_explains_are_no_matter():
    assert not said(X, 100 * RNG.standard_normal(40), PRIOR, 120.0)


def test_thresholds():
    column = np.tile([-1.0, 1.0], 20)[:, None]  # of mean 0 and deviation 1
    for factor, few in ((0.99, 0), (1.01, 1)):
        assert len(said(factor * FAR * column, None, None)) == few
        assert len(said(column + factor * FAR, None, None)) == few
        assert len(said(column / factor / FAR, None, None)) == few
        assert len(said(column, factor * FAR * PRIOR * column[:, 0], PRIOR)) == few
        assert len(said(column, PRIOR / factor / LITTLE * column[:, 0], PRIOR)) == few
        both = np.column_stack([column, X[:40, :1] / X[:, 0].std() / factor / LITTLE])
        assert len(said(both, None, None)) == few


@pytest.mark.parametrize(
    ("points", "y"),
    [
        *[
            (datasets.toy(seed, n_train=n).X, datasets.toy(seed, n_train=n).y)
            for seed in range(5)
            for n in (5, 10, 300)
        ],
        *[(RNG.standard_normal((50, d)), RNG.standard_normal(50)) for d in (3, 10, 30, 100)],
        (DIGITS.data / 16, DIGITS.target / 10),  # many pixels are seldom or never lit
        (DIGITS.images[:20] / 16, None),
        ((PATIENTS - PATIENTS.mean(0)) / PATIENTS.std(0), (PROGRESS - PROGRESS.mean()) / PROGRESS.std()),
        (data.digits(0, 500, 10).X, None),
        ([[0.0], [1e-4], [1.0]], [1.0, 2.0, 3.0]),
        ([[0.5], [0.5 + 1e-4]], [0.5, 0.5]),
        (X, np.zeros(40)),
        ([[30.0, 2.0]], None),  # one point has no deviation
    ],
)
def test_usual_data_are_not_named(points, y):
    points = np.asarray(points)
    assert not said(points, y, prior(points) if points.ndim == 2 else None)
