"""Estimates with their intervals: against the width, the time, the noise, a violated assumption, or the theory's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from rndlib.paper.evidence.statistics import Limit
from rndlib.paper.figures.style import (
    BLACK,
    GREY,
    PREDICTION,
    End,
    Figure,
    Interval,
    apart,
    blank,
    draw_series,
    label_ends,
    legend,
    logarithmic,
    looks,
    measured,
    predicted,
    should_be,
    style,
)

_WIDTH = "width $n$ (units in each hidden layer)"


@style()
def against_size(
    sizes: Sequence[int],
    series: Mapping[str, Interval],
    xlabel: str,
    ylabel: str,
    title: str,
    guides: Mapping[str, tuple[str, float]] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Estimates with their intervals against a size such as the width, on log axes.

    `guides` maps the label of a power law to the label of the series below which it is drawn, and its exponent;
    `levels` maps labels to heights, such as the tolerance of a claim.
    """
    fig, ((ax,),) = blank(title)
    at = np.asarray(sizes, float)
    ends = draw_series(ax, {label: (at, each) for label, each in series.items()}, factor=1.02, joined=True)
    for label, (through, exponent) in (guides or {}).items():
        centre = np.exp(np.log(at).mean()), np.exp(np.log(series[through][0]).mean())
        law = 0.75 * centre[1] * (at / centre[0]) ** exponent
        predicted(ax, at, law, line="--")
        ends.append((label, law[-1], PREDICTION))
    for label, level in (levels or {}).items():
        ax.axhline(level, color=BLACK, linewidth=0.9, linestyle=(0, (1, 1)))
        ends.append((label, level, PREDICTION))
    _ticks(ax, sizes, xlabel)
    logarithmic(ax.yaxis)
    ax.set_ylabel(ylabel)
    label_ends(ax, ends)
    return fig


@style()
def extrapolated(
    widths: Sequence[int], series: Mapping[str, Limit], tolerance: float, ylabel: str, title: str
) -> Figure:
    """Errors against the inverse of the width, with the lines through them and the intervals at infinite width.

    The shaded band reaches from `-tolerance` to `tolerance`. Every second width is named where names would collide.
    """
    fig, ((ax,),) = blank(title)
    at = 1 / np.asarray(widths, float)
    should_be(ax, 0, (-tolerance, tolerance))
    places, last = np.array([0, *at]), at.max()
    ends = [("theory, shaded: the tolerance", 0.0, PREDICTION)]
    for label, look in looks(series).items():
        height = series[label].infinite.value + series[label].slope * last
        ax.plot([0, last], [series[label].infinite.value, height], color=look.colour, linestyle=look.line)
        ends.append((label, float(height), look))
    errors = {label: (places, np.transpose([found.infinite, *found.errors])) for label, found in series.items()}
    draw_series(ax, errors, 0.006 * last)
    named = np.ptp(places) / 14  # apart, so that the names of two widths do not collide
    names = {0.0: "∞"}
    for place, width in sorted(zip(at, widths, strict=True)):
        if place - max(names) > named:
            names[float(place)] = str(width)
    ax.set_xticks(list(names), list(names.values()))
    ax.set(xlabel=f"{_WIDTH}, at $1/n$", ylabel=ylabel)
    label_ends(ax, ends)
    return fig


