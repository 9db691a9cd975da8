"""Figures draw what they are given."""

from typing import Any

import drawings
import numpy as np
import pytest
from matplotlib.patches import StepPatch

from rndlib.paper import figures
from rndlib.paper.evidence.statistics import calibration
from rndlib.paper.figures.style import BLACK, GREY, LOOKS
from rndlib.paper.practice import measured


def bars(container: Any) -> np.ndarray:
    """The ends of the bars of a series, (places, 2)."""
    return np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])


def shown(line: Any) -> np.ndarray:
    return np.asarray(line.get_ydata(), float)


def test_a_size_has_its_bars_guides_levels_and_labels():
    ax = drawings.of(drawings.size).axes[0]
    np.testing.assert_allclose(bars(ax.containers[0]), np.stack([drawings.ERROR / 2, drawings.ERROR * 2], axis=1))
    guide = next(shown(line) for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(guide / guide[0], [1, 1 / 2, 1 / 4])
    assert np.all(guide < drawings.ERROR)
    assert [0.1, 0.1] in [shown(line).tolist() for line in ax.lines]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "256", "1024"]
    # From below to above, in the colours of what they name, and apart from each other.
    written = [(text.get_text(), text.get_color()) for text in ax.texts]
    expected = [("1/sqrt(n)", BLACK), ("right", LOOKS[0].colour), ("tolerance", BLACK), ("wrong: other", GREY)]
    assert written == expected
    assert np.diff([text.get_position()[1] for text in ax.texts]).min() > 0.05


def test_an_extrapolation_begins_at_infinite_width_and_names_the_widths_that_have_room():
    ax = drawings.of(drawings.extrapolated).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["∞", "256", "64"]
    height = np.polyfit(1 / np.array(drawings.WIDTHS), drawings.ERROR, 1)[1]
    np.testing.assert_allclose(bars(ax.containers[0]).mean(axis=1), [height, *drawings.ERROR])
    lines = [shown(line) for line in ax.lines if np.asarray(line.get_xdata()).tolist() == [0, 1 / 64]]
    np.testing.assert_allclose([line[0] for line in lines], [height, height + 0.3])


def test_ordered_ratios_have_their_intervals_their_rule_and_the_band():
    ax = drawings.of(drawings.ordered).axes[0]
    np.testing.assert_allclose(bars(ax.containers[0]), [[0.9, 1.1], [0.4, 0.6]])
    assert [1.0, 0.4] in [shown(line).tolist() for line in ax.lines]
    (band,) = ax.patches
    np.testing.assert_allclose(band.get_window_extent().transformed(ax.transData.inverted()).intervaly, [0.8, 1.25])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "inf"]


