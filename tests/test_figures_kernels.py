"""The figures of kernels draw what they are given, and say in which units."""

import numpy as np
import pytest
from drawings import assert_the_same_every_time
from matplotlib.patches import Rectangle

from rndlib import figures

WIDTHS = [64, 256, 1024]
ERROR = np.array([0.2, 0.1, 0.05])


def _errors() -> figures.Figure:
    flat = 0 * ERROR + 0.3
    series = {"right": (ERROR, ERROR / 2, ERROR * 2), "wrong": (flat, flat, flat)}
    return figures.errors_against(WIDTHS, series, "width n", "error", {"1 / sqrt(n)": ("right", -0.5)}, 0.1)


def _matrices() -> figures.Figure:
    return figures.matrices(("law", np.diag([1.0, 4.0])), {"network": np.diag([1.0, -9.0])}, "kernel (units)")


def _lengths() -> figures.Figure:
    squares = np.random.default_rng(0).chisquare(4, 500)
    return figures.lengths({"wide": squares}, 4, ("narrow", 100 * squares))


def _trajectories() -> figures.Figure:
    moments = np.geomspace(0.01, 100, 9)
    lines = np.stack([np.stack([moments, -moments], axis=1), np.stack([2 * moments, moments], axis=1)])
    return figures.trajectories(moments, lines, ("wrong", -lines), [1.0, np.inf], lines[:, [4, 8]])


DRAWN = [_errors, _matrices, _lengths, _trajectories]


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


def test_errors_bars_guides_and_margin():
    ax = _errors().axes[0]
    right, wrong = (container[0] for container in ax.containers)
    np.testing.assert_array_equal(right.get_ydata(), ERROR)
    np.testing.assert_array_equal(wrong.get_ydata(), 3 * [0.3])
    assert right.get_marker() != wrong.get_marker()
    ends = np.array([segment[:, 1] for segment in ax.containers[0][2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([ERROR / 2, ERROR * 2], axis=1))
    lines = {line.get_label(): np.asarray(line.get_ydata(), float) for line in ax.lines}
    guide = lines["1 / sqrt(n)"]
    np.testing.assert_allclose(guide / guide[0], [1, 1 / 2, 1 / 4])
    assert np.all(guide < ERROR)
    np.testing.assert_array_equal(lines["declared margin"], [0.1, 0.1])


def test_errors_of_one_series_stand_at_their_places():
    fig = figures.errors_against(WIDTHS, {"right": (ERROR, ERROR, ERROR)}, "degree", "error")
    np.testing.assert_array_equal(fig.axes[0].containers[0][0].get_xdata(), WIDTHS)
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == ["64", "256", "1024"]


def test_matrices_share_the_scale_of_the_first():
    law, network, bar = _matrices().axes
    np.testing.assert_array_equal(np.asarray(network.images[0].get_array()), np.diag([1.0, -9.0]))
    assert law.images[0].norm is network.images[0].norm
    assert (law.images[0].norm.vmin, law.images[0].norm.vmax) == (-4, 4)
    assert bar.get_ylabel() == "kernel (units)"


def test_lengths_count_every_network_beside_the_density():
    axes = _lengths().axes
    assert [ax.get_title() for ax in axes] == ["wide", "narrow"]
    shares = [[b.get_width() * b.get_height() for b in ax.patches if isinstance(b, Rectangle)] for ax in axes]
    assert [sum(share) for share in shares] == pytest.approx([1, 1])
    # A hundred times as long, nearly all of them lie beyond the axis, and are in its last bin.
    assert shares[1][-1] > 0.9 > shares[0][-1]


def test_trajectories_put_infinity_at_the_end():
    first, second = _trajectories().axes
    found = [line for line in first.lines if line.get_label() == "point 1, network"]
    np.testing.assert_allclose(np.asarray(found[0].get_xdata(), float), [1, 100])
    np.testing.assert_allclose(np.asarray(found[0].get_ydata(), float), [1, 100])
    assert [label.get_text() for label in first.get_xticklabels()][-1] == "∞"
    assert (first.get_title(), second.get_title()) == ("network 1", "network 2")
    assert first.get_ylabel() == "output (label units)"
