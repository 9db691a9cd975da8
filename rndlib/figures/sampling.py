"""Figures of posterior sampling: functions beside functions, distances from the law, and pairs of samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, style


@dataclass(frozen=True)
class Sampled:
    """One panel of `functions_on_walk`: some functions, and the mean and standard deviation of the estimate."""

    functions: Float[np.ndarray, "draws places"]
    mean: Float[np.ndarray, " places"]
    std: Float[np.ndarray, " places"]


def functions_on_walk(
    distance: Float[np.ndarray, " places"],
    posterior: tuple[Float[np.ndarray, " places"], Float[np.ndarray, " places"]],
    data: tuple[Float[np.ndarray, " corners"], Float[np.ndarray, " corners"]],
    panels: Mapping[str, Sampled],
) -> Figure:
    """Functions along a walk through training points, a panel a source, each on the posterior's band.

    distance: walked so far. posterior: its mean and standard deviation. data: where the walk meets training points,
    and their labels.
    """
    mean, std = posterior
    with style():
        fig, axes = blank(1, len(panels), width=3.1 * len(panels) + 0.4, height=3.5, sharex=True, sharey=True)
        for ax, (title, shown) in zip(axes[0], panels.items(), strict=True):
            ax.fill_between(
                distance, mean - 2 * std, mean + 2 * std, color=GREY, alpha=0.3, linewidth=0, label="posterior, 2 sd"
            )
            for i, function in enumerate(shown.functions):
                ax.plot(distance, function, color=BLUE, linewidth=0.7, alpha=0.6, label="drawn" if i == 0 else None)
            for sign in (-1, 1):
                ax.plot(
                    distance,
                    shown.mean + 2 * sign * shown.std,
                    color=RED,
                    linewidth=1.3,
                    linestyle="--",
                    label="mean and sd as estimated, 2 sd",
                )
            ax.plot(distance, shown.mean, color=RED, linewidth=1.3)
            ax.plot(*data, color=BLACK, marker="o", linestyle="", label="training data", zorder=5)
            ax.set(title=title, xlabel="distance along the walk")
        axes[0, 0].set_ylabel("function value (label units)")
        legend_below(fig, axes)
    return fig


def distances_from_law(
    squares: Mapping[str, Float[np.ndarray, " networks"]],
    points: int,
    null: Float[np.ndarray, " permutations"],
    found: Mapping[str, float],
) -> Figure:
    """Left: squared whitened distances of networks, with the chi-squared density. Right: the permutation test.

    squares: label to the networks' squared distances; points: degrees of freedom. null: the statistic after
    permutations; found: label to the statistic before any.
    """
    top = float(stats.chi2.ppf(0.999, points))
    edges = np.linspace(0, top, 31)
    with style():
        fig, axes = blank(1, 2, width=7.2, height=3.5)
        left, right = axes[0]
        for (label, at), (colour, _, line) in zip(squares.items(), LOOKS, strict=False):
            height = np.histogram(at, edges)[0] / len(at) / np.diff(edges)
            left.stairs(height, edges, color=colour, linestyle=line, linewidth=1.4, label=label)
        places = np.linspace(0, top, 300)
        left.plot(places, stats.chi2.pdf(places, points), color=BLACK, linewidth=1, label="law")
        left.set(xlabel="squared whitened distance from the mean", ylabel="density")
        left.set_title(f"chi-squared, {points} degrees of freedom")
        right.hist(null, bins=30, color=GREY, alpha=0.6, label="equal laws, by permutation")
        for (label, at), (colour, _, line) in zip(found.items(), LOOKS, strict=False):
            right.axvline(at, color=colour, linestyle=line, label=label)
        right.set(xscale="log", xlabel="energy statistic $D^2$ against exact draws", ylabel="permutations")
        right.set_title("two-sample test")
        legend_below(fig, axes)
    return fig


def pairs(panels: Mapping[str, Float[np.ndarray, "fits two"]]) -> Figure:
    """Two samples of one fit against each other, one dot a fit, in standard deviations of the posterior."""
    with style():
        fig, axes = blank(1, len(panels), width=3.1 * len(panels) + 0.4, height=3.4, sharex=True, sharey=True)
        for ax, (title, at) in zip(axes[0], panels.items(), strict=True):
            ax.scatter(*at.T, s=6, color=BLUE, alpha=0.5, linewidths=0)
            ax.set(title=title, xlabel="first sample", xlim=(-4, 4), ylim=(-4, 4), aspect="equal")
        axes[0, 0].set_ylabel("second sample\n(standard deviations from the mean)")
    return fig