def test_a_map_colours_ratios_and_hatches_what_is_not_safe():
    ax = drawings.of(drawings.departure_map).axes[0]
    mild, far, also_mild = ax.patches
    assert [patch.get_hatch() for patch in ax.patches] == ["", "xxx", ""]
    assert mild.get_facecolor() == also_mild.get_facecolor() != far.get_facecolor()
    assert [text.get_text() for text in ax.texts] == ["1\n1", "attention\n/ sqrt n\n9", "1\n1"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["width", "time"]


def test_no_number_of_the_map_leaves_its_cell():
    fig = figures.departure_map(measured.rows(), "as in notebook 08")
    fig.draw_without_rendering()
    for ax in fig.axes[:2]:
        for text, cell in zip(ax.texts, ax.patches, strict=True):
            inner, outer = text.get_window_extent(), cell.get_window_extent()
            assert inner.width < outer.width, text.get_text()
            assert inner.height < outer.height, text.get_text()


def test_seeds_are_dots_on_the_monte_carlo_error_and_short_series_of_the_largest_widths():
    ax = drawings.of(drawings.widths).axes[0]
    dots = [line for line in ax.lines if line.get_marker() == "s" and len(shown(line)) == 3]
    np.testing.assert_allclose([shown(line) for line in dots[:2]], drawings.SEEDS)
    (mean,) = (line for line in ax.lines if line.get_linestyle() == "--" and len(shown(line)) == 3)
    np.testing.assert_allclose(shown(mean), drawings.ERROR)
    (short, *_) = (line for line in ax.lines if line.get_marker() == "o" and len(shown(line)) == 2)
    np.testing.assert_allclose(np.asarray(short.get_xdata(), float), drawings.WIDTHS[1:], rtol=0.1)


def test_scatter_has_a_panel_for_each_width_with_its_numbers():
    fig = drawings.of(drawings.scatter)
    assert [ax.get_title() for ax in fig.axes] == ["$n = 64$", "$n = 256$", "$n = 1024$"]
    for ax, factor in zip(fig.axes, (2.0, 1.5, 1.0), strict=True):
        slope, correlation = calibration(np.geomspace(0.01, 1, 60), factor * np.geomspace(0.01, 1, 60))
        assert ax.texts[0].get_text() == f"slope {slope:.2f}\ncorr. {correlation:.3f}"
    assert fig.get_suptitle() == "a pair: slope 1.00 and correlation 1.000 at $n = 1024$"


def test_covariances_are_differences_in_units_of_the_theory():
    theory, ensemble, _, bar = drawings.of(drawings.covariances).axes
    np.testing.assert_allclose(np.asarray(theory.images[0].get_array()), np.eye(2))
    np.testing.assert_allclose(np.asarray(ensemble.images[0].get_array()), np.diag([0, -0.1]), atol=1e-12)
    assert (ensemble.images[0].norm.vmin, ensemble.images[0].norm.vmax) == (-1, 1)
    assert "standard deviations" in bar.get_ylabel()


def test_lines_are_the_law_and_bars_two_standard_errors():
    ax = drawings.of(drawings.variance).axes[0]
    assert "label units" in ax.get_ylabel()
    np.testing.assert_array_equal([shown(line) for line in ax.lines if len(shown(line)) == 3], drawings.LAW[2].T)
    for container, values in zip(ax.containers, drawings.VALUES.T, strict=False):
        np.testing.assert_allclose(bars(container), np.outer(values, [0.8, 1.2]))
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["networks", "wrong: other", "theory", "posterior"]


def test_trajectories_put_infinity_at_the_end():
    first, second = drawings.of(drawings.trajectories).axes
    networks = next(line for line in first.lines if line.get_label() == "network, test point 1")
    np.testing.assert_allclose(np.asarray(networks.get_xydata()), [[1, 1], [100, 100]])
    assert [label.get_text() for label in first.get_xticklabels()][-1] == "∞"
    assert (first.get_title(), second.get_title()) == ("network 1", "network 2")


def test_intervals_need_not_be_symmetric_and_rules_stand_in_their_panel():
    mean, variance = drawings.of(drawings.ratios).axes
    np.testing.assert_allclose(bars(mean.containers[0]), drawings.LOADS[:, 2:])
    assert "rule" not in [line.get_label() for line in mean.lines]
    rule = next(line for line in variance.lines if line.get_label() == "rule")
    np.testing.assert_allclose(shown(rule), [1.1, 2.0])


def test_histograms_lie_on_the_density_within_their_bars():
    """Of 40 bars of two standard errors, 5 % miss; 8 or more do so once in 1000 times."""
    misses = 0
    for ax in drawings.of(drawings.histograms).axes:
        assert ax.get_ylim()[0] == 0
        steps = ax.patches[0]
        assert isinstance(steps, StepPatch)
        heights, edges, _ = steps.get_data()
        expected = np.diff(drawings.CHI[0][1].cdf(edges)) / np.diff(edges)
        misses += np.sum(np.abs(heights - expected) > 2 * np.sqrt(expected / np.diff(edges) / 4000))
        for name, law in drawings.CHI:
            line = next(line for line in ax.lines if line.get_label() == name)
            np.testing.assert_allclose(shown(line), law.pdf(np.asarray(line.get_xdata())))
    assert misses < 8


def test_every_pair_is_within_the_axes():
    for ax in drawings.of(drawings.pairs).axes:
        at = np.asarray(ax.collections[0].get_offsets())
        assert len(at) == 50
        assert np.abs(at).max() <= ax.get_xlim()[1] == ax.get_ylim()[1]


def test_below_the_posterior_mean_is_subtracted():
    fig = drawings.of(drawings.functions)
    top, bottom = fig.axes[1], fig.axes[4]
    for above, below in zip(top.lines[:-1], bottom.lines[:-1], strict=True):
        np.testing.assert_allclose(shown(below), shown(above) - drawings.DISTANCE**2, atol=1e-12)
    np.testing.assert_allclose(shown(bottom.lines[-1]), [0.25, 0.25])  # the labels lie off the mean
    ends = [shown(line) for line in bottom.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(ends[1], 2 * np.sqrt(drawings.DISTANCE + 1))


def test_a_row_for_each_name_ends_where_its_interval_does():
    for ax in drawings.of(drawings.intervals).axes:
        for place, (container, at) in enumerate(zip(ax.containers, drawings.RATIOS.values(), strict=True)):
            point, _, (segments,) = container.lines  # pyright: ignore[reportAttributeAccessIssue]
            assert point.get_xydata().tolist() == [[at.value, place]]
            np.testing.assert_allclose(segments.get_segments()[0][:, 0], [at.low, at.high])


def test_scores_stand_over_their_costs_and_an_empty_panel_is_hidden():
    fig = drawings.of(drawings.costs)
    np.testing.assert_allclose([line.get_xdata()[0] for line in fig.axes[0].lines if len(line.get_xdata())], [2, 300])
    np.testing.assert_allclose(np.concatenate([bars(each) for each in fig.axes[0].containers]), [[0.25, 1], [-2, 0.5]])
    assert [ax.get_visible() for ax in fig.axes] == [True, True, True, False]


def test_novelty_shows_both_rooms_and_sorts_their_bonuses():
    known, other = np.full((8, 6), 10, np.uint8), np.full((8, 6), 20, np.uint8)
    bonuses = {"wrong: before": (np.array([3.0, 1.0]), np.array([5.0, 4.0, 6.0])), "after": (np.ones(2), np.ones(3))}
    above, below = figures.novelty({"game": figures.Rooms((known, other), bonuses)}, "found").axes
    image = np.asarray(above.images[0].get_array())
    assert (image[:, :6] == 10).all()
    assert (image[:, -6:] == 20).all()
    before, edge = below.lines[:2]
    assert shown(before).tolist() == [1, 3, 4, 5, 6]
    assert (before.get_color(), below.lines[2].get_color()) == (GREY, LOOKS[0].colour)
    assert np.asarray(edge.get_xdata()).tolist() == [1.5, 1.5]


def test_walk_goes_straight_from_corner_to_corner():
    assert drawings.STOPS.tolist() == [0, 5, 6]
    np.testing.assert_allclose(drawings.WALK[[0, 5, 10, 20]], [[0, 0], [1.5, 2], [3, 4], [3, 5]])
    np.testing.assert_allclose(drawings.DISTANCE[[0, 5, 10, 20]], [0, 2.5, 5, 6])
    np.testing.assert_allclose(np.diff(drawings.DISTANCE), np.linalg.norm(np.diff(drawings.WALK, axis=0), axis=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([[1.0, 2.0]],), "corners has 1 row"), (([1.0, 2.0],), "corners has shape"), ((np.eye(2), 0), "per_leg = 0")],
)
def test_walk_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        figures.walk(*arguments)
