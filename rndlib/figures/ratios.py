"""Ratios to what the law says, which should be 1: at each test point, and against the load of a body."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from rndlib.evidence.statistics import LogRatio
from rndlib.figures.style import (
    BLACK,
    GREY,
    Figure,
    blank,
    label_ends,
    legend,
    looks,
    measured,
    predicted,
    side_by_side,
    style,
)


@style()
def ratio_over_points(series: Mapping[str, LogRatio], margin: float, title: str) -> Figure:
    """Ratio of the mean squared RND error to the ensemble variance at each test point, with its simultaneous band.

    series: label to the ratio at the same test points. margin: the claim's tolerance on the log ratio.
    """
    fig, ((ax,),) = blank(title)
    ax.axhspan(np.exp(-margin), np.exp(margin), color=GREY, alpha=0.2, linewidth=0)
    look, ends = looks(series), [("theorem, with its margin", 1.0, BLACK)]
    places = np.arange(1, len(next(iter(series.values())).estimate) + 1)
    predicted(ax, [0, len(places) + 1], [1, 1], line="--")
    for (label, at), shift in zip(series.items(), np.linspace(-0.15, 0.15, len(series)), strict=True):
        measured(ax, places + shift, (np.exp(at.estimate), np.exp(at.low), np.exp(at.high)), look[label])
        ends.append((label, float(np.exp(at.estimate[-1])), look[label].colour))
    _ratio_axis(ax)
    ax.set(xlabel="test point", xlim=(0, len(places) + 1), ylabel="mean squared error / variance")
    ax.grid(axis="x", visible=False)
    label_ends(ax, ends)
    return fig


@dataclass(frozen=True)
class Loads:
    """One panel of `ratio_against_load`.

    series: label to rows of load, ratio, and the ends of its interval. rules: label to loads and the ratio that a rule
    predicts there. tolerated: the largest departure from 1 that goes without a warning.
    """

    series: Mapping[str, Float[np.ndarray, "cases 4"]]
    rules: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    tolerated: float = 0.0


@style()
def ratio_against_load(panels: Mapping[str, Loads], xlabel: str, title: str) -> Figure:
    """What heads on a shared body do: a statistic over what the theorem says, against the load of the body.

    panels: label of the ratio to what is drawn.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.4, sharey=True)
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        if panel.tolerated:
            ax.axhspan(1 - panel.tolerated, 1 + panel.tolerated, color=GREY, alpha=0.2, linewidth=0, label="no warning")
        ax.axhline(1, color=BLACK, linewidth=0.9, linestyle=":", label="theorem, infinitely wide")
        for (label, (load, ratio)), line in zip(panel.rules.items(), ("-", "--"), strict=False):
            predicted(ax, load, ratio, label, line)
        look = looks(panel.series)
        for (label, rows), shift in zip(panel.series.items(), side_by_side(len(panel.series), 1.08), strict=True):
            load, *estimate = rows.T
            measured(ax, load * shift, (estimate[0], estimate[1], estimate[2]), look[label], label)
        ax.set(xscale="log", xlabel=xlabel, ylabel=name)
        _ratio_axis(ax)
    legend(fig, axes)
    return fig


def _ratio_axis(ax: Axes) -> None:
    """A log axis on which the two directions of a miss weigh the same, with plain numbers."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5, 8)))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())
