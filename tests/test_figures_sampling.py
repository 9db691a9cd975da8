"""The figures of posterior sampling, and the walk they are drawn over."""

import numpy as np
import pytest
from drawings import assert_the_same_every_time
from matplotlib.patches import StepPatch

from rndlib import datasets, figures
from rndlib.theory.laws import Gaussian

WALK, DISTANCE, STOPS = datasets.walk([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]], per_leg=10)


def _functions() -> figures.Figure:
    mean, var = DISTANCE**2, DISTANCE + 1
    drawn = figures.Sampled(np.stack([mean + 1, mean - 1]), mean + 0.5, np.sqrt(2 * var))
    panels = {"exact": drawn, "Bayesian RND": drawn, "control": drawn}
    return figures.functions_on_walk(DISTANCE, Gaussian(mean, var, None), (STOPS[::2], STOPS[::2] ** 2 + 0.25), panels)


def _distances() -> figures.Figure:
    rng = np.random.default_rng(0)
    squares = {"Bayesian RND": rng.chisquare(3, 500), "control": 0.4 * rng.chisquare(3, 500)}
    found = {"Bayesian RND": 0.01, "control": 0.3}
    return figures.distances_from_law(squares, 3, rng.uniform(0.005, 0.02, 99), found)


def _pairs() -> figures.Figure:
    at = np.random.default_rng(1).standard_normal((50, 2))
    return figures.pairs({"without": at, "with": at[:, [0, 0]]})


@pytest.mark.parametrize("draw", [_functions, _distances, _pairs])
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


@pytest.mark.parametrize("draw", [_functions, _distances, _pairs])
def test_axes_are_labelled(draw):
    for ax in draw().axes:
        assert ax.get_xlabel() or ax.get_title()
        assert ax.get_ylabel() or ax.get_shared_y_axes().get_siblings(ax)


def test_the_lower_row_is_less_the_posteriors_mean():
    fig = _functions()
    top, bottom = fig.axes[0], fig.axes[3]
    for above, below in zip(top.lines[:-1], bottom.lines[:-1], strict=True):
        np.testing.assert_allclose(np.asarray(below.get_ydata()), np.asarray(above.get_ydata()) - DISTANCE**2)
    np.testing.assert_allclose(np.asarray(bottom.lines[-1].get_ydata()), [0.25, 0.25])  # the labels lie off the mean
    ends = [np.asarray(line.get_ydata()) for line in bottom.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(ends[1], 0.5 + 2 * np.sqrt(2 * (DISTANCE + 1)))


def test_histograms_are_densities_on_the_law():
    left = _distances().axes[0]
    values, edges, _ = next(patch for patch in left.patches if isinstance(patch, StepPatch)).get_data()
    assert np.sum(values * np.diff(edges)) == pytest.approx(1, abs=0.01)


def test_walk_goes_straight_from_corner_to_corner():
    assert STOPS.tolist() == [0, 5, 6]
    np.testing.assert_allclose(WALK[[0, 5, 10, 20]], [[0, 0], [1.5, 2], [3, 4], [3, 5]])
    np.testing.assert_allclose(DISTANCE[[0, 5, 10, 20]], [0, 2.5, 5, 6])
    np.testing.assert_allclose(np.diff(DISTANCE), np.linalg.norm(np.diff(WALK, axis=0), axis=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([[1.0, 2.0]],), "corners has 1 row"), (([1.0, 2.0],), "corners has shape"), ((np.eye(2), 0), "per_leg = 0")],
)
def test_walk_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.walk(*arguments)


def test_every_pair_is_within_the_axes():
    for ax in _pairs().axes:
        at = np.asarray(ax.collections[0].get_offsets())
        assert len(at) == 50
        assert np.abs(at).max() <= ax.get_xlim()[1] == ax.get_ylim()[1]
