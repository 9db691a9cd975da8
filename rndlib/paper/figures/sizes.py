"""Dependence on the width: errors against it, the extrapolation of E-limit, and Figs. 1 and 2 of the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from rndlib.paper.evidence.statistics import Limit, calibration
from rndlib.paper.figures.style import (
    BLACK,
    BLUE,
    GREY,
    PREDICTION,
    Figure,
    Interval,
    Look,
    apart,
    blank,
    label_ends,
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
    ends: list[tuple[str, float, Look]] = []
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        measured(ax, np.asarray(sizes) * 1.02**shift, series[label], look, label, joined=True)
        ends.append((label, float(series[label][0][-1]), look))
    at = np.asarray(sizes, float)
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
    ends: list[tuple[str, float, Look]] = [("theory, shaded: the tolerance", 0.0, PREDICTION)]
    places, last = np.array([0, *at]), at.max()
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        found = series[label]
        line = found.infinite.value + found.slope * np.array([0, last])
        ax.plot([0, last], line, color=look.colour, linestyle=look.line)
        estimates = np.transpose([found.infinite, *found.errors])
        measured(ax, places + 0.006 * shift * last, (estimates[0], estimates[1], estimates[2]), look, label)
        ends.append((label, float(line[1]), look))
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
    ends: list[tuple[str, float, Look]] = []
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


@style()
def scatter_by_width(
    widths: Sequence[int],
    ensemble: Float[np.ndarray, "widths points"],
    rnd: Float[np.ndarray, "widths points"],
    title: str,
) -> Figure:
    """Fig. 2: RND error against ensemble variance at every test point, one panel per width, on log axes.

    Slope and correlation (`calibration`) are in each panel, and those of the last are added to the title.
    """
    slope, correlation = calibration(ensemble[-1], rnd[-1])
    title = f"{title}: slope {slope:.2f} and correlation {correlation:.3f} at $n = {widths[-1]}$"
    rows = -(-len(widths) // 5)
    fig, axes = blank(title, rows, -(-len(widths) // rows), 0.9 + 1.4 * rows, True, True)
    ends = [min(ensemble.min(), rnd.min()), max(ensemble.max(), rnd.max())]
    for ax, width, x, y in zip(axes.flat, widths, ensemble, rnd, strict=False):
        slope, correlation = calibration(x, y)
        ax.scatter(x, y, s=3, color=BLUE, alpha=0.25, linewidths=0, rasterized=True)
        predicted(ax, ends, ends, line="--")
        ax.set(xscale="log", yscale="log", title=f"$n = {width}$", aspect="equal")
        ax.text(0.04, 0.96, f"slope {slope:.2f}\ncorr. {correlation:.3f}", transform=ax.transAxes, va="top", fontsize=7)
    panels: list[Any] = list(axes.flat)
    for empty in range(len(widths), axes.size):
        panels[empty].remove()
        panels[empty - axes.shape[1]].tick_params(labelbottom=True)  # now the lowest of its column
    fig.supxlabel("ensemble variance (label units squared)")
    fig.supylabel("RND error\n(label units squared)")
    return fig


def _ticks(ax: Axes, widths: Sequence[int], label: str) -> None:
    """A log axis with a tick at each width."""
    ax.set(xscale="log", xlabel=label)
    ax.set_xticks(list(widths), [str(width) for width in widths], rotation=45 if len(widths) > 8 else 0)
    ax.xaxis.set_minor_locator(NullLocator())
