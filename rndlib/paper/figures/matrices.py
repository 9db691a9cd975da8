"""Covariances between test points, as differences from the theory."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from rndlib.paper.figures.style import Figure, blank, name_panel, style

Square = Float[np.ndarray, "points points"]


@style()
def covariances(theory: Square, others: Mapping[str, Square], title: str) -> Figure:
    """The theory's covariance, and how far others are from it: differences in units of its standard deviations.

    All panels share one scale, from -1 to 1.
    """
    spread = np.sqrt(np.outer(theory.diagonal(), theory.diagonal()))
    panels = {"theory": theory / spread, **{name: (matrix - theory) / spread for name, matrix in others.items()}}
    fig, (axes,) = blank(title, 1, len(panels), 0.8 + min(2.3, 5.8 / len(panels)))
    colours = ScalarMappable(Normalize(-1, 1), "PuOr")
    for ax, (name, matrix) in zip(axes, panels.items(), strict=True):
        ax.imshow(matrix, cmap=colours.cmap, norm=colours.norm)
        ax.set(xticks=[], yticks=[])
        name_panel(ax, name if ax is axes[0] else f"{name},\nminus theory")
        ax.grid(False)
    bar = fig.colorbar(colours, ax=axes, extend="both", shrink=0.9)
    bar.set_label("covariance of two test points\n(theoretical standard deviations)")
    return fig
