"""Samples and the distribution that they should have: pairs of heads, histograms, covariances of squares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib.paper.figures.style import (
    GREY,
    Figure,
    Interval,
    apart,
    blank,
    looks,
    measured,
    name_panel,
    predicted,
    style,
)


@style()
def pairs(panels: Mapping[str, Float[np.ndarray, "fits 2"]], what: str, title: str) -> Figure:
    """The second of two numbers against the first, one dot per fit and one panel per way to get them.

    `panels` maps titles to the pairs, in theoretical standard deviations; `what` names a head or a sample.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.6, True, True)
    end = float(np.ceil(max(np.abs(at).max() for at in panels.values())))
    for ax, (name, at) in zip(axes, panels.items(), strict=True):
        ax.scatter(*at.T, s=5, color=looks([name])[name].colour, alpha=0.4, linewidths=0, rasterized=True)
        name_panel(ax, name)
        ax.set(xlabel=f"first {what}", xlim=(-end, end), ylim=(-end, end), aspect="equal")
    axes[0].set_ylabel(f"second {what}\n(theoretical standard deviations)")
    return fig


@style()
def histograms(
    samples: Mapping[str, Float[np.ndarray, " networks"]],
    theory: tuple[str, Any],
    xlabel: str,
    title: str,
    wrong: tuple[str, Any],
) -> Figure:
    """Histogram over networks of each sample, on the density of the theory and, for comparison, a wrong one.

    `theory` and `wrong` are a label and a frozen SciPy distribution. Bars are two standard errors, and the axis ends
    where the theory leaves 2 %.
    """
    end = theory[1].ppf(0.98)
    edges, fine = np.linspace(0, end, 21), np.linspace(0, end, 401)[1:]
    top = np.max(np.diff(theory[1].cdf(edges)) / np.diff(edges))  # finite where a density is not
    fig, (axes,) = blank(title, 1, len(samples), sharex=True, sharey=True)
    for ax, (name, values) in zip(axes, samples.items(), strict=True):
        colour = looks([name])[name].colour
        counts, _ = np.histogram(values, edges)
        unit, middle = 1 / len(values) / np.diff(edges), (edges[:-1] + edges[1:]) / 2
        ax.stairs(counts * unit, edges, fill=True, color=colour, alpha=0.35, label="networks")
        ax.errorbar(middle, counts * unit, 2 * np.sqrt(counts) * unit, color=colour, linestyle="", linewidth=0.8)
        predicted(ax, fine, theory[1].pdf(fine), theory[0])
        ax.plot(fine, wrong[1].pdf(fine), color=GREY, linestyle="--", label=wrong[0])
        name_panel(ax, name)
        ax.set_xlabel(xlabel)
    axes[0].set(ylim=(0, 1.5 * top), ylabel="density over networks")
    axes[0].legend()
    return fig


@style()
def covariances_of_squares(series: Mapping[str, Interval], theory: str, title: str) -> Figure:
    """Covariance over networks at two test points against the theory's, one marker per pair of points.

    `series` maps labels to the theory's covariances, the measured ones, and their standard errors, over the product of
    variances. The bars are two standard errors. `theory` labels the diagonal.
    """
    fig, ((ax,),) = blank(title, height=3.6)
    top = max(float(predictions.max()) for predictions, _, _ in series.values())
    predicted(ax, [0, top], [0, top], theory, "--")
    for (label, look), shift in zip(looks(series).items(), apart(len(series)), strict=True):
        predictions, values, error = series[label]
        measured(ax, predictions + 0.006 * top * shift, (values, values - 2 * error, values + 2 * error), look, label)
    ax.set_xlabel("theoretical covariance at $x$ and $x'$ (over both variances)")
    ax.set_ylabel("covariance over networks\n(over both variances)")
    ax.legend()
    return fig
