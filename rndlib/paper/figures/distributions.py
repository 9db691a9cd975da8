"""Samples and the law that they should have: scatter of pairs, histograms, covariances of squares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.paper.figures.style import GREY, Figure, blank, looks, measured, name_panel, predicted, style


@style()
def pairs(panels: Mapping[str, Float[np.ndarray, "fits 2"]], what: str, title: str) -> Figure:
    """The second of two numbers against the first, one dot per fit and one panel per way to get them.

    `panels` maps titles to the pairs, in the law's standard deviations; `what` names a head or a sample.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.6, True, True)
    end = float(np.ceil(max(np.abs(at).max() for at in panels.values())))
    for ax, (name, at) in zip(axes, panels.items(), strict=True):
        ax.scatter(*at.T, s=5, color=looks([name])[name].colour, alpha=0.4, linewidths=0, rasterized=True)
        name_panel(ax, name)
        ax.set(xlabel=f"first {what}", xlim=(-end, end), ylim=(-end, end), aspect="equal")
    axes[0].set_ylabel(f"second {what}\n(standard deviations of the law)")
    return fig


@style()
def histograms(
    samples: Mapping[str, Float[np.ndarray, " networks"]],
    law: tuple[str, Any],
    xlabel: str,
    title: str,
    wrong: tuple[str, Any] | None = None,
    tails: bool = False,
) -> Figure:
    """Histogram over networks of each sample, on the density of the law and, for comparison, a wrong one.

    `law` and `wrong` are a label and a frozen SciPy distribution. With `tails`, the log of the density is drawn, and
    the last bins count everything beyond the axis. Without it, bars are two standard errors, and the axis ends where
    the law leaves 2 %.
    """
    low, high = law[1].ppf([1e-5, 1 - 1e-6] if tails else [0, 0.98])
    edges, fine = np.linspace(low, high, 41 if tails else 21), np.linspace(low, high, 401)[1:]
    top = np.max(np.diff(law[1].cdf(edges)) / np.diff(edges))  # finite where a density is not
    fig, (axes,) = blank(title, 1, len(samples), sharex=True, sharey=True)
    for ax, (name, values) in zip(axes, samples.items(), strict=True):
        colour = looks([name])[name].colour
        counts, _ = np.histogram(np.clip(values, low, high) if tails else values, edges)
        unit = 1 / len(values) / np.diff(edges)
        ax.stairs(counts * unit, edges, fill=True, color=colour, alpha=0.35, label="networks")
        if not tails:
            middle, error = (edges[:-1] + edges[1:]) / 2, 2 * np.sqrt(counts) * unit
            ax.errorbar(middle, counts * unit, error, color=colour, linestyle="", linewidth=0.8)
        predicted(ax, fine, law[1].pdf(fine), law[0])
        if wrong is not None:
            ax.plot(fine, wrong[1].pdf(fine), color=GREY, linestyle="--", label=wrong[0])
        name_panel(ax, name)
        ax.set_xlabel(xlabel)
    axes[0].set(yscale="log" if tails else "linear", ylim=(1e-5, 10 * top) if tails else (0, 1.5 * top))
    axes[0].set_ylabel("density over networks")
    axes[0].legend()
    return fig


@style()
def distances_from_law(
    squares: Mapping[str, Float[np.ndarray, " networks"]],
    points: int,
    null: Float[np.ndarray, " permutations"],
    statistics: Mapping[str, float],
    title: str,
) -> Figure:
    """Left: squared whitened distances of networks, with the chi-squared density of `points` degrees of freedom.

    Right: the permutation test, with the statistic after permutations (`null`) and before any (`statistics`, by label).
    """
    fig, ((left, right),) = blank(title, 1, 2, 3.2)
    look = looks(squares)
    top = float(stats.chi2.ppf(0.999, points))
    edges, fine = np.linspace(0, top, 31), np.linspace(0, top, 300)
    for label, values in squares.items():
        density = np.histogram(values, edges)[0] / len(values) / np.diff(edges)
        left.stairs(density, edges, color=look[label].colour, linestyle=look[label].line, linewidth=1.4, label=label)
    predicted(left, fine, stats.chi2.pdf(fine, points), rf"law, $\chi^2$ of {points}")
    left.set(xlabel="squared whitened distance from the mean", ylabel="density over networks")
    right.hist(null, bins=list(np.geomspace(null.min(), null.max(), 31)), color=GREY, alpha=0.4)
    for label, value in statistics.items():
        right.axvline(value, color=look[label].colour, linestyle=look[label].line)
    right.set(xscale="log", xlabel="energy statistic $D^2$ against exact draws", ylabel="permutations of equal laws")
    left.legend()
    return fig


@style()
def covariances_of_squares(
    series: Mapping[str, tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]],
    law: str,
    title: str,
) -> Figure:
    """Covariance over bodies at two test points against the law's, one marker per pair of points.

    `series` maps labels to the law's covariances, the measured ones, and their standard errors, over the product of
    variances. The bars are two standard errors. `law` labels the diagonal.
    """
    fig, ((ax,),) = blank(title, height=3.6)
    top = max(float(predictions.max()) for predictions, _, _ in series.values())
    predicted(ax, [0, top], [0, top], law, "--")
    shifts = np.linspace(-0.006, 0.006, len(series)) * top
    for (label, (predictions, values, error)), shift in zip(series.items(), shifts, strict=True):
        estimate = values, values - 2 * error, values + 2 * error
        measured(ax, predictions + shift, estimate, looks(series)[label], label)
    ax.set(
        xlabel="the law's covariance at $x$ and $x'$ (over both variances)", ylabel="covariance over networks, likewise"
    )
    ax.legend()
    return fig
