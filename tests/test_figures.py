"""Figures change nothing global, are the same file every time, and share one look."""

from typing import Any

import drawings
import matplotlib as mpl
import pytest

from rndlib.paper import figures, output
from rndlib.paper.figures.style import GREY, LOOKS, looks

OF_A_MATPLOTLIBRC: dict[Any, Any] = {
    "text.usetex": True,
    "font.family": ["monospace"],
    "axes.xmargin": 0.3,
    "lines.marker": "x",
    "path.sketch": (1.0, 100.0, 2.0),
    "savefig.bbox": "tight",
    "savefig.transparent": True,
    "xtick.direction": "in",
}


@pytest.mark.parametrize("draw", drawings.DRAWN)
def test_no_setting_changes_a_figure_and_none_is_changed(draw, tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    before = dict(mpl.rcParams)
    picture = figures.save(draw(), "first")
    assert dict(mpl.rcParams) == before
    assert [path.name for path in tmp_path.iterdir()] == ["first.png"]
    first = (tmp_path / "first.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert (picture._repr_png_(), repr(picture)) == (first, "first.png")
    with mpl.rc_context(OF_A_MATPLOTLIBRC):
        assert draw()._repr_png_() == first


@pytest.mark.parametrize("draw", drawings.DRAWN)
def test_one_width_a_finding_above_and_axes_with_names(draw):
    """Panels of a column may share the name of their x, and those of a row the name of their y."""
    fig = drawings.of(draw)
    assert fig.get_figwidth() == 7
    assert fig.get_suptitle()
    rows: dict[range, list[str]] = {}
    for ax in fig.axes if draw in drawings.AXES else []:
        if ax.get_visible():
            assert any(one.get_xlabel() for one in ax.get_shared_x_axes().get_siblings(ax))
            rows.setdefault(ax.get_subplotspec().rowspan, []).append(ax.get_ylabel())
    assert all(map(any, rows.values()))


def test_series_differ_in_more_than_colour_and_wrong_variants_are_grey():
    given = looks(["a", "wrong: c", "b"])
    assert (given["wrong: c"].colour, given["a"], given["b"]) == (GREY, *LOOKS[:2])
    for part in zip(*LOOKS, strict=True):
        assert len(set(part)) == len(LOOKS)
    with pytest.raises(ValueError, match="6 series in one figure: give at most 5"):
        looks("abcdef")


def test_no_label_breaks_inside_of_mathematics():
    label = r"a long label, with two spaces in $1 + 3.3\,K / n$"
    series = {label: (drawings.ERROR, drawings.ERROR, drawings.ERROR)}
    (text,) = figures.against_size(drawings.WIDTHS, series, "width", "error", "it falls").axes[0].texts
    assert text.get_text() == "a long label, with two\nspaces in $1 + 3.3\\,K / n$"


def test_labels_move_apart_where_series_end_together():
    boxes = [text.get_window_extent() for text in drawings.of(drawings.widths).axes[1].texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for one in boxes for other in boxes if one is not other)
