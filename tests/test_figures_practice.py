"""Figures of contenders on real data draw what they are given."""

from typing import Any

import numpy as np
import pytest
from drawings import assert_the_same_every_time

from rndlib import figures
from rndlib.practice.comparison import Interval

FOUND = {"one": Interval(0.5, 0.25, 1.0), "other": Interval(-1.0, -2.0, 0.5)}
SEEN = np.array([0.0, 1.0, 5.0])


def _intervals() -> figures.Figure:
    return figures.intervals({"NLL": FOUND, "CRPS": FOUND}, 0.0, "no difference")


def _costs() -> figures.Figure:
    return figures.quality_against_seconds({label: (10.0, at) for label, at in FOUND.items()}, "NLL")


def _predictions() -> figures.Figure:
    return figures.predictions({"one": (np.array([0.5, 0.5, 1.0]), np.ones(3))}, SEEN)


def _areas() -> figures.Figure:
    return figures.areas_against_heads([1, 2], {"far": list(FOUND.values())}, {"far": 0.9})


def _images() -> figures.Figure:
    return figures.images({"digits": np.arange(32.0).reshape(2, 16), "others": np.zeros((1, 16))})


AXES = [_intervals, _costs, _predictions, _areas]


@pytest.mark.parametrize("draw", [*AXES, _images])
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


@pytest.mark.parametrize("draw", AXES)
def test_axes_are_named(draw):
    for ax in draw().axes:
        assert ax.get_xlabel()
    assert draw().axes[0].get_ylabel() or draw().axes[0].get_yticklabels()


def bars_of(container: Any) -> Any:
    """The marker, caps and bars of an estimate."""
    return container.lines


def test_bars_end_where_intervals_do():
    for ax in _intervals().axes:
        drawn = [bars_of(container) for container in ax.containers]
        for place, (at, (point, _, bars)) in enumerate(zip(FOUND.values(), drawn, strict=True)):
            assert point.get_xydata().tolist() == [[at.estimate, place]]
            np.testing.assert_allclose(bars[0].get_segments()[0][:, 0], [at.low, at.high])
    (ax,) = _areas().axes
    (_, _, bars) = bars_of(ax.containers[0])
    ends = [segment[:, 1] for segment in bars[0].get_segments()]
    np.testing.assert_allclose(ends, [[at.low, at.high] for at in FOUND.values()])


def test_what_lies_outside_its_interval_is_told_apart():
    (ax,) = _predictions().axes
    drawn = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in ax.lines}
    assert drawn["seen, inside its interval"] == [0.0, 1.0]
    assert drawn["seen, outside"] == [5.0]


def test_images_are_square_and_rows_are_named():
    fig = _images()
    assert [len(ax.images) for ax in fig.axes] == [1, 1, 1, 0]
    np.testing.assert_array_equal(fig.axes[1].images[0].get_array(), np.arange(16.0, 32.0).reshape(4, 4))
    assert [ax.get_ylabel() for ax in fig.axes] == ["digits", "", "others", ""]


def test_more_contenders_than_looks_are_refused():
    many = {str(number): (1.0, FOUND["one"]) for number in range(9)}
    with pytest.raises(ValueError, match="found has 9 labels"):
        figures.quality_against_seconds(many, "NLL")
