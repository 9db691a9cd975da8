"""Samples compared with their limiting distribution: functions, pairs, histograms, scatter, and their covariances."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.paper.evidence.statistics import calibration
from rndlib.paper.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LOOKS,
    Figure,
    Interval,
    blank,
    draw_series,
    legend,
    name_panel,
    predicted,
    style,
)
from rndlib.theory.laws import Gaussian

Square = Float[np.ndarray, "points points"]


@style()
def pairs(panels: Mapping[str, Float[np.ndarray, "fits 2"]], what: str, title: str) -> Figure:
    """The second of two numbers against the first, one dot per fit and one panel per way to get them.

    `panels` maps titles to the pairs, in theoretical standard deviations; `what` names a head or a sample.
    """
    fig, (axes,) = blank(title, 1, len(panels), 3.6, True, True)
    end = float(np.ceil(max(np.abs(at).max() for at in panels.values())))
    for ax, (name, at) in zip(axes, panels.items(), strict=True):
        ax.scatter(*at.T, s=5, color=name_panel(ax, name), alpha=0.4, linewidths=0, rasterized=True)
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
        colour = name_panel(ax, name)
        counts, _ = np.histogram(values, edges)
        unit, middle = 1 / len(values) / np.diff(edges), (edges[:-1] + edges[1:]) / 2
        ax.stairs(counts * unit, edges, fill=True, color=colour, alpha=0.35, label="networks")
        ax.errorbar(middle, counts * unit, 2 * np.sqrt(counts) * unit, color=colour, linestyle="", linewidth=0.8)
        predicted(ax, fine, theory[1].pdf(fine), theory[0])
        ax.plot(fine, wrong[1].pdf(fine), color=GREY, linestyle="--", label=wrong[0])
        ax.set_xlabel(xlabel)
    axes[0].set(ylim=(0, 1.5 * top), ylabel="density over networks")
    axes[0].legend()
    return fig


@style()
def covariances(theory: Square, others: Mapping[str, Square], title: str) -> Figure:
    """The theory's covariance, and how far others are from it: differences in units of its standard deviations.

    All panels share one scale, from -1 to 1.
    """
    spread = np.sqrt(np.outer(theory.diagonal(), theory.diagonal()))
    panels = {"theory": theory / spread}
    panels |= {f"{name},\nminus theory": (matrix - theory) / spread for name, matrix in others.items()}
    fig, (axes,) = blank(title, 1, len(panels), 0.8 + min(2.3, 5.8 / len(panels)))
    colours = ScalarMappable(Normalize(-1, 1), "PuOr")
    for ax, (name, matrix) in zip(axes, panels.items(), strict=True):
        ax.imshow(matrix, cmap=colours.cmap, norm=colours.norm)
        ax.set(xticks=[], yticks=[])
        name_panel(ax, name)
        ax.grid(False)
    bar = fig.colorbar(colours, ax=axes, extend="both", shrink=0.9)
    bar.set_label("covariance of two test points\n(theoretical standard deviations)")
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
    bars = {label: (at, (value, value - 2 * e, value + 2 * e)) for label, (at, value, e) in series.items()}
    draw_series(ax, bars, 0.006 * top)
    ax.set_xlabel("theoretical covariance at $x$ and $x'$ (over both variances)")
    ax.set_ylabel("covariance over networks\n(over both variances)")
    ax.legend()
    return fig


@style()
def scatter_by_width(
    widths: Sequence[int],
    ensemble: Float[np.ndarray, "widths points"],
    rnd: Float[np.ndarray, "widths points"],
    title: str,
) -> Figure:
    """Fig. 2: RND error against ensemble variance at every test point, one panel per width, on log axes.

    Slope and correlation (`calibration`) are in each panel, and those of the last are added to the title.
    """
    slope, correlation = calibration(ensemble[-1], rnd[-1])
    title = f"{title}: slope {slope:.2f} and correlation {correlation:.3f} at $n = {widths[-1]}$"
    rows = -(-len(widths) // 5)
    fig, axes = blank(title, rows, -(-len(widths) // rows), 0.9 + 1.4 * rows, True, True)
    ends = [min(ensemble.min(), rnd.min()), max(ensemble.max(), rnd.max())]
    for ax, width, x, y in zip(axes.flat, widths, ensemble, rnd, strict=False):
        slope, correlation = calibration(x, y)
        ax.scatter(x, y, s=3, color=BLUE, alpha=0.25, linewidths=0, rasterized=True)
        predicted(ax, ends, ends, line="--")
        ax.set(xscale="log", yscale="log", title=f"$n = {width}$", aspect="equal")
        ax.text(0.04, 0.96, f"slope {slope:.2f}\ncorr. {correlation:.3f}", transform=ax.transAxes, va="top", fontsize=7)
    panels: list[Any] = list(axes.flat)
    for empty in range(len(widths), axes.size):
        panels[empty].remove()
        panels[empty - axes.shape[1]].tick_params(labelbottom=True)  # now the lowest of its column
    fig.supxlabel("ensemble variance (label units squared)")
    fig.supylabel("RND error\n(label units squared)")
    return fig


@style()
def trajectories(
    moments: Float[np.ndarray, " moments"],
    predictions: Float[np.ndarray, "networks moments points"],
    wrong: tuple[str, Float[np.ndarray, "networks moments points"]],
    times: Sequence[float],
    outputs: Float[np.ndarray, "networks times points"],
    title: str,
) -> Figure:
    """Outputs of trained networks over training time, one panel each, on the lines from their own initial outputs.

    The lines are at the rising times `moments`; networks were trained to `times`, of which an infinite one is drawn at
    the last of the moments. `wrong` has the label and lines of a wrong one.
    """
    last = moments[-1]
    fig, (axes,) = blank(title, 1, len(outputs), 3.2, sharex=True, sharey=True)
    for index, ax in enumerate(axes):
        for point, look in zip(range(outputs.shape[2]), LOOKS, strict=False):
            ax.plot(moments, wrong[1][index, :, point], color=GREY, linewidth=0.8, linestyle=":", label=wrong[0])
            predicted(ax, moments, predictions[index, :, point], "predicted")
            ax.plot(np.minimum(times, last), outputs[index, :, point], color=look.colour, marker=look.marker,
                    linestyle="", label=f"network, test point {point + 1}")  # fmt: skip
        ax.set(xscale="log", title=f"network {index + 1}", xlabel="training time $t$")
    ticks = [tick for tick in 10.0 ** np.arange(-6, 7) if moments[0] <= tick <= last / 5]
    axes[0].set_xticks([*ticks, last], [*(f"{tick:g}" for tick in ticks), "∞"])
    axes[0].xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("output (label units)")
    legend(fig, axes)
    return fig


@style()
def functions_on_walk(
    distance: Float[np.ndarray, " places"],
    posterior: Gaussian,
    data: tuple[Float[np.ndarray, " known"], Float[np.ndarray, " known"]],
    panels: Mapping[str, Float[np.ndarray, "draws places"]],
    title: str,
) -> Figure:
    """Functions along a walk through training points, one column per source, on the posterior's band.

    `data` is the distance and the label of each training point on the walk. The lower row subtracts the posterior mean
    from everything, to show the band at its own scale. The band is two standard deviations.
    """
    std = np.sqrt(posterior.var)
    fig, axes = blank(title, 2, len(panels), 4.6, sharex=True, sharey="row")
    colours = [name_panel(ax, name) for ax, name in zip(axes[0], panels, strict=True)]
    for row, centre in zip(axes, (0 * std, posterior.mean), strict=True):
        ends = [posterior.mean - centre + sign * std for sign in (-2, 2)]
        labels = data[1] - np.interp(data[0], distance, centre)
        for ax, functions, colour in zip(row, panels.values(), colours, strict=True):
            ax.fill_between(distance, *ends, color=GREY, alpha=0.35, linewidth=0,
                            label="posterior, 2 standard deviations")  # fmt: skip
            ax.plot(distance, (functions - centre).T, color=colour, linewidth=0.7, alpha=0.7)
            for end in ends:
                ax.plot(distance, end, color=BLACK, linewidth=0.8, linestyle="--")
            ax.plot(data[0], labels, color=BLACK, marker="o", linestyle="", label="training data", zorder=5)
    for ax in axes[1]:
        ax.set_xlabel("distance walked (input units)")
    axes[0, 0].set_ylabel("function value\n(label units)")
    axes[1, 0].set_ylabel("minus the posterior mean\n(label units)")
    legend(fig, axes)
    return fig


def walk(
    corners: ArrayLike, per_leg: int = 50
) -> tuple[Float[np.ndarray, "places d"], Float[np.ndarray, " places"], Float[np.ndarray, " corners"]]:
    """Points along straight lines from each corner to the next, to plot a function of many inputs against one.

    Returns the points, the distance walked at each point, and the distance walked at each corner.

    Parameters
    ----------
    corners: Two or more points, `(corners, in_dim)`.
    per_leg: Points per leg, including its first corner.

    >>> from rndlib.paper.figures import walk
    >>> points, distances, corners = walk([[0.0, 0.0], [3.0, 4.0]], per_leg=2)
    >>> points.tolist(), distances.tolist(), corners.tolist()
    ([[0.0, 0.0], [1.5, 2.0], [3.0, 4.0]], [0.0, 2.5, 5.0], [0.0, 5.0])
    """
    corners = checks.array("corners", corners, None, None)
    per_leg = checks.whole("per_leg", per_leg, 1)
    if len(corners) < 2:
        raise ValueError(f"corners has {len(corners)} row: give at least two")
    distances = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
    legs = np.arange((len(corners) - 1) * per_leg + 1) / per_leg
    number = np.arange(len(corners))
    points = np.stack([np.interp(legs, number, column) for column in corners.T], axis=1)
    return points, np.interp(legs, number, distances), distances
