"""A claim over two parameters of a grid of runs: which of its verdicts hold, and its values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from rndlib.figures.style import BLACK, GREY, Figure, blank, style

_LABELLED = 12  # columns beyond which numbers would overlap


@dataclass(frozen=True)
class Shares:
    """One panel of `verdicts_over`: NaN where there is no run.

    share: of the verdicts, how many hold. value: their median. Rows are the second parameter.
    """

    share: Float[np.ndarray, "rows columns"]
    value: Float[np.ndarray, "rows columns"]


def verdicts_over(
    columns: tuple[str, Sequence[str]], rows: tuple[str, Sequence[str]] | None, panels: Mapping[str, Shares]
) -> Figure:
    """Heat maps, a panel a claim: light where every verdict holds, dark where none does, hatched where none is there.

    columns, rows: parameter and its values; `rows` is None where there is one parameter only. panels: by claim. The
    number in a field is the median of the values that were judged.
    """
    width, height = len(columns[1]), len(rows[1]) if rows else 1
    across = min(len(panels), 3)
    down = -(-len(panels) // across)
    look = Normalize(0, 1)
    with style(), mpl.rc_context({"axes.grid": False}):
        size = min(max(1.6, 0.55 * width), 8.0), min(max(0.6, 0.35 * height), 6.0)
        fig, axes = blank(down, across, width=across * (size[0] + 0.9) + 0.9, height=down * (size[1] + 0.9) + 0.2)
        for ax, (title, panel) in zip(axes.flat, panels.items(), strict=False):
            ax.set_title(title)
            # One colour map whose lightness says it all, so that it reads in grey.
            ax.imshow(panel.share, cmap="cividis", norm=look, aspect="auto")
            # Lines between the fields, as fields of one share have one colour.
            ax.set_xticks(np.arange(width - 1) + 0.5, minor=True)
            ax.set_yticks(np.arange(height - 1) + 0.5, minor=True)
            ax.tick_params(which="minor", length=0)
            ax.grid(which="minor", color="white", alpha=1, linewidth=1)
            for (row, column), share in np.ndenumerate(panel.share):
                if np.isnan(share):
                    corner = (column - 0.5, row - 0.5)
                    ax.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor=GREY, linewidth=0))
                elif width <= _LABELLED:
                    text, colour = f"{panel.value[row, column]:.2g}", BLACK if share > 0.5 else "white"
                    ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
            ax.set_xticks(*_ticks(columns[1]))
            ax.set_yticks(*(_ticks(rows[1]) if rows else ([], [])))
            ax.set(xlabel=columns[0], ylabel=rows[0] if rows else "")
        for ax in axes.flat[len(panels) :]:
            ax.set_visible(False)
        fig.colorbar(ScalarMappable(look, "cividis"), ax=axes, shrink=0.9).set_label("verdicts that hold")
    return fig


def _ticks(values: Sequence[str]) -> tuple[list[int], list[str]]:
    """At most about a dozen of the values."""
    places = list(range(0, len(values), -(-len(values) // _LABELLED)))
    return places, [values[place] for place in places]
