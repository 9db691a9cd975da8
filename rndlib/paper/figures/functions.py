"""Functions drawn from a posterior, along a walk through inputs of many dimensions."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.paper.figures.style import BLACK, GREY, Figure, blank, legend, looks, name_panel, style
from rndlib.theory.laws import Gaussian


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
    for row, centre in zip(axes, (0 * std, posterior.mean), strict=True):
        mean = posterior.mean - centre
        for ax, (name, functions) in zip(row, panels.items(), strict=True):
            colour = looks([name])[name].colour
            ax.fill_between(distance, mean - 2 * std, mean + 2 * std, color=GREY, alpha=0.35, linewidth=0,
                            label="posterior, 2 standard deviations")  # fmt: skip
            ax.plot(distance, (functions - centre).T, color=colour, linewidth=0.7, alpha=0.7)
            for end in (mean - 2 * std, mean + 2 * std):
                ax.plot(distance, end, color=BLACK, linewidth=0.8, linestyle="--")
            labels = data[1] - np.interp(data[0], distance, centre)
            ax.plot(data[0], labels, color=BLACK, marker="o", linestyle="", label="training data", zorder=5)
    for ax, name in zip(axes[0], panels, strict=True):
        name_panel(ax, name)
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
