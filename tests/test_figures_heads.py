"""Figures of many heads on one body draw what they are given."""

import numpy as np
import pytest
from drawings import assert_the_same_every_time
from matplotlib.patches import StepPatch

from rndlib import figures, laws

CHI = ("theorem", laws.mean_square(1.0, 2)), ("control", laws.mean_square(1.0, 1))


def _heads() -> figures.Figure:
    errors = np.random.default_rng(0).standard_normal((50, 2))
    return figures.heads_against_each_other({"apart": errors, "shared": errors})


def _histograms() -> figures.Figure:
    values = CHI[0][1].rvs((2, 4000), random_state=0)
    return figures.histograms({"RND": values[0], "ensemble": values[1]}, *CHI)


def _covariances() -> figures.Figure:
    law = np.linspace(0.1, 1, 5)
    return figures.covariances_of_squares({"RND": (law, law, law / 10), "control": (law, 0 * law, law / 10)})


def _crowding() -> figures.Figure:
    rows = np.array([[0.1, 1.0, 0.9, 1.1], [1.0, 2.0, 1.5, 3.0]])
    return figures.crowding({"narrow": rows, "wide": rows}, {"narrow": rows, "wide": rows}, 3.3)


DRAWN = [_heads, _histograms, _covariances, _crowding]


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


@pytest.mark.parametrize("draw", DRAWN)
def test_axes_are_named(draw):
    fig = draw()
    assert fig.axes[0].get_ylabel()
    assert fig.axes[0].get_xlabel() or fig.get_supxlabel()


def test_histograms_lie_on_the_density_within_their_bars():
    """Of 40 bars of two standard errors, 5 % miss; 8 or more do so once in 1000 times."""
    misses = 0
    for ax in _histograms().axes:
        assert ax.get_ylim()[0] == 0
        bars = ax.patches[0]
        assert isinstance(bars, StepPatch)
        heights, edges, _ = bars.get_data()
        expected = np.diff(CHI[0][1].cdf(edges)) / np.diff(edges)
        misses += np.sum(np.abs(heights - expected) > 2 * np.sqrt(expected / np.diff(edges) / 4000))
    assert misses < 8


def test_theorem_and_control_stand_beside_the_histogram():
    fig = _histograms()
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [
        "networks, two standard errors",
        "theorem",
        "control",
    ]
    theorem, control = (
        next(line for line in fig.axes[0].lines if line.get_label() == name) for name in ("theorem", "control")
    )
    assert theorem.get_linestyle() != control.get_linestyle()
    for line, (_, law) in zip((theorem, control), CHI, strict=True):
        at = np.asarray(line.get_xydata())
        np.testing.assert_allclose(at[:, 1], law.pdf(at[:, 0]))


def test_crowding_has_the_rule_on_the_variance_only():
    mean, variance = _crowding().axes
    label = "rule of thumb, 1 + 3.3 K / n"
    assert label not in [line.get_label() for line in mean.lines]
    rule = np.asarray(next(line for line in variance.lines if line.get_label() == label).get_xydata())
    np.testing.assert_allclose(rule[:, 1], 1 + 3.3 * rule[:, 0])
    assert rule[0, 0] < 0.1
    assert rule[-1, 0] > 1


@pytest.mark.parametrize("draw", [_covariances, _crowding])
def test_series_differ_in_more_than_colour(draw):
    looks = [bars[0] for bars in draw().axes[0].containers]
    assert len({line.get_marker() for line in looks}) == len(looks) == 2
