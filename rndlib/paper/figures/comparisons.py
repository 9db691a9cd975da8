"""Methods and settings side by side: intervals by name, scores against cost, and the map of notebook 08."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch, Rectangle

from rndlib.advice import Ratio
from rndlib.paper.figures.style import (
    BLUE,
    GREY,
    LOOKS,
    Figure,
    Interval,
    Look,
    blank,
    legend,
    logarithmic,
    measured,
    style,
    wrapped,
)

_LARGEST = 4.0  # ratio at the ends of the colours
_HATCHES = {"safe": "", "biased": "///", "meaningless": "xxx"}
_LETTERS = 9  # of a strength, on a line of its cell


@style()
def intervals(
    panels: Mapping[str, Mapping[str, Interval]], title: str, lines: Mapping[str, float], log: bool = False
) -> Figure:
    """Numbers with their intervals as dots, one row per name and one panel per kind of number.

    `panels` maps the label of a kind to the estimates by name. `lines` are labelled positions in all panels.
    """
    names = list(next(iter(panels.values())))
    fig, (axes,) = blank(title, 1, len(panels), 1.2 + 0.24 * len(names), sharey=True)
    for ax, (label, scores) in zip(axes, panels.items(), strict=True):
        for says, at in lines.items():
            ax.axvline(at, color="black", linewidth=0.9, linestyle="--", label=says)
        for place, name in enumerate(names):
            value, low, high = scores[name]
            ax.errorbar([value], [place], xerr=[[value - low], [high - value]], color=BLUE, marker="o", linestyle="")
        ax.set_xlabel(label)
        if log:
            logarithmic(ax.xaxis)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    legend(fig, axes)
    return fig


@style()
def against_cost(
    panels: Mapping[str, Mapping[str, tuple[float, Interval]]], xlabel: str, ylabel: str, title: str
) -> Figure:
    """A score with its interval against its cost, on a log axis, one panel per data set and one marker per method.

    `panels` maps titles to the cost and the score of each method. Methods differ in marker and colour.
    """
    methods = dict.fromkeys(name for panel in panels.values() for name in panel)
    look = {
        name: Look(LOOKS[place % len(LOOKS)].colour, marker, "")
        for place, (name, marker) in enumerate(zip(methods, "osD^vP*X<>p", strict=False))
    }
    rows = -(-len(panels) // 2)
    fig, axes = blank(title, rows, 2, 0.9 + 1.9 * rows)
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=False):
        for method, (cost, score) in panel.items():
            measured(ax, [cost], score, look[method], method)
        ax.set(title=name, xlabel=xlabel)
        logarithmic(ax.xaxis)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    legend(fig, axes)
    return fig


@style()
def departure_map(rows: Mapping[str, Sequence[tuple[str, Mapping[str, Ratio]]]], title: str) -> Figure:
    """Assumptions as rows, how strongly each is violated from left to right, and a panel for each ratio.

    A cell has the strength, and below it the ratio, which is also its colour. Cells that are not safe are hatched, for
    readers in grey.
    """
    names = list(next(iter(rows.values()))[0][1])
    longest = max(map(len, rows.values()))
    fig, (axes,) = blank(title, 1, len(names), 1.0 + 0.42 * len(rows), sharey=True)
    paper = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
    colours = ScalarMappable(LogNorm(1 / _LARGEST, _LARGEST), "PuOr")
    for ax, name in zip(axes, names, strict=True):
        for line, cells in enumerate(rows.values()):
            for place, (strength, ratios) in enumerate(cells):
                ratio = ratios[name]
                colour, hatch = colours.to_rgba(np.clip(ratio.value, 1 / _LARGEST, _LARGEST)), _HATCHES[ratio.verdict]
                corner = place - 0.48, line - 0.46
                ax.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=colour, edgecolor=GREY, hatch=hatch, lw=0))
                text = f"{wrapped(strength, _LETTERS)}\n{ratio.value:.2g}"
                ax.text(place, line, text, ha="center", va="center", fontsize=5, bbox=paper)
        ax.set(xlim=(-0.6, longest - 0.4), ylim=(len(rows) - 0.4, -0.6), xticks=[])
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_title(name)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    ticks = [0.25, 0.5, 1, 2, 4]
    bar = fig.colorbar(
        colours, ax=axes, extend="both", ticks=ticks, format="{x:g}", location="bottom", shrink=0.5, aspect=40
    )
    bar.minorticks_off()
    bar.set_label("ratio, which should be 1")
    marks = [Patch(facecolor="white", edgecolor=GREY, hatch=hatch, label=word) for word, hatch in _HATCHES.items()]
    fig.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    return fig
