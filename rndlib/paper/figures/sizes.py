"""Dependence on a size: errors against width or degree, Fig. 1 and Fig. 2 of the paper, and scores against heads."""

from collections.abc import Mapping, Sequence

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
    blank,
    label_ends,
    looks,
    measured,
    predicted,
    side_by_side,
    style,
)


@style()
def against_size(
    sizes: Sequence[int],
    series: Mapping[str, Interval],
    xlabel: str,
    ylabel: str,
    title: str,
    guides: Mapping[str, tuple[str, float]] | None = None,
    levels: Mapping[str, float] | None = None,
    yscale: str = "log",
) -> Figure:
    """Estimates with their intervals against a size on a log axis, such as the width.

    `guides` maps the label of a power law to the label of the series below which it is drawn, and its exponent;
    `levels` maps labels to heights, such as the margin of a claim.
    """
    fig, ((ax,),) = blank(title)
    ends = _series(ax, sizes, series)
    ax.set(yscale=yscale, xlabel=xlabel, ylabel=ylabel)
    at = np.asarray(sizes, float)
    for label, (through, exponent) in (guides or {}).items():
        centre = np.exp(np.log(at).mean()), np.exp(np.log(series[through][0]).mean())
        law = 0.75 * centre[1] * (at / centre[0]) ** exponent
        predicted(ax, at, law, line="--")
        ends.append((label, law[-1], PREDICTION))
    for label, level in (levels or {}).items():
        ax.axhline(level, color=BLACK, linewidth=0.9, linestyle=(0, (1, 1)))
        ends.append((label, level, PREDICTION))
    label_ends(ax, ends)
    return fig


@style()
def extrapolated(widths: Sequence[int], series: Mapping[str, Limit], margin: float, ylabel: str, title: str) -> Figure:
    """Errors against the inverse of the width, with the lines through them and the intervals at infinite width.

    The shaded band reaches from `-margin` to `margin`.
    """
    fig, ((ax,),) = blank(title)
    at, look = 1 / np.asarray(widths, float), looks(series)
    ax.axhspan(-margin, margin, color=GREY, alpha=0.2, linewidth=0)
    ax.axhline(0, color=BLACK, linewidth=0.9, linestyle=":")
    ends: list[tuple[str, float, Look]] = [("law, shaded: the margin", 0.0, PREDICTION)]
    places = np.array([0, *at])
    for (label, found), shift in zip(series.items(), np.linspace(-0.5, 0.5, len(series) + 2)[1:-1], strict=True):
        low, high = found.infinite.value + found.slope * np.array([0, at.max()])
        ax.plot([0, at.max()], [low, high], color=look[label].colour, linestyle=look[label].line)
        estimates = np.transpose([found.infinite, *found.errors])
        measured(ax, places + 0.04 * shift * at.max(), (estimates[0], estimates[1], estimates[2]), look[label], label)
        ends.append((label, float(high), look[label]))
    ax.set(xlabel="width $n$ (units in each hidden layer), at $1/n$", ylabel=ylabel)
    ax.set_xticks(places, ["∞", *map(str, widths)])
    label_ends(ax, ends)
    return fig


@style()
def discrepancy_against_width(
    widths: Sequence[int], panels: Mapping[str, tuple[Mapping[str, Interval], Interval]], title: str
) -> Figure:
    """Fig. 1: mean squared difference of RND error and ensemble variance against width, with its floor as a band.

    `panels` maps titles to the series of `against_size`, and the Monte-Carlo floor with the interval of its draws.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.2, sharey=True)
    ends: list[tuple[str, float, Look]] = []
    for ax, (name, (series, (expected, low, high))) in zip(axes, panels.items(), strict=True):
        ends = [*_series(ax, widths, series), ("floor under the laws, 90 % of draws", expected, PREDICTION)]
        ax.axhline(expected, color=BLACK, linewidth=1)
        ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0)
        ax.set(yscale="log", title=name, xlabel="width $n$ (units in each hidden layer)")
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
    panels: list[Axes] = list(axes.flat)
    for empty in range(len(widths), axes.size):
        panels[empty].remove()
        panels[empty - axes.shape[1]].tick_params(labelbottom=True)  # now the lowest of its column
    fig.supxlabel("ensemble variance (label units squared)")
    fig.supylabel("RND error\n(label units squared)")
    return fig


def _series(ax: Axes, sizes: Sequence[int], series: Mapping[str, Interval]) -> list[tuple[str, float, Look]]:
    """Draw all series over a log axis with a tick at each size, and return their ends, for `label_ends`.

    A series that is shorter than the sizes is of the largest ones.
    """
    look = looks(series)
    for (label, estimate), shift in zip(series.items(), side_by_side(len(series)), strict=True):
        measured(ax, np.asarray(sizes)[-len(estimate[0]) :] * shift, estimate, look[label], label, joined=True)
    ax.set_xscale("log")
    ax.set_xticks(list(sizes), [str(size) for size in sizes], rotation=45 if len(sizes) > 8 else 0)
    ax.xaxis.set_minor_locator(NullLocator())
    return [(label, float(estimate[0][-1]), look[label]) for label, estimate in series.items()]
