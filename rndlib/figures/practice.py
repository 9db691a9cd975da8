"""Figures of contenders on real data: intervals beside each other, predictions, images, and quality against heads."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, style
from rndlib.practice.comparison import Interval


def intervals(panels: Mapping[str, Mapping[str, Interval]], at: float, says: str) -> Figure:
    """Estimates with their intervals, a row a contender and a panel a score, around a line.

    panels: title, which is the axis's label too, to label to interval; the same labels in all. at, says: where the line
    is, and what it stands for.
    """
    labels = list(next(iter(panels.values())))
    with style():
        width, height = 2.0 + 2.6 * len(panels), 0.9 + 0.28 * len(labels)
        fig, axes = blank(1, len(panels), width=width, height=height, sharey="row")
        for ax, (title, rows) in zip(axes[0], panels.items(), strict=True):
            ax.axvline(at, color=BLACK, linewidth=0.9, linestyle="--", label=says)
            for place, label in enumerate(labels):
                found = rows[label]
                bars = [[found.estimate - found.low], [found.high - found.estimate]]
                ax.errorbar([found.estimate], [place], xerr=bars, color=BLUE, marker="o")
            ax.set_xlabel(title)
        axes[0, 0].set_yticks(range(len(labels)), labels)
        axes[0, 0].invert_yaxis()
        legend_below(fig, axes)
    return fig


def quality_against_seconds(found: Mapping[str, tuple[float, Interval]], quality: str) -> Figure:
    """A score with its interval against what it costs, a marker a contender.

    found: label to seconds and interval. quality: the label of the score's axis.

    Raises
    ------
    ValueError: more than eight contenders, which would look alike.
    """
    if len(found) > 2 * len(LOOKS):
        raise ValueError(f"found has {len(found)} labels: give at most {2 * len(LOOKS)}, as more would look alike")
    with style():
        fig, axes = blank(width=6.2, height=3.6)
        ax = axes[0, 0]
        for place, (label, (seconds, at)) in enumerate(found.items()):
            colour, marker, _ = LOOKS[place % len(LOOKS)]
            fill = colour if place < len(LOOKS) else "white"
            bars = [[at.estimate - at.low], [at.high - at.estimate]]
            ax.errorbar(
                [seconds], [at.estimate], bars, color=colour, marker=marker, mfc=fill, linestyle="", label=label
            )
        ax.set(xscale="log", xlabel="seconds to fit and predict, median over splits", ylabel=quality)
        legend_below(fig, axes)
    return fig


def predictions(
    panels: Mapping[str, tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]], seen: Float[np.ndarray, " t"]
) -> Figure:
    """What was seen at the test points against what was predicted, with 90 % intervals; a panel a contender.

    panels: title to predicted means and half widths of the intervals. seen: the labels.
    """
    with style():
        fig, axes = blank(1, len(panels), width=3.1 * len(panels) + 0.4, height=3.6, sharex=True, sharey=True)
        for ax, (title, (mean, half)) in zip(axes[0], panels.items(), strict=True):
            ax.errorbar(mean, mean, half, color=GREY, linestyle="", linewidth=0.8, alpha=0.7, label="90 % interval")
            outside = np.abs(seen - mean) > half
            for where, colour, marker, label in (
                (~outside, BLUE, "o", "seen, inside its interval"),
                (outside, RED, "s", "seen, outside"),
            ):
                ax.plot(mean[where], seen[where], color=colour, marker=marker, linestyle="", markersize=3, label=label)
            ax.set(title=title, xlabel="predicted (standard deviations of y)")
        axes[0, 0].set_ylabel("seen (standard deviations of y)")
        legend_below(fig, axes)
    return fig


def images(rows: Mapping[str, Float[np.ndarray, "shown pixels"]]) -> Figure:
    """Square grey images, a row a kind."""
    shown = max(map(len, rows.values()))
    with style():
        fig, axes = blank(len(rows), shown, width=0.75 * shown + 1.2, height=0.8 * len(rows))
        for line, (title, pictures) in zip(axes, rows.items(), strict=True):
            for ax, picture in zip(line, pictures, strict=False):
                side = round(len(picture) ** 0.5)
                ax.imshow(picture.reshape(side, side), cmap="gray_r")
            for ax in line:
                ax.set(xticks=[], yticks=[])
                ax.grid(False)
            line[0].set_ylabel(title, rotation=0, ha="right", va="center")
    return fig


def areas_against_heads(
    heads: Sequence[int], found: Mapping[str, Sequence[Interval]], limits: Mapping[str, float]
) -> Figure:
    """AUROC against the number of heads it is computed from, with intervals, and where infinitely many would lead.

    heads: (counts,). found: label to an interval for each count. limits: the same labels to the AUROC of the law.
    """
    with style():
        fig, axes = blank(width=5.2, height=3.6)
        ax = axes[0, 0]
        for (label, rows), (colour, marker, line) in zip(found.items(), LOOKS, strict=False):
            centre = np.array([row.estimate for row in rows])
            bars = np.array([[row.estimate - row.low, row.high - row.estimate] for row in rows]).T
            ax.errorbar(heads, centre, bars, color=colour, marker=marker, linestyle=line, label=label)
            ax.axhline(limits[label], color=colour, linewidth=0.9, linestyle=line, alpha=0.6)
        ax.set_xscale("log", base=2)
        ax.set(xlabel="heads, K (thin lines: the exact posterior)", ylabel="AUROC")
        legend_below(fig, axes)
    return fig
