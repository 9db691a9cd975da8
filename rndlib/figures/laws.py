"""Figures that hold networks against their law: ratios over test points, covariances, the course of training."""

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from rndlib.evidence.statistics import LogRatio
from rndlib.figures.style import BLACK, BLUE, GREY, LOOKS, RED, Figure, blank, legend_below, style


def ratio_over_points(series: Mapping[str, LogRatio], margin: float) -> Figure:
    """Ratio of the mean squared RND error to the ensemble variance at each test point, with the simultaneous bands.

    series: label to the ratio at the same test points. margin: the claim's tolerance on the log ratio.
    """
    with style():
        fig, axes = blank(height=3.0)
        ax = axes[0, 0]
        ax.axhspan(np.exp(-margin), np.exp(margin), color=GREY, alpha=0.2, linewidth=0, label="declared margin")
        ax.axhline(1, color=BLACK, linewidth=0.9, linestyle="--")
        shifts = np.linspace(-0.2, 0.2, len(series)) if len(series) > 1 else [0.0]
        for (label, at), (colour, marker, _), shift in zip(series.items(), LOOKS, shifts, strict=False):
            places, centre = np.arange(1, len(at.estimate) + 1), np.exp(at.estimate)
            bars = np.stack([centre - np.exp(at.low), np.exp(at.high) - centre])
            ax.errorbar(places + shift, centre, bars, color=colour, marker=marker, linestyle="", label=label)
            ax.set(yscale="log", xlabel="test point", xlim=(0, len(places) + 1), ylabel="mean squared error / variance")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="x", visible=False)
        legend_below(fig, axes)
    return fig


def covariances(
    law: Float[np.ndarray, "points points"], others: Mapping[str, Float[np.ndarray, "points points"]]
) -> Figure:
    """The law's covariance and others side by side, and below each what is left after taking the law's away.

    All are divided by the law's standard deviations, so that every test point is seen.
    """
    spread = np.sqrt(np.outer(law.diagonal(), law.diagonal()))
    look = Normalize(-1.5, 1.5)
    with style(), mpl.rc_context({"axes.grid": False}):
        fig, axes = blank(2, 1 + len(others), width=2.1 * (1 + len(others)) + 0.9, height=4.3)
        axes[0, 0].imshow(law / spread, cmap="PuOr", norm=look)
        axes[0, 0].set_title("law")
        for (top, bottom), (label, matrix) in zip(axes.T[1:], others.items(), strict=True):
            top.imshow(matrix / spread, cmap="PuOr", norm=look)
            top.set_title(label)
            bottom.imshow((matrix - law) / spread, cmap="PuOr", norm=look)
            bottom.set_title("less the law")
        for ax in axes.flat:
            ax.set(xticks=[], yticks=[])
        axes[1, 0].axis("off")
        bar = fig.colorbar(ScalarMappable(look, "PuOr"), ax=axes, extend="both", shrink=0.8)
        bar.set_label("covariance of two test points\n(in the law's standard deviations)")
    return fig


def variance_against_time(
    law: tuple[Float[np.ndarray, " moments"], Float[np.ndarray, "moments points"]],
    times: Float[np.ndarray, " times"],
    ensemble: Float[np.ndarray, "times points"],
    rnd: Float[np.ndarray, "times points"],
    relative_error: float,
) -> Figure:
    """Ensemble variance and half the squared RND error in the course of training, on the law's lines.

    law: times, and its variance at them for each test point. relative_error: standard error of each estimate over
    the estimate; the bars are two of them.
    """
    with style():
        fig, axes = blank(height=3.4)
        ax = axes[0, 0]
        moments, lines = law
        for i, line in enumerate(lines.T):
            ax.plot(moments, line, color=BLACK, linewidth=1, label="law" if i == 0 else None)
        # Side by side, so that one marker does not hide the other.
        for label, values, shift, colour, marker in (
            ("ensemble variance", ensemble, 0.96, BLUE, "o"),
            ("half the squared RND error", rnd, 1.04, RED, "s"),
        ):
            for i, at in enumerate(values.T):
                bars = 2 * relative_error * at
                shown = label if i == 0 else None
                ax.errorbar(times * shift, at, bars, color=colour, marker=marker, linestyle="", label=shown)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="training time t",
            ylabel="variance at a test point\n(label units squared)",
        )
        legend_below(fig, axes)
    return fig
