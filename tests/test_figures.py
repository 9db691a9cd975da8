"""Figures change nothing global, are the same file every time, and share one look."""

import subprocess
import sys

import drawings
import matplotlib as mpl
import pytest

from rndlib.paper import figures, output
from rndlib.paper.figures.style import GREY, LOOKS, looks


@pytest.mark.parametrize("draw", drawings.DRAWN)
def test_the_same_every_time_and_nothing_global_changes(draw, tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    before = dict(mpl.rcParams)
    picture = figures.save(draw(), "first", pdf=True)
    figures.save(draw(), "second", pdf=True)
    assert dict(mpl.rcParams) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.pdf", "first.png", "second.pdf", "second.png"]
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("first", "second"))
        assert first.startswith(magic)
        assert first == second
    assert (picture._repr_png_(), repr(picture)) == ((tmp_path / "first.png").read_bytes(), "first.png")


@pytest.mark.parametrize("draw", drawings.DRAWN)
def test_one_width_and_a_finding_above(draw):
    fig = draw()
    assert fig.get_figwidth() == 7
    assert fig.get_suptitle()


@pytest.mark.parametrize("draw", drawings.AXES)
def test_axes_are_named(draw):
    for ax in draw().axes:
        assert ax.get_xlabel() or ax.get_shared_x_axes().get_siblings(ax)
        assert ax.get_ylabel() or ax.get_shared_y_axes().get_siblings(ax)


def test_nothing_is_saved_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(output.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert figures.save(drawings.size(), "figure")._repr_png_() == drawings.size()._repr_png_()
    assert not list(tmp_path.iterdir())


OF_A_MATPLOTLIBRC = {
    "text.usetex": True,
    "font.family": ["monospace"],
    "axes.xmargin": 0.3,
    "lines.marker": "x",
    "path.sketch": (1.0, 100.0, 2.0),
    "savefig.bbox": "tight",
    "savefig.transparent": True,
    "xtick.direction": "in",
}


@pytest.mark.parametrize("name", OF_A_MATPLOTLIBRC)
def test_no_setting_of_a_matplotlibrc_changes_a_figure(name, monkeypatch, tmp_path):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    expected = figures.save(drawings.variance(), "plain", pdf=True).png
    with mpl.rc_context({name: OF_A_MATPLOTLIBRC[name]}):
        assert drawings.variance()._repr_png_() == expected
        assert figures.save(drawings.variance(), "set", pdf=True).png == expected
    assert (tmp_path / "set.pdf").read_bytes() == (tmp_path / "plain.pdf").read_bytes()


def test_pyplot_is_not_touched():
    code = "import sys, rndlib.paper.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_series_differ_in_more_than_colour_and_controls_are_grey():
    given = looks(["a", "control: wrong", "b"])
    assert (given["control: wrong"].colour, given["a"], given["b"]) == (GREY, *LOOKS[:2])
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
    boxes = [text.get_window_extent() for text in drawings.widths().axes[1].texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for one in boxes for other in boxes if one is not other)


def test_saving_a_pdf_says_nothing(tmp_path, monkeypatch, caplog):
    """A notebook would store what is logged, and differ where it is not."""
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    fig = drawings.variance()
    fig.suptitle(r"mathematics, $\Theta$")  # in fonts of its own, with dates that fontTools warns of
    figures.save(fig, "picture")
    figures.save(fig, "figure", pdf=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.pdf", "figure.png", "picture.png"]
    assert not caplog.records
