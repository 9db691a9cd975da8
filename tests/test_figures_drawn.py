"""Figures draw what they are given."""

from typing import Any

import drawings
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from scipy import stats

from rndlib.paper import figures
from rndlib.paper.evidence.statistics import calibration
from rndlib.paper.figures.style import BLACK, GREY, LOOKS


def bars(container: Any) -> np.ndarray:
    """The ends of the bars of a series, (places, 2)."""
    return np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])


def shown(line: Any) -> np.ndarray:
    return np.asarray(line.get_ydata(), float)


def test_a_size_has_its_bars_guides_levels_and_labels():
    ax = drawings.size().axes[0]
    np.testing.assert_allclose(bars(ax.containers[0]), np.stack([drawings.ERROR / 2, drawings.ERROR * 2], axis=1))
    guide = next(shown(line) for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(guide / guide[0], [1, 1 / 2, 1 / 4])
    assert np.all(guide < drawings.ERROR)
    assert [0.1, 0.1] in [shown(line).tolist() for line in ax.lines]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "256", "1024"]
    # From below to above, in the colours of what they name, and apart from each other.
    written = [(text.get_text(), text.get_color()) for text in ax.texts]
    expected = [("1/sqrt(n)", BLACK), ("right", LOOKS[0].colour), ("margin", BLACK), ("control: wrong", GREY)]
    assert written == expected
    assert np.diff([text.get_position()[1] for text in ax.texts]).min() > 0.05


def test_an_extrapolation_begins_at_infinite_width_and_ends_at_the_narrowest():
    ax = drawings.extrapolated().axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["∞", "64", "256", "1024"]
    height = np.polyfit(1 / np.array(drawings.WIDTHS), drawings.ERROR, 1)[1]
    np.testing.assert_allclose(bars(ax.containers[0]).mean(axis=1), [height, *drawings.ERROR])
    lines = [shown(line) for line in ax.lines if np.asarray(line.get_xdata()).tolist() == [0, 1 / 64]]
    np.testing.assert_allclose([line[0] for line in lines], [height, height + 0.3])


def test_a_departure_has_its_intervals_its_law_and_the_band():
    ax = drawings.departure().axes[0]
    np.testing.assert_allclose(bars(ax.containers[0]), [[0.9, 1.1], [0.4, 0.6]])
    assert [1.0, 0.4] in [shown(line).tolist() for line in ax.lines]
    (band,) = ax.patches
    np.testing.assert_allclose(band.get_window_extent().transformed(ax.transData.inverted()).intervaly, [0.8, 1.25])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["mild", "weight\ndecay"]


