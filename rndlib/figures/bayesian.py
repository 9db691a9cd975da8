"""Figures of Bayesian RND against the posterior: noise levels, the course of training, and heads that share a body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, side_by_side, style


def variance_against_noise(
    law: tuple[Float[np.ndarray, " grid"], Float[np.ndarray, "grid points"]],
    levels: Sequence[float],
    networks: Float[np.ndarray, "levels points"],
    control: Float[np.ndarray, "levels points"],
    relative_error: float,
) -> Figure:
    """Mean squared error at each noise level on the lines of the noisy posterior, a line a test point.

    law: noise levels, and the posterior's variance at them for each test point. control: the mean squared error of
    the wrong variant. relative_error: standard error of each mean square over itself; the bars are two of them.
    """
    with style():
        fig, axes = blank(height=3.4)
        ax = axes[0, 0]
        grid, lines = law
        for i, line in enumerate(lines.T):
            ax.plot(grid, line, color=BLACK, linewidth=1, label=None if i else "noisy posterior")
        for values, label, colour, marker, shift in (
            (networks, "Bayesian RND", BLUE, "o", 0.985),
            (control, "control: noise without the pull", RED, "x", 1.015),
        ):
            for i, at in enumerate(values.T):
                shown = None if i else label
                bars = 2 * relative_error * at
                places = np.asarray(levels) * shift
                ax.errorbar(places, at, bars, color=colour, marker=marker, linestyle="", label=shown)
        ax.set(
            yscale="log",
            xlabel="standard deviation of the observation noise (label units)",
            ylabel="variance at a test point\n(label units squared)",
        )
        legend_below(fig, axes)
    return fig


def towards_posterior(
    law: tuple[Float[np.ndarray, " moments"], Float[np.ndarray, "moments points"]],
    posterior: Float[np.ndarray, " points"],
    times: Sequence[float],
    networks: Float[np.ndarray, "times points"],
    relative_error: float,
) -> Figure:
    """Mean squared error of Bayesian RND in the course of training, on the law's lines, and the posterior's levels.

    law: times, and its variance at them for each test point. relative_error: as in `variance_against_noise`.
    """
    with style():
        fig, axes = blank(height=3.4)
        ax = axes[0, 0]
        moments, lines = law
        for i, (line, level) in enumerate(zip(lines.T, posterior, strict=True)):
            ax.plot(moments, line, color=BLACK, linewidth=1, label=None if i else "law at time t")
            ax.axhline(level, color=GREY, linewidth=1.2, linestyle="--", label=None if i else "posterior")
        for i, at in enumerate(networks.T):
            bars = 2 * relative_error * at
            shown = None if i else "Bayesian RND"
            ax.errorbar(times, at, bars, color=BLUE, marker="o", linestyle="", label=shown)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="training time t",
            ylabel="variance at a test point\n(label units squared)",
        )
        legend_below(fig, axes)
    return fig


@dataclass(frozen=True)
class Crowded:
    """Variance over the posterior's at several loads, as `(load, ratio, low, high)`: four arrays of one length."""

    load: Float[np.ndarray, " loads"]
    ratio: Float[np.ndarray, " loads"]
    low: Float[np.ndarray, " loads"]
    high: Float[np.ndarray, " loads"]


def variance_against_load(
    series: Mapping[str, Crowded], rules: Mapping[str, tuple[np.ndarray, np.ndarray]], tolerated: float
) -> Figure:
    """Variance of Bayesian RND over the posterior's against the load NK / P, with intervals over bodies.

    series: label to what was measured. rules: label to loads and the ratio predicted there. tolerated: the largest
    departure from 1 that goes without a warning.
    """
    with style():
        fig, axes = blank(height=3.6)
        ax = axes[0, 0]
        ax.axhspan(1 - tolerated, 1 + tolerated, color=GREY, alpha=0.2, linewidth=0, label="no warning")
        shifts = side_by_side(len(series), 0.94, 1.06)
        for (label, at), (colour, marker, _), shift in zip(series.items(), LOOKS, shifts, strict=False):
            bars = np.stack([at.ratio - at.low, at.high - at.ratio])
            ax.errorbar(at.load * shift, at.ratio, bars, color=colour, marker=marker, linestyle="", label=label)
        for (label, (load, ratio)), line in zip(rules.items(), ("-", "--"), strict=False):
            ax.plot(load, ratio, color=BLACK, linewidth=1, linestyle=line, label=label)
        ax.set(
            xscale="log", xlabel="load NK / P (equations a hidden parameter)", ylabel="variance / posterior variance"
        )
        legend_below(fig, axes)
    return fig
