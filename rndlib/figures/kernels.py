"""Figures of wide networks and their kernels: before training, against width, and along the course of training."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import NullLocator
from scipy import stats

from rndlib.figures.style import BLACK, GREY, LOOKS, Figure, blank, legend_below, side_by_side, style

Interval = tuple[np.ndarray, np.ndarray, np.ndarray]


def errors_against(
    places: Sequence[int],
    series: Mapping[str, Interval],
    xlabel: str,
    ylabel: str,
    guides: Mapping[str, tuple[str, float]] | None = None,
    margin: float | None = None,
) -> Figure:
    """Errors against a width or a degree, log-log, with their intervals.

    places: the widths or degrees. series: label to `(error, low, high)`, three arrays `(places,)`. guides: label of a
    power law to the label of the series below which it is drawn, to compare slopes, and its exponent. margin: the
    claim's tolerance.
    """
    at = np.asarray(places, float)
    with style():
        fig, axes = blank(height=3.6)
        ax = axes[0, 0]
        shifts = side_by_side(len(series), 0.96, 1.04)
        for (label, values), (colour, marker, line), shift in zip(series.items(), LOOKS, shifts, strict=False):
            error, low, high = values
            bars = np.stack([error - low, high - error])
            ax.errorbar(at * shift, error, bars, color=colour, marker=marker, linestyle=line, capsize=2, label=label)
        for i, (label, (through, exponent)) in enumerate((guides or {}).items()):
            centre = np.exp(np.log(at).mean()), np.exp(np.log(series[through][0]).mean())
            law = 0.75 * centre[1] * (at / centre[0]) ** exponent
            ax.plot(at, law, color=GREY, linewidth=1, linestyle=("-", "--")[i % 2], label=label, zorder=1)
        if margin is not None:
            ax.axhline(margin, color=BLACK, linewidth=0.9, linestyle=(0, (1, 1)), label="declared margin")
        ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        ax.set_xticks(at, [str(place) for place in places])
        ax.xaxis.set_minor_locator(NullLocator())
        legend_below(fig, axes)
    return fig


def lengths(
    found: Mapping[str, Float[np.ndarray, " networks"]], points: int, wrong: tuple[str, Float[np.ndarray, " networks"]]
) -> Figure:
    """Squared whitened lengths over networks as histograms, on the chi-squared density that Gaussian outputs have.

    found: label to the squared lengths of outputs at `points` points. wrong: the same for a wrong law.
    """
    ends = float(stats.chi2.ppf(1e-5, points)), float(stats.chi2.ppf(1 - 1e-6, points))
    bins, fine = np.linspace(*ends, 41), np.linspace(*ends, 200)
    with style():
        fig, axes = blank(1, 1 + len(found), width=2.2 * (1 + len(found)) + 0.6, height=2.9, sharex=True, sharey=True)
        for ax, (label, squares) in zip(axes[0], {**found, wrong[0]: wrong[1]}.items(), strict=True):
            # What lies beyond the axis is counted in its last bin: heavy tails are what there is to see.
            ax.hist(np.clip(squares, *ends), bins, density=True, color=GREY, alpha=0.6, label="networks")
            ax.plot(fine, stats.chi2.pdf(fine, points), color=BLACK, label=f"chi-squared, {points} degrees of freedom")
            ax.set(yscale="log", ylim=(1e-5, 0.5), title=label, xlabel="squared whitened length")
        axes[0, 0].set_ylabel("density")
        legend_below(fig, axes)
    return fig


def matrices(
    reference: tuple[str, Float[np.ndarray, "points points"]],
    others: Mapping[str, Float[np.ndarray, "points points"]],
    label: str,
) -> Figure:
    """Kernel matrices side by side on one scale, from minus to plus the largest entry of the first."""
    name, first = reference
    top = float(np.abs(first).max())
    look = Normalize(-top, top)
    with style(), mpl.rc_context({"axes.grid": False}):
        fig, axes = blank(1, 1 + len(others), width=2.1 * (1 + len(others)) + 0.9, height=2.3)
        for ax, (title, matrix) in zip(axes[0], {name: first, **others}.items(), strict=True):
            ax.imshow(matrix, cmap="PuOr", norm=look)
            ax.set(xticks=[], yticks=[], title=title)
        fig.colorbar(ScalarMappable(look, "PuOr"), ax=axes, extend="both", shrink=0.9).set_label(label)
    return fig


def trajectories(
    moments: Float[np.ndarray, " moments"],
    predicted: Float[np.ndarray, "networks moments points"],
    wrong: tuple[str, Float[np.ndarray, "networks moments points"]],
    times: Sequence[float],
    found: Float[np.ndarray, "networks times points"],
) -> Figure:
    """Outputs of trained networks over training time, a panel a network, on the lines predicted from its own start.

    moments: times of the lines, rising. wrong: label and lines of a wrong prediction. times: where the networks were
    trained to; an infinite one stands at the last of the moments.
    """
    last = moments[-1]
    at = np.minimum(times, last)
    with style():
        fig, axes = blank(1, len(found), width=2.3 * len(found) + 0.6, height=3.2, sharex=True, sharey=True)
        for index, ax in enumerate(axes[0]):
            for point, (colour, marker, _) in zip(range(found.shape[2]), LOOKS, strict=False):
                ax.plot(moments, predicted[index, :, point], color=colour, label=f"point {point + 1}, predicted")
                ax.plot(moments, wrong[1][index, :, point], color=colour, linewidth=0.8, linestyle=":")
                ax.plot(at, found[index, :, point], color=colour, marker=marker, linestyle="", markerfacecolor="none",
                        label=f"point {point + 1}, network")  # fmt: skip
            ax.set(xscale="log", title=f"network {index + 1}", xlabel="training time t")
        axes[0, 0].plot([], [], color=GREY, linewidth=0.8, linestyle=":", label=wrong[0])
        ticks = [tick for tick in 10.0 ** np.arange(-6, 7) if moments[0] <= tick <= last / 5]
        axes[0, 0].set_xticks([*ticks, last], [*(f"{tick:g}" for tick in ticks), "∞"])
        axes[0, 0].xaxis.set_minor_locator(NullLocator())
        axes[0, 0].set_ylabel("output (label units)")
        legend_below(fig, axes)
    return fig
