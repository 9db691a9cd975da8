"""Figures of the numerical analysis: discrepancy against width (Fig. 1), point by point (Fig. 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import NullLocator

from rndlib.evidence.statistics import calibration
from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, Figure, blank, legend_below, side_by_side, style


@dataclass(frozen=True)
class Widths:
    """One panel of `discrepancy_against_width`.

    series: label to `(difference, low, high)`, three arrays `(widths,)`: mean over seeds, and its interval.
    floor: the Monte-Carlo floor and the interval under the laws, `(floor, low, high)`.
    control: label to `(widths,)`, differences of a wrong variant.
    """

    title: str
    series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    floor: tuple[float, float, float]
    control: Mapping[str, np.ndarray] = field(default_factory=dict)


def discrepancy_against_width(widths: Sequence[int], panels: Sequence[Widths]) -> Figure:
    """Fig. 1: mean squared difference against width, log-log, with the Monte-Carlo floor as a band."""
    with style():
        fig, axes = blank(1, len(panels), width=3.6 * len(panels), height=3.4, sharey=True)
        for ax, panel in zip(axes[0], panels, strict=True):
            shifts = side_by_side(len(panel.series), 0.95, 1.05)
            for (label, values), (colour, marker, line), shift in zip(
                panel.series.items(), LOOKS, shifts, strict=False
            ):
                mean, low, high = values
                bars = np.stack([mean - low, high - mean])
                places = np.asarray(widths) * shift
                ax.errorbar(places, mean, bars, color=colour, marker=marker, linestyle=line, capsize=2, label=label)
            for label, difference in panel.control.items():
                ax.plot(widths, difference, color=BLACK, marker="x", linestyle=":", label=label)
            expected, low, high = panel.floor
            ax.axhline(expected, color=GREY, linewidth=1, label="floor, expected under the law")
            ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0, label="floor, 90 % of draws")
            ax.set(xscale="log", yscale="log", title=panel.title, xlabel="width n (units in each hidden layer)")
            ax.set_xticks(list(widths), [str(width) for width in widths], rotation=45 if len(widths) > 6 else 0)
            ax.xaxis.set_minor_locator(NullLocator())
        axes[0, 0].set_ylabel("mean squared difference\n(label units to the fourth)")
        legend_below(fig, axes)
    return fig


def scatter_by_width(
    widths: Sequence[int],
    ensemble: Float[np.ndarray, "widths points"],
    rnd: Float[np.ndarray, "widths points"],
    title: str,
) -> Figure:
    """Fig. 2: RND error against ensemble variance at every test point, a panel a width, on one pair of log axes."""
    rows = -(-len(widths) // 4)
    columns = -(-len(widths) // rows)
    with style():
        fig, axes = blank(rows, columns, width=1.9 * columns + 0.6, height=2.1 * rows + 0.6, sharex=True, sharey=True)
        ends = [min(ensemble.min(), rnd.min()), max(ensemble.max(), rnd.max())]
        for ax, width, x, y in zip(axes.flat, widths, ensemble, rnd, strict=False):
            slope, correlation = calibration(x, y)
            ax.scatter(x, y, s=3, color=BLUE, alpha=0.25, linewidths=0, rasterized=True)
            ax.plot(ends, ends, color=BLACK, linewidth=0.9, linestyle="--")
            ax.set(xscale="log", yscale="log", title=f"n = {width}")
            ax.text(
                0.04, 0.96, f"slope {slope:.2f}\ncorr. {correlation:.3f}", transform=ax.transAxes, va="top", fontsize=8
            )
            ax.set_aspect("equal")
        for empty in range(len(widths), axes.size):
            axes.flat[empty].remove()
            axes.flat[empty - columns].xaxis.set_tick_params(labelbottom=True)  # now the lowest of its column
        fig.suptitle(title, fontsize=10)
        fig.supxlabel("ensemble variance (label units squared)", fontsize=9)
        fig.supylabel("RND error (label units squared)", fontsize=9)
    return fig
