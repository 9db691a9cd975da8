"""Figures draw what they are given, change nothing global, and are the same file every time."""

import subprocess
import sys

import numpy as np
import pytest
from drawings import assert_the_same_every_time

from rndlib import figures, output
from rndlib.evidence.statistics import LogRatio, calibration

WIDTHS = [32, 128, 512]


def _widths() -> figures.Figure:
    difference = np.array([1.0, 0.1, 0.02])
    series = {"one body": (difference, difference / 2, difference * 2), "many bodies": (difference,) * 3}
    panel = figures.Widths("a pair", series, (0.01, 0.003, 0.03), {"wrong": 0 * difference + 1})
    return figures.discrepancy_against_width(WIDTHS, [panel, panel])


def _scatter() -> figures.Figure:
    x = np.geomspace(0.01, 1, 60) * np.ones((3, 1))
    return figures.scatter_by_width(WIDTHS, x, x * np.array([[2.0], [1.5], [1.0]]), "a pair")


def _ratio() -> figures.Figure:
    estimate = np.linspace(-0.1, 0.1, 5)
    plain, printed = (LogRatio(at, at - 0.1, at + 0.2) for at in (estimate, estimate + np.log(2)))
    return figures.ratio_over_points({"with the half": plain, "without": printed}, 0.35)


def _covariances() -> figures.Figure:
    return figures.covariances(
        np.diag([1.0, 100.0]), {"ensemble": np.diag([1.0, 90.0]), "wrong": np.diag([2.0, 200.0])}
    )


def _time() -> figures.Figure:
    times = np.array([0.1, 1.0])
    values = np.array([[1.0, 2.0], [0.1, 0.2]])
    return figures.variance_against_time((times, values), times, values, values, 0.1)


DRAWN = [_widths, _scatter, _ratio, _covariances, _time]


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_every_time(draw, tmp_path, monkeypatch):
    assert_the_same_every_time(draw, tmp_path, monkeypatch)


def test_nothing_is_saved_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(output.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    picture = figures.save(_time(), "figure")
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_the_figure_as_it_was_saved(tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    picture = figures.save(_ratio(), "figure")
    assert picture._repr_png_() == (tmp_path / "figure.png").read_bytes()
    assert repr(picture) == "figure.png"


def test_a_figure_that_was_not_saved_is_shown_too():
    assert _ratio()._repr_png_().startswith(b"\x89PNG")


def test_pyplot_is_not_touched():
    code = "import sys, rndlib.figures; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_series_floor_and_control_are_in_the_figure():
    fig = _widths()
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [
        "one body",
        "many bodies",
        "wrong",
        "floor, expected under the law",
        "floor, 90 % of draws",
    ]
    control = next(line for line in fig.axes[0].lines if line.get_label() == "wrong")
    np.testing.assert_array_equal(control.get_xydata(), np.column_stack([WIDTHS, [1, 1, 1]]))


def test_series_differ_in_more_than_colour():
    looks = [bars[0] for bars in _widths().axes[0].containers]
    assert len({line.get_marker() for line in looks}) == len({line.get_linestyle() for line in looks}) == 2


def test_scatter_has_a_panel_a_width_with_its_numbers():
    fig = _scatter()
    assert [ax.get_title() for ax in fig.axes] == ["n = 32", "n = 128", "n = 512"]
    for ax, factor in zip(fig.axes, (2.0, 1.5, 1.0), strict=True):
        slope, correlation = calibration(np.geomspace(0.01, 1, 60), factor * np.geomspace(0.01, 1, 60))
        assert ax.texts[0].get_text() == f"slope {slope:.2f}\ncorr. {correlation:.3f}"
        assert ax.collections[0].get_rasterized()


def test_covariances_are_in_units_of_the_law():
    law, ensemble, _, blank, left, _ = _covariances().axes[:6]
    np.testing.assert_allclose(np.asarray(law.images[0].get_array()), np.eye(2))
    np.testing.assert_allclose(np.asarray(ensemble.images[0].get_array()), np.diag([1, 0.9]))
    np.testing.assert_allclose(np.asarray(left.images[0].get_array()), np.diag([0, -0.1]), atol=1e-12)
    assert not blank.images


@pytest.mark.parametrize("draw", [_widths, _scatter, _time])
def test_axes_name_their_units(draw):
    fig = draw()
    words = [ax.get_ylabel() for ax in fig.axes] + [fig.get_supylabel()]
    assert any("label units" in word for word in words)
