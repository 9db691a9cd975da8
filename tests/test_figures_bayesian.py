"""The figures of Bayesian RND draw what they are given, and are the same file every time."""

import numpy as np
import pytest
from drawings import assert_the_same_every_time

from rndlib import figures

TIMES = [0.1, 1.0]
VALUES = np.array([[1.0, 2.0], [0.1, 0.2]])
LAW = (np.array([0.05, 0.5, 5.0]), np.array([[1.0, 2.0], [0.5, 1.0], [0.1, 0.2]]))


def _noise() -> figures.Figure:
    return figures.variance_against_noise(LAW, TIMES, VALUES, 2 * VALUES, 0.1)


def _time() -> figures.Figure:
    return figures.towards_posterior(LAW, np.array([0.05, 0.1]), TIMES, VALUES, 0.1)


def _load() -> figures.Figure:
    load = np.array([0.1, 1.0])
    found = figures.Crowded(load, np.array([0.9, 0.8]), np.array([0.8, 0.7]), np.array([1.1, 0.95]))
    return figures.variance_against_load({"one": found, "other": found}, {"rule": (load, 1 / (1 + load))}, 0.1)


DRAWN = [_noise, _time, _load]


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("draw", "labels"),
    [
        (_noise, ["Bayesian RND", "control: noise without the pull", "noisy posterior"]),
        (_time, ["Bayesian RND", "law at time t", "posterior"]),
        (_load, ["one", "other", "no warning", "rule"]),
    ],
)
def test_the_legend_says_what_is_there(draw, labels):
    fig = draw()
    assert [text.get_text() for text in fig.legends[0].get_texts()] == labels
    assert "variance" in fig.axes[0].get_ylabel()
    assert fig.axes[0].get_xlabel()


@pytest.mark.parametrize("draw", [_noise, _time])
def test_lines_are_the_law_and_bars_two_standard_errors(draw):
    ax = draw().axes[0]
    solid = [line for line in ax.lines if len(line.get_xdata()) == 3]
    np.testing.assert_array_equal([line.get_ydata() for line in solid], LAW[1].T)
    for bars, values in zip(ax.containers, VALUES.T, strict=False):
        line, _, (segments,) = bars
        np.testing.assert_array_equal(line.get_ydata(), values)
        ends = np.array([segment[:, 1] for segment in segments.get_segments()])
        np.testing.assert_allclose(ends, np.outer(values, [0.8, 1.2]))


def test_intervals_over_bodies_need_not_be_symmetric():
    _, _, (segments,) = _load().axes[0].containers[0]
    ends = np.array([segment[:, 1] for segment in segments.get_segments()])
    np.testing.assert_allclose(ends, [[0.8, 1.1], [0.7, 0.95]])
