"""Figures of many heads on one body: dependence, the chi-squared law, the field over x, and crowding."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, side_by_side, style


def heads_against_each_other(panels: Mapping[str, Float[np.ndarray, "bodies 2"]]) -> Figure:
    """Error of the second head against that of the first, a dot a body, at one test point; a panel a kind of network.

    panels: title to the errors, in the law's standard deviations.
    """
    reach = 4.5
    with style():
        fig, axes = blank(1, len(panels), width=2.4 * len(panels), height=2.7, sharex=True, sharey=True)
        for ax, (title, errors) in zip(axes[0], panels.items(), strict=True):
            ax.scatter(*errors.T, s=4, color=BLUE, alpha=0.35, linewidths=0, rasterized=True)
            ax.set(title=title, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        fig.supxlabel("error of the first head (standard deviations of the law)", fontsize=9)
        axes[0, 0].set_ylabel("error of the second head\n(standard deviations of the law)")
    return fig


def histograms(
    samples: Mapping[str, Float[np.ndarray, " bodies"]], law: tuple[str, Any], wrong: tuple[str, Any], bins: int = 20
) -> Figure:
    """Histogram over bodies of each sample, with the law's density and a wrong one.

    Parameters
    ----------
    samples: title to values at one test point over their variance Sigma(x, x).
    law, wrong: label and frozen SciPy distribution of such values.
    bins: how many, up to where the law leaves 2 %; values beyond are not drawn.
    """
    edges = np.linspace(0, law[1].isf(0.02), bins + 1)
    grid = np.linspace(0, edges[-1], 400)[1:]
    top = np.max(np.diff(law[1].cdf(edges))) / edges[1]  # finite where a density is not
    with style():
        fig, axes = blank(1, len(samples), width=3.5 * len(samples), height=3.2, sharex=True, sharey=True)
        for ax, (title, values) in zip(axes[0], samples.items(), strict=True):
            counts, _ = np.histogram(values, edges)
            density = counts / len(values) / np.diff(edges)
            ax.stairs(density, edges, fill=True, color=GREY, alpha=0.35, label="networks, two standard errors")
            middle = (edges[:-1] + edges[1:]) / 2
            bars = 2 * np.sqrt(counts) / len(values) / np.diff(edges)
            ax.errorbar(middle, density, bars, color=BLACK, linestyle="", linewidth=0.8)
            for (label, density_of), colour, line in ((law, BLUE, "-"), (wrong, RED, "--")):
                ax.plot(grid, density_of.pdf(grid), color=colour, linestyle=line, label=label)
            ax.set(title=title, xlabel="value over the law's variance", ylim=(0, 1.5 * top))
        axes[0, 0].set_ylabel("density over seeds")
        legend_below(fig, axes)
    return fig


def covariances_of_squares(
    series: Mapping[str, tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]],
) -> Figure:
    """Covariance over bodies at two test points against the law's, a marker a pair of points, two standard errors.

    series: label to the law's covariances, those found, and their standard errors, over the product of variances.
    """
    with style():
        fig, axes = blank(width=4.8, height=3.8)
        ax = axes[0, 0]
        top = max(float(law.max()) for law, _, _ in series.values())
        ax.plot([0, top], [0, top], color=BLACK, linewidth=0.9, linestyle="--", label="the law, 2 Sigma(x, x')^2 / K")
        for (label, (law, found, error)), (colour, marker, _), shift in zip(
            series.items(), LOOKS, np.linspace(-0.006, 0.006, len(series)) * top, strict=False
        ):
            ax.errorbar(law + shift, found, 2 * error, color=colour, marker=marker, linestyle="", label=label)
        ax.set(xlabel="law's covariance at x and x' (over both variances)", ylabel="covariance over seeds, likewise")
        legend_below(fig, axes)
    return fig


def crowding(
    mean: Mapping[str, Float[np.ndarray, "cases 4"]],
    spread: Mapping[str, Float[np.ndarray, "cases 4"]],
    slope: float,
) -> Figure:
    """Mean and variance over bodies of 1/2 eps-bar^2, over what the law says, against heads a unit of width.

    Parameters
    ----------
    mean, spread: label to rows of K/n, estimate, and the ends of its interval.
    slope: c of the rule 1 + c K/n for the variance.
    """
    with style():
        fig, axes = blank(1, 2, width=7.2, height=3.2)
        shifts = side_by_side(len(spread), 0.9, 1.11)
        for ax, series, what in ((axes[0, 0], mean, "mean"), (axes[0, 1], spread, "variance over bodies")):
            for (label, rows), (colour, marker, _), shift in zip(series.items(), LOOKS, shifts, strict=False):
                at, centre, low, high = rows.T
                bars = np.stack([centre - low, high - centre])
                ax.errorbar(at * shift, centre, bars, color=colour, marker=marker, linestyle="", label=label)
            ax.axhline(1, color=BLACK, linewidth=0.9, linestyle="--", label="theorem, infinitely wide")
            ax.set(xscale="log", xlabel="heads on a body over its width, K / n", ylabel=f"{what}\n(over the law's)")
        axes[0, 0].set_ylim(0.5, 1.7)
        load = np.concatenate([rows[:, 0] for rows in spread.values()])
        load = np.geomspace(load.min() / 1.5, load.max() * 1.5)
        axes[0, 1].plot(load, 1 + slope * load, color=GREY, label=f"rule of thumb, 1 + {slope:g} K / n")
        axes[0, 1].set_yscale("log")
        for axis in (axes[0, 0].xaxis, axes[0, 1].xaxis, axes[0, 1].yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        legend_below(fig, axes)
    return fig
