"""Scores side by side, one row per name, and against what they cost."""

from collections.abc import Mapping

from rndlib.paper.figures.style import (
    BLUE,
    LOOKS,
    Figure,
    Interval,
    Look,
    blank,
    legend,
    logarithmic,
    measured,
    style,
)


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
    methods = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    markers = "osD^vP*X<>p"
    look = {
        name: Look(LOOKS[place % len(LOOKS)].colour, marker, "")
        for place, (name, marker) in enumerate(zip(methods, markers, strict=False))
    }
    fig, axes = blank(title, -(-len(panels) // 2), 2, 0.9 + 1.9 * -(-len(panels) // 2))
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