def test_a_map_colours_ratios_and_hatches_what_is_not_safe():
    ax = drawings.departure_map().axes[0]
    mild, far, also_mild = ax.patches
    assert [patch.get_hatch() for patch in ax.patches] == ["", "xx", ""]
    assert mild.get_facecolor() == also_mild.get_facecolor() != far.get_facecolor()
    assert [text.get_text() for text in ax.texts] == ["1", "weight\ndecay", "1"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["width", "time"]


def test_scatter_has_a_panel_for_each_width_with_its_numbers():
    fig = drawings.scatter()
    assert [ax.get_title() for ax in fig.axes] == ["$n = 64$", "$n = 256$", "$n = 1024$"]
    for ax, factor in zip(fig.axes, (2.0, 1.5, 1.0), strict=True):
        slope, correlation = calibration(np.geomspace(0.01, 1, 60), factor * np.geomspace(0.01, 1, 60))
        assert ax.texts[0].get_text() == f"slope {slope:.2f}\ncorr. {correlation:.3f}"
    assert fig.get_suptitle() == "a pair: slope 1.00 and correlation 1.000 at $n = 1024$"


def test_covariances_are_in_units_of_the_law():
    law, ensemble, _, blank, left, _ = drawings.covariances().axes[:6]
    np.testing.assert_allclose(np.asarray(law.images[0].get_array()), np.eye(2))
    np.testing.assert_allclose(np.asarray(ensemble.images[0].get_array()), np.diag([1, 0.9]))
    np.testing.assert_allclose(np.asarray(left.images[0].get_array()), np.diag([0, -0.1]), atol=1e-12)
    assert not blank.images


def test_matrices_share_the_scale_of_the_first():
    law, network, bar = drawings.matrices().axes
    np.testing.assert_array_equal(np.asarray(network.images[0].get_array()), np.diag([1.0, -9.0]))
    assert [(ax.images[0].norm.vmin, ax.images[0].norm.vmax) for ax in (law, network)] == [(-6, 6)] * 2
    assert bar.get_ylabel() == "kernel (units)"


def test_lines_are_the_law_and_bars_two_standard_errors():
    ax = drawings.variance().axes[0]
    assert "label units" in ax.get_ylabel()
    np.testing.assert_array_equal([shown(line) for line in ax.lines if len(shown(line)) == 3], drawings.LAW[2].T)
    for container, values in zip(ax.containers, drawings.VALUES.T, strict=False):
        np.testing.assert_allclose(bars(container), np.outer(values, [0.8, 1.2]))
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["networks", "control: wrong", "law", "posterior"]


def test_trajectories_put_infinity_at_the_end():
    first, second = drawings.trajectories().axes
    networks = next(line for line in first.lines if line.get_label() == "network, test point 1")
    np.testing.assert_allclose(np.asarray(networks.get_xydata()), [[1, 1], [100, 100]])
    assert [label.get_text() for label in first.get_xticklabels()][-1] == "∞"
    assert (first.get_title(), second.get_title()) == ("network 1", "network 2")


def test_intervals_need_not_be_symmetric_and_rules_stand_in_their_panel():
    mean, variance = drawings.ratios().axes
    np.testing.assert_allclose(bars(mean.containers[0]), drawings.LOADS[:, 2:])
    assert "rule" not in [line.get_label() for line in mean.lines]
    rule = next(line for line in variance.lines if line.get_label() == "rule")
    np.testing.assert_allclose(shown(rule), [1.1, 2.0])


def test_histograms_lie_on_the_density_within_their_bars():
    """Of 40 bars of two standard errors, 5 % miss; 8 or more do so once in 1000 times."""
    misses = 0
    for ax in drawings.histograms().axes:
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


def test_what_lies_beyond_the_axis_is_counted_in_the_last_bin():
    shares = []
    for ax in drawings.tails().axes:
        steps = ax.patches[0]
        assert isinstance(steps, StepPatch)
        heights, edges, _ = steps.get_data()
        shares.append(heights * np.diff(edges))
    assert [share.sum() for share in shares] == pytest.approx([1, 1])
    assert shares[1][-1] > 0.9 > shares[0][-1]


def test_every_pair_is_within_the_axes():
    for ax in drawings.pairs().axes:
        at = np.asarray(ax.collections[0].get_offsets())
        assert len(at) == 50
        assert np.abs(at).max() <= ax.get_xlim()[1] == ax.get_ylim()[1]


def test_below_the_posteriors_mean_is_subtracted():
    fig = drawings.functions()
    top, bottom = fig.axes[1], fig.axes[4]
    for above, below in zip(top.lines[:-1], bottom.lines[:-1], strict=True):
        np.testing.assert_allclose(shown(below), shown(above) - drawings.DISTANCE**2)
    np.testing.assert_allclose(shown(bottom.lines[-1]), [0.25, 0.25])  # the labels lie off the mean
    ends = [shown(line) for line in bottom.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(ends[1], 0.5 + 2 * np.sqrt(2 * (drawings.DISTANCE + 1)))


def test_a_row_for_each_contender_ends_where_its_interval_does():
    for ax in drawings.intervals().axes:
        for place, (container, at) in enumerate(zip(ax.containers, drawings.SCORES.values(), strict=True)):
            point, _, (segments,) = container.lines  # pyright: ignore[reportAttributeAccessIssue]
            assert point.get_xydata().tolist() == [[at.value, place]]
            np.testing.assert_allclose(segments.get_segments()[0][:, 0], [at.low, at.high])


def test_what_lies_outside_its_interval_is_told_apart():
    (ax,) = drawings.predictions().axes
    drawn = {line.get_label(): shown(line).tolist() for line in ax.lines}
    assert drawn["label inside its interval"] == [0.0, 1.0]
    assert drawn["label outside"] == [5.0]


def test_images_are_square_and_rows_are_named():
    fig = drawings.images()
    assert [len(ax.images) for ax in fig.axes] == [1, 1, 1, 0]
    np.testing.assert_array_equal(np.asarray(fig.axes[1].images[0].get_array()), np.arange(16.0, 32.0).reshape(4, 4))
    assert [ax.get_ylabel() for ax in fig.axes] == ["digits", "", "others", ""]


def test_regret_shows_means_and_their_intervals():
    for ax, so_far in zip(drawings.regret().axes, (np.cumsum, np.minimum.accumulate), strict=True):
        runs = so_far(drawings.REGRETS["sampler 1"], axis=1)
        half = stats.t.ppf(0.975, 7) * stats.sem(runs)
        for line, expected in zip(ax.lines[3:6], (-half, half, 0), strict=True):
            np.testing.assert_allclose(shown(line), runs.mean(0) + expected)
        assert "units" in ax.get_ylabel()


def test_a_best_candidate_that_all_find_is_drawn_too():
    fig = figures.regret_against_queries({"a": np.tile([1.0, 0.5, 0.0, 0.0], (3, 1))}, "found", "units")
    assert fig.axes[1].get_ylim()[0] == 0.25
    fig.draw_without_rendering()


def test_novelty_shows_both_rooms_and_sorts_their_bonuses():
    known, other = np.full((8, 6), 10, np.uint8), np.full((8, 6), 20, np.uint8)
    bonuses = {"control: before": (np.array([3.0, 1.0]), np.array([5.0, 4.0, 6.0])), "after": (np.ones(2), np.ones(3))}
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
