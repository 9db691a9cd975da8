"""Matrices over the test points side by side: kernels, and covariances with their differences from the law."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from rndlib.paper.figures.style import Figure, blank, name_panel, style

Square = Float[np.ndarray, "points points"]


@style()
def matrices(law: tuple[str, Square], others: Mapping[str, Square], label: str, title: str) -> Figure:
    """Kernel matrices side by side on the scale of the first."""
    return _side_by_side([{law[0]: law[1], **others}], label, title)


@style()
def covariances(law: Square, others: Mapping[str, Square], title: str) -> Figure:
    """The law's covariance and others, each above its difference from the law's, in the law's standard deviations."""
    spread = np.sqrt(np.outer(law.diagonal(), law.diagonal()))
    rows = [
        {"law": law / spread, **{name: matrix / spread for name, matrix in others.items()}},
        {"": None, **{f"{name},\nminus the law": (matrix - law) / spread for name, matrix in others.items()}},
    ]
    return _side_by_side(rows, "covariance of two test points\n(in the law's standard deviations)", title)


def _side_by_side(rows: Sequence[Mapping[str, Square | None]], label: str, title: str) -> Figure:
    first = next(iter(rows[0].values()))
    assert first is not None
    top = 1.5 * float(np.abs(first).max())
    columns = len(rows[0])
    fig, axes = blank(title, len(rows), columns, 0.7 + len(rows) * min(2.0, 6.2 / columns))
    for ax, (name, matrix) in zip(axes.flat, (pair for row in rows for pair in row.items()), strict=True):
        if matrix is None:
            ax.axis("off")
            continue
        ax.imshow(matrix, cmap="PuOr", norm=Normalize(-top, top))
        ax.set(xticks=[], yticks=[])
        name_panel(ax, name)
        ax.grid(False)
    bar = fig.colorbar(ScalarMappable(Normalize(-top, top), "PuOr"), ax=axes, extend="both", shrink=0.9)
    bar.set_label(label)
    return fig
