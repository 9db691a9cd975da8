"""Figures of contenders on real data: their scores side by side, predictions, images, and regret."""

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Float

from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.statistics import t_interval
from rndlib.paper.figures.style import BLUE, GREY, VERMILION, Figure, blank, label_ends, legend, looks, style


@style()
def intervals(
    panels: Mapping[str, Mapping[str, Estimate]],
    title: str,
    lines: Mapping[str, float] | None = None,
    logarithmic: Collection[str] = (),
) -> Figure:
    """Scores with their intervals, one row per contender and one panel per score.

    `panels` maps the label of a score to the estimates of all contenders, by name. `lines` are labelled positions in
    all panels; the scores in `logarithmic` have a log axis.
    """
    names = list(next(iter(panels.values())))
    fig, (axes,) = blank(title, 1, len(panels), 1.2 + 0.24 * len(names), sharey=True)
    for ax, (label, scores) in zip(axes, panels.items(), strict=True):
        for says, at in (lines or {}).items():
            ax.axvline(at, color="black", linewidth=0.9, linestyle="--", label=says)
        for place, name in enumerate(names):
            value, low, high = scores[name]
            bars = [[value - low], [high - value]]
            ax.errorbar([value], [place], xerr=bars, color=BLUE, marker="o", linestyle="")
        ax.set(xlabel=label, xscale="log" if label in logarithmic else "linear")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    if lines:
        legend(fig, axes)
    return fig


@style()
def predictions(
    panels: Mapping[str, tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]],
    seen: Float[np.ndarray, " t"],
    title: str,
) -> Figure:
    """Labels of the test points against predictions with 90 % intervals; one panel per contender.

    `panels` maps titles to predicted means and half widths of the intervals; `seen` are the labels.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.2, sharex=True, sharey=True)
    for ax, (name, (mean, half)) in zip(axes, panels.items(), strict=True):
        ax.errorbar(mean, mean, half, color=GREY, linestyle="", linewidth=0.8, alpha=0.7, label="90 % interval")
        outside = np.abs(seen - mean) > half
        ax.plot(mean[~outside], seen[~outside], ".", color=BLUE, label="label inside its interval")
        ax.plot(mean[outside], seen[outside], "s", color=VERMILION, markersize=3, label="label outside")
        ax.set(title=name, xlabel="predicted\n(standard deviations of y)")
    axes[0].set_ylabel("seen\n(standard deviations of y)")
    legend(fig, axes)
    return fig


@style()
def images(rows: Mapping[str, Float[np.ndarray, "shown pixels"]], title: str) -> Figure:
    """Square grey images, one row per kind."""
    fig, axes = blank(title, len(rows), max(map(len, rows.values())), 0.3 + 0.62 * len(rows))
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    for line, (kind, pictures) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(kind, rotation=0, ha="right", va="center")
        for ax, picture in zip(line, pictures, strict=False):
            side = round(len(picture) ** 0.5)
            ax.imshow(picture.reshape(side, side), cmap="gray_r")
    return fig


@style()
def regret_against_queries(regrets: Mapping[str, Float[np.ndarray, "seeds queries"]], title: str, unit: str) -> Figure:
    """Cumulative regret and smallest regret so far against queries: means over seeds with 95 % intervals."""
    fig, (axes,) = blank(title, 1, 2, 3.3)
    look, ends = looks(regrets), []
    for index, (label, values) in enumerate(regrets.items()):
        colour, marker, line = look[label]
        queries = np.arange(1, values.shape[1] + 1)
        # Markers of one series lie between those of the others.
        every = (index * len(queries) // (5 * len(regrets)), max(1, len(queries) // 5))
        for ax, so_far in zip(axes, (np.cumsum, np.minimum.accumulate), strict=True):
            runs = so_far(values, axis=1)
            mean, band = runs.mean(axis=0), np.array([t_interval(at, sides=2)[1:] for at in runs.T])
            ax.fill_between(queries, *band.T, color=colour, alpha=0.15, linewidth=0)
            for end in band.T:  # in grey, overlapping bands are told apart by their edges
                ax.plot(queries, end, color=colour, linestyle=line, linewidth=0.5)
            ax.plot(queries, mean, color=colour, linestyle=line, marker=marker, markevery=every, label=label)
        ends.append((label, float(values.min(axis=1).mean()), look[label]))
    axes[0].set(xlabel="queries", ylabel=f"cumulative regret\n({unit})", title="all queries count")
    axes[1].set(xlabel="queries", ylabel=f"smallest regret so far\n({unit})", title="the best one counts")
    axes[0].set_ylim(bottom=0)
    # A log axis: an interval's lower end can be below 0, and is cut off there.
    means = np.concatenate([np.minimum.accumulate(values, axis=1).mean(axis=0) for values in regrets.values()])
    axes[1].set(yscale="log", ylim=(means[means > 0].min(initial=1.0) / 2, None))
    label_ends(axes[1], ends)
    return fig