@style()
def discrepancy_against_width(
    widths: Sequence[int], panels: Mapping[str, tuple[Mapping[str, Float[np.ndarray, "seeds _"]], Interval]], title: str
) -> Figure:
    """Fig. 1: mean squared difference of RND error and ensemble variance against width, with its Monte-Carlo error.

    `panels` maps titles to the differences of every seed, joined by their geometric means, and to the Monte-Carlo error
    with the interval of its draws. A series that is shorter than the widths is of the largest ones.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.4, sharey=True)
    ends: list[End] = []
    for ax, (name, (series, (expected, low, high))) in zip(axes, panels.items(), strict=True):
        ax.axhline(expected, color=BLACK, linewidth=1)
        ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
        ends = [("Monte-Carlo error, 90 % of draws", float(expected), PREDICTION)]
        for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
            values = np.atleast_2d(series[label])
            at = np.asarray(widths)[-values.shape[1] :] * 1.06**shift
            for seed in values:
                ax.plot(at, seed, color=look.colour, marker=look.marker, linestyle="", markersize=3)
            mean = np.exp(np.log(values).mean(axis=0))
            ax.plot(at, mean, color=look.colour, linestyle=look.line, linewidth=1)
            ends.append((label, float(mean[-1]), look))
        _ticks(ax, widths, _WIDTH)
        ax.set(yscale="log", title=name)
    label_ends(axes[-1], ends)
    axes[0].set_ylabel("mean squared difference\n(label units to the fourth)")
    return fig


def _ticks(ax: Axes, widths: Sequence[int], label: str) -> None:
    """A log axis with a tick at each width."""
    ax.set(xscale="log", xlabel=label)
    ax.set_xticks(list(widths), [str(width) for width in widths], rotation=45 if len(widths) > 8 else 0)
    ax.xaxis.set_minor_locator(NullLocator())


@dataclass(frozen=True)
class Ratios:
    """One panel of `ratios`. Rows of a series are place, ratio, and the ends of its interval.

    `tolerated` and `band` are the ends and the label of a shaded band; `rules` are places and predictions of rules of
    thumb.
    """

    series: Mapping[str, Float[np.ndarray, "cases 4"]]
    tolerated: tuple[float, float] | None = None
    band: str = "the tolerance"
    rules: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@style()
def ratios(panels: Mapping[str, Ratios], xlabel: str, title: str, xscale: str = "log") -> Figure:
    """Ratios to the theorem's prediction, with their intervals, on a log axis, where both directions weigh the same."""
    fig, (axes,) = blank(title, 1, len(panels), sharey=True)
    ends: list[End] = []
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        ends = _ratios(ax, panel, *((0.0, 1.08) if xscale == "log" else (0.15, 1.0)))
        ax.set(xscale=xscale, xlabel=xlabel, ylabel=name)
        logarithmic(ax.yaxis)
    label_ends(axes[-1], ends)
    return fig


@style()
def ordered(
    strengths: Sequence[str],
    series: Mapping[str, Sequence[Interval]],
    xlabel: str,
    title: str,
    rules: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Ratios at rising strengths of one violated assumption, evenly spaced, as a strength can be 0 or infinite.

    The shaded band has the ratios within a quarter of 1. `rules` predict the ratios.
    """
    fig, ((ax,),) = blank(title, height=2.8)
    places = np.arange(len(strengths))
    rows = {label: np.column_stack([places, each]) for label, each in series.items()}
    predictions = {label: (places, np.asarray(each)) for label, each in (rules or {}).items()}
    ends = _ratios(ax, Ratios(rows, (1 / 1.25, 1.25), "within a quarter", predictions), 0.05, joined=True)
    ax.set(xlabel=xlabel, ylabel="ratio")
    ax.set_xticks(places, strengths)
    logarithmic(ax.yaxis)
    label_ends(ax, ends)
    return fig


def _ratios(ax: Axes, panel: Ratios, shift: float, factor: float = 1.0, joined: bool = False) -> list[End]:
    """Draw a panel; `shift` and `factor` as in `draw_series`. Returns where its series end."""
    should_be(ax, 1, panel.tolerated)
    ends = [(f"theory, shaded: {panel.band}" if panel.tolerated else "theory", 1.0, PREDICTION)]
    for (label, (places, ratio)), line in zip(panel.rules.items(), ("-", "--"), strict=False):
        predicted(ax, places, ratio, label, line)
        ends.append((label, ratio[-1], PREDICTION))
    series = {label: (rows[:, 0], rows[:, 1:].T) for label, rows in panel.series.items()}
    return ends + draw_series(ax, series, shift, factor, joined)


@style()
def variance_against(
    xlabel: str,
    theory: tuple[str, Float[np.ndarray, " grid"], Float[np.ndarray, "grid points"]],
    places: Sequence[float] | Float[np.ndarray, " places"],
    series: Mapping[str, Float[np.ndarray, "places points"]],
    relative_error: float,
    title: str,
    levels: tuple[str, Float[np.ndarray, " points"]] | None = None,
) -> Figure:
    """Variance at several test points against training time or noise: networks as points, the theory as lines.

    `theory` is its label, a grid, and its variance there for each test point. `series` maps labels to the mean squares
    of networks trained at `places`, with bars of two `relative_error`s. `levels` is a label, and for each test point
    the value where the theory should end.
    """
    fig, ((ax,),) = blank(title, height=3.4)
    label, grid, lines = theory
    for point, line in enumerate(lines.T):
        predicted(ax, grid, line, None if point else label)
        if levels is not None:
            ax.axhline(levels[1][point], color=GREY, linestyle="--", label=None if point else levels[0])
    bars = np.array([1, 1 - 2 * relative_error, 1 + 2 * relative_error])
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        for point, at in enumerate(series[label].T):
            measured(ax, np.asarray(places) * 1.04**shift, np.outer(bars, at), look, None if point else label)
    ax.set(xlabel=xlabel, ylabel="variance at a test point\n(label units squared)")
    logarithmic(ax.xaxis)
    logarithmic(ax.yaxis)
    legend(fig, ax)
    return fig
