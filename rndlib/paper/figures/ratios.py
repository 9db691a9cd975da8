"""Ratios to a theorem's prediction, which should be 1: at each test point, or against the load of a body."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from rndlib.paper.figures.style import (
    BLACK,
    GREY,
    PREDICTION,
    Figure,
    blank,
    label_ends,
    looks,
    measured,
    predicted,
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
    band: str = "its margin"
    rules: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@style()
def ratios(panels: Mapping[str, Ratios], xlabel: str, title: str, xscale: str = "log") -> Figure:
    """Ratios to the theorem's prediction, with their intervals, on a log axis, where both directions weigh the same."""
    fig, (axes,) = blank(title, 1, len(panels), sharey=True)
    ends = []
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        if panel.tolerated:
            ax.axhspan(*panel.tolerated, color=GREY, alpha=0.2, linewidth=0)
        ax.axhline(1, color=BLACK, linewidth=0.9, linestyle=":")
        ends = [(f"theorem, shaded: {panel.band}" if panel.tolerated else "theorem", 1.0, PREDICTION)]
        for (label, (places, ratio)), line in zip(panel.rules.items(), ("-", "--"), strict=False):
            predicted(ax, places, ratio, label, line)
            ends.append((label, ratio[-1], PREDICTION))
        look, apart = looks(panel.series), np.linspace(-1, 1, len(panel.series)) if len(panel.series) > 1 else [0]
        for (label, rows), shift in zip(panel.series.items(), apart, strict=True):
            places, *estimate = rows.T
            moved = places * 1.08**shift if xscale == "log" else places + 0.15 * shift
            measured(ax, moved, (estimate[0], estimate[1], estimate[2]), look[label], label)
            ends.append((label, estimate[0][-1], look[label]))
        ax.set(xscale=xscale, yscale="log", xlabel=xlabel, ylabel=name)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5, 8)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
    label_ends(axes[-1], ends)
    return fig
