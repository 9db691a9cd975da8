"""The figures of the notebooks, in one style.

Colours are Paul Tol's high-contrast set, told apart by colour-blind readers and in grey; marker and line style repeat
what colour says. Figures are made without pyplot: nothing global is set, and none stays open.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.container import Container
from matplotlib.figure import Figure as _Figure

from rndlib import output

BLUE, RED, YELLOW, GREY, BLACK = "#004488", "#BB5566", "#DDAA33", "#8C8C8C", "#000000"
LOOKS = [(BLUE, "o", "-"), (RED, "s", "--"), (YELLOW, "D", "-."), (BLACK, "^", ":")]
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # Letters stay letters in the PDF.
    "svg.hashsalt": "rndlib",
}
_DPI = 150


class Figure(_Figure):
    """A figure that a notebook shows by naming it last in a cell."""

    def _repr_png_(self) -> bytes:
        return _drawn(self, "png")


def style() -> AbstractContextManager[None]:
    """The settings under which every figure here is made; use it around figures of your own."""
    return mpl.rc_context(_STYLE)


def blank(
    rows: int = 1,
    columns: int = 1,
    width: float = 7.0,
    height: float = 3.2,
    sharex: bool = False,
    sharey: bool | Literal["row"] = False,
) -> tuple[Figure, np.ndarray]:
    """A figure of `width` by `height` inches, and its axes `(rows, columns)`; call it inside `style()`."""
    fig = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    return fig, fig.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure as it was saved, which a notebook shows."""

    name: str
    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"{self.name}.png"


def save(fig: _Figure, name: str) -> Picture:
    """Write `name.png` and `name.pdf` into this run's folder (see `rndlib.output`), if there is one, and show it."""
    # Where everything goes is found out once; as long as there is an engine, each format would find it out anew.
    layout = fig.get_layout_engine()
    if layout is not None:
        with style():
            layout.execute(fig)
        fig.set_layout_engine(None)
    picture = Picture(name, _drawn(fig, "png"))
    folder = output.folder()
    if folder is not None:
        output.write(folder / f"{name}.png", picture.png)
        output.write(folder / f"{name}.pdf", _drawn(fig, "pdf"))
    fig.set_layout_engine(layout)
    return picture


def side_by_side(count: int, low: float, high: float) -> np.ndarray:
    """Factors by which to move `count` series apart on a log axis, so that no bar or marker hides another."""
    return np.geomspace(low, high, count) if count > 1 else np.ones(count)


def legend_below(fig: Figure, axes: np.ndarray) -> None:
    """One legend for all panels, each label once, the measured before what it is held against."""
    found = [pair for ax in axes.flat for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    found.sort(key=lambda pair: not isinstance(pair[0], Container))
    entries: dict[str, Artist] = {}
    for handle, label in found:
        entries.setdefault(label, handle)
    fig.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=min(3, len(entries)))


def _drawn(fig: _Figure, kind: str) -> bytes:
    with style(), BytesIO() as file:
        # No date in the PDF: the same figure is the same file.
        fig.savefig(file, format=kind, dpi=_DPI, metadata={"CreationDate": None} if kind == "pdf" else None)
        return file.getvalue()
