"""A claim over two parameters of a grid of runs: which of its verdicts hold, and its values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from rndlib.paper.figures.style import GREY, Figure, blank, style

_LABELLED = 12  # columns across the page beyond which numbers would overlap


@dataclass(frozen=True)
class Shares:
    """One panel of `verdicts_over`: the share of verdicts that hold and their median value, NaN without a run.

    Rows are the second parameter.
    """

    share: Float[np.ndarray, "rows columns"]
    value: Float[np.ndarray, "rows columns"]


@style()
def verdicts_over(
    columns: tuple[str, Sequence[str]], rows: tuple[str, Sequence[str]] | None, panels: Mapping[str, Shares]
) -> Figure:
    """Heat maps, one panel per claim: light if every verdict holds, dark if none does, hatched without a run.

    `columns` and `rows` are a parameter and its values; `rows` is None for a single parameter. The number in a field is
    the median of the judged values.
    """
    width, height = len(columns[1]), len(rows[1]) if rows else 1
    across = max(1, min(len(panels), 3, _LABELLED // width))
    look = Normalize(0, 1)
    down = -(-len(panels) // across)
    fig, axes = blank("", down, across, 0.3 + down * (1.0 + min(max(0.6, 0.35 * height), 6.0)))
    for ax, (claim, panel) in zip(axes.flat, panels.items(), strict=False):
        # A colour map that rises in lightness, to be readable in grey, and white lines between the fields.
        ax.imshow(panel.share, cmap="cividis", norm=look, aspect="auto")
        ax.hlines(np.arange(height - 1) + 0.5, -0.5, width - 0.5, "white", linewidth=1)
        ax.vlines(np.arange(width - 1) + 0.5, -0.5, height - 0.5, "white", linewidth=1)
        for (row, column), share in np.ndenumerate(panel.share):
            if np.isnan(share):
                ax.add_patch(
                    Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, hatch="////", edgecolor=GREY, linewidth=0)
                )
            elif width <= _LABELLED:
                text, colour = f"{panel.value[row, column]:.2g}", "black" if share > 0.5 else "white"
                ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
        for axis, (name, values) in ((ax.xaxis, columns), (ax.yaxis, rows or ("", []))):
            some = range(0, len(values), -(-len(values) // _LABELLED) or 1)
            axis.set_ticks(list(some), [values[place] for place in some])
            axis.set_label_text(name)
        ax.grid(False)
        ax.set_title(claim)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    fig.colorbar(ScalarMappable(look, "cividis"), ax=axes, shrink=0.9).set_label("verdicts that hold")
    return fig
