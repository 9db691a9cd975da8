"""Figures of posterior sampling: functions beside functions, distances from the law, and pairs of samples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, style
from rndlib.theory.laws import Gaussian


@dataclass(frozen=True)
class Sampled:
    """One panel of `functions_on_walk`: some functions, and the mean and standard deviation of the estimate."""

    functions: Float[np.ndarray, "draws places"]
    mean: Float[np.ndarray, " places"]
    std: Float[np.ndarray, " places"]


def functions_on_walk(
    distance: Float[np.ndarray, " places"],
    posterior: Gaussian,
    data: tuple[Float[np.ndarray, " known"], Float[np.ndarray, " known"]],
    panels: Mapping[str, Sampled],
) -> Figure:
    """Functions along a walk through training points, a column a source, each on the posterior's band.

    Below, all are shown less the posterior's mean, so that the band is seen at its own scale.

    distance: walked so far. posterior: its law on the walk. data: where the walk meets training points, and their
    labels.
    """
    std = np.sqrt(posterior.var)
    with style():
        fig, axes = blank(2, len(panels), width=3.1 * len(panels) + 0.4, height=5.0, sharex=True, sharey="row")
        for row, centre in zip(axes, (0 * std, posterior.mean), strict=True):
            labels = data[1] - np.interp(data[0], distance, centre)
            for ax, shown in zip(row, panels.values(), strict=True):
                low, high = (posterior.mean + 2 * sign * std - centre for sign in (-1, 1))
                ax.fill_between(distance, low, high, color=GREY, alpha=0.35, linewidth=0, label="posterior, 2 sd")
                for i, function in enumerate(shown.functions):
                    label = "functions drawn" if i == 0 else None
                    ax.plot(distance, function - centre, color=BLUE, linewidth=0.7, alpha=0.6, label=label)
                ax.plot(distance, shown.mean - centre, color=RED, label="mean used")
                for sign, label in ((-1, None), (1, "mean and 2 sd as estimated")):
                    end = shown.mean + 2 * sign * shown.std - centre
                    ax.plot(distance, end, color=RED, linestyle="--", label=label)
                ax.plot(data[0], labels, color=BLACK, marker="o", linestyle="", label="training data", zorder=5)
        for ax, title in zip(axes[0], panels, strict=True):
            ax.set_title(title)
        for ax in axes[1]:
            ax.set_xlabel("distance walked (input units)")
        axes[0, 0].set_ylabel("function value\n(label units)")
        axes[1, 0].set_ylabel("less the posterior's mean\n(label units)")
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
        bins = np.geomspace(null.min(), null.max(), 31)
        right.hist(null, bins=list(bins), color=GREY, alpha=0.6, label="equal laws, by permutation")
        for (label, at), (colour, _, line) in zip(found.items(), LOOKS, strict=False):
            right.axvline(at, color=colour, linestyle=line, label=label)
        right.set(xscale="log", xlabel="energy statistic $D^2$ against exact draws", ylabel="permutations")
        right.set_title("two-sample test")
        legend_below(fig, axes)
    return fig


def pairs(panels: Mapping[str, Float[np.ndarray, "fits two"]]) -> Figure:
    """Two samples of one fit against each other, one dot a fit, in standard deviations of the posterior."""
    with style():
        fig, axes = blank(1, len(panels), width=3.1 * len(panels) + 0.4, height=3.7, sharex=True, sharey=True)
        end = np.ceil(max(np.abs(at).max() for at in panels.values()))
        for ax, (title, at) in zip(axes[0], panels.items(), strict=True):
            ax.scatter(*at.T, s=6, color=BLUE, alpha=0.5, linewidths=0)
            ax.set(title=title, xlabel="first sample", xlim=(-end, end), ylim=(-end, end), aspect="equal")
        axes[0, 0].set_ylabel("second sample\n(standard deviations from the mean)")
    return fig
