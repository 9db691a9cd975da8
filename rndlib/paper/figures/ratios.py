"""Ratios to a theorem's prediction, which should be 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from rndlib.paper.figures.style import (
    PREDICTION,
    Figure,
    Interval,
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
    ends = []
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        should_be(ax, 1, panel.tolerated)
        ends = [(f"theory, shaded: {panel.band}" if panel.tolerated else "theory", 1.0, PREDICTION)]
        for (label, (places, ratio)), line in zip(panel.rules.items(), ("-", "--"), strict=False):
            predicted(ax, places, ratio, label, line)
            ends.append((label, ratio[-1], PREDICTION))
        for (label, look), shift in zip(looks(panel.series).items(), apart(len(panel.series)), strict=True):
            places, ratio, low, high = np.asarray(panel.series[label]).T
            moved = places * 1.08**shift if xscale == "log" else places + 0.15 * shift
            measured(ax, moved, (ratio, low, high), look, label)
            ends.append((label, ratio[-1], look))
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
    should_be(ax, 1, (1 / 1.25, 1.25))
    ends = [("theory, shaded: within a quarter", 1.0, PREDICTION)]
    places = np.arange(len(strengths))
    for (label, values), line in zip((rules or {}).items(), ("-", "--"), strict=False):
        predicted(ax, places, values, label, line)
        ends.append((label, values[-1], PREDICTION))
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        ratio, low, high = np.array(series[label]).T
        measured(ax, places + 0.05 * shift, (ratio, low, high), look, label, joined=True)
        ends.append((label, float(ratio[-1]), look))
    ax.set(xlabel=xlabel, ylabel="ratio")
    ax.set_xticks(places, strengths)
    logarithmic(ax.yaxis)
    label_ends(ax, ends)
    return fig
