"""Dependence on training time and noise: networks on the lines that the theory predicts."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import NullLocator

from rndlib.paper.figures.style import (
    GREY,
    LOOKS,
    Figure,
    apart,
    blank,
    legend,
    logarithmic,
    looks,
    measured,
    predicted,
    style,
)


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
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        for point, at in enumerate(series[label].T):
            ends = at, (1 - 2 * relative_error) * at, (1 + 2 * relative_error) * at
            measured(ax, np.asarray(places) * 1.04**shift, ends, look, None if point else label)
    ax.set(xlabel=xlabel, ylabel="variance at a test point\n(label units squared)")
    logarithmic(ax.xaxis)
    logarithmic(ax.yaxis)
    legend(fig, ax)
    return fig


@style()
def trajectories(
    moments: Float[np.ndarray, " moments"],
    predictions: Float[np.ndarray, "networks moments points"],
    wrong: tuple[str, Float[np.ndarray, "networks moments points"]],
    times: Sequence[float],
    outputs: Float[np.ndarray, "networks times points"],
    title: str,
) -> Figure:
    """Outputs of trained networks over training time, one panel each, on the lines from their own initial outputs.

    The lines are at the rising times `moments`; networks were trained to `times`, of which an infinite one is drawn at
    the last of the moments. `wrong` has the label and lines of a wrong one.
    """
    last = moments[-1]
    fig, (axes,) = blank(title, 1, len(outputs), 3.2, sharex=True, sharey=True)
    for index, ax in enumerate(axes):
        for point, look in zip(range(outputs.shape[2]), LOOKS, strict=False):
            ax.plot(moments, wrong[1][index, :, point], color=GREY, linewidth=0.8, linestyle=":", label=wrong[0])
            predicted(ax, moments, predictions[index, :, point], "predicted")
            ax.plot(np.minimum(times, last), outputs[index, :, point], color=look.colour, marker=look.marker,
                    linestyle="", label=f"network, test point {point + 1}")  # fmt: skip
        ax.set(xscale="log", title=f"network {index + 1}", xlabel="training time $t$")
    ticks = [tick for tick in 10.0 ** np.arange(-6, 7) if moments[0] <= tick <= last / 5]
    axes[0].set_xticks([*ticks, last], [*(f"{tick:g}" for tick in ticks), "∞"])
    axes[0].xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("output (label units)")
    legend(fig, axes)
    return fig
