"""The one style of all figures, and the marks they are made of.

A prediction is a black line, a measurement a marker with its interval, and a wrong variant is grey. The colours are
Okabe and Ito's, which colour-blind readers can tell apart; markers and line styles differ too, for print in grey.
Figures are made without pyplot, so nothing global is set and none stays open.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from textwrap import fill
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import Container
from matplotlib.figure import Figure as _Figure
from matplotlib.ticker import LogLocator, NullFormatter

from rndlib.paper import output

BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
BLACK, GREY = "#000000", "#767676"
WIDTH = 7.0  # inches, of every figure
_DPI = 150
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.labelsize": 9,
    "figure.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "mathtext.fontset": "cm",
}

Interval = tuple[Any, Any, Any] | Float[np.ndarray, "3 ..."]
"""An estimate with the low and the high end of its interval: an `Estimate`, three arrays, or one of three rows."""


class Look(NamedTuple):
    """Colour, marker and line style that tell one series from the others."""

    colour: str
    marker: str
    line: Any


LOOKS = (
    Look(BLUE, "o", "-"),
    Look(VERMILION, "s", "--"),
    Look(GREEN, "D", "-."),
    Look(PURPLE, "^", (0, (4, 1, 1, 1, 1, 1))),
    Look(ORANGE, "v", (0, (2, 1))),
)
WRONG = Look(GREY, "x", ":")
PREDICTION = Look(BLACK, "", "-")

End = tuple[str, float, Look]
"""Where a series ends: its label, its height in data coordinates, and its look."""


class Figure(_Figure):
    """A figure that a notebook shows by naming it last in a cell."""

    def _repr_png_(self) -> bytes:
        with style(), BytesIO() as file:
            self.savefig(file, format="png", dpi=_DPI)
            return file.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """The settings of every figure here, as a context or a decorator; use it around figures of your own.

    They start from matplotlib's own, so that none of a matplotlibrc counts, such as LaTeX for all text.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def blank(
    title: str,
    rows: int = 1,
    columns: int = 1,
    height: float = 3.0,
    sharex: bool = False,
    sharey: bool | Literal["row"] = False,
) -> tuple[Figure, np.ndarray]:
    """A figure with the finding as its title, `height` inches high, and its axes `(rows, columns)`."""
    fig = Figure(figsize=(WIDTH, height), dpi=_DPI, layout="compressed")
    fig.suptitle(title, x=0.01, ha="left")
    return fig, fig.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label: grey for one that begins with "wrong", and for others the next of `LOOKS`."""
    labels = list(labels)
    plain = [label for label in labels if not label.startswith("wrong")]
    if len(plain) > len(LOOKS):
        raise ValueError(f"{len(plain)} series in one figure: give at most {len(LOOKS)}, as more would look alike")
    given = dict(zip(plain, LOOKS, strict=False))
    return {label: given.get(label, WRONG) for label in labels}


def measured(
    ax: Axes, places: Any, estimate: Interval, look: Look, label: str | None = None, joined: bool = False
) -> None:
    """Estimates at their places as markers, with bars from the low to the high ends of their intervals."""
    centre, low, high = (np.atleast_1d(np.asarray(part, float)) for part in estimate)
    bars, line = [centre - low, high - centre], look.line if joined else ""
    ax.errorbar(places, centre, bars, color=look.colour, marker=look.marker, linestyle=line, label=label)


def draw_series(
    ax: Axes,
    series: Mapping[str, tuple[np.ndarray, Interval]],
    shift: float = 0.0,
    factor: float = 1.0,
    joined: bool = False,
) -> list[End]:
    """Series as places and estimates, of which the outer ones are moved by +- `shift` and by `factor` or its inverse.

    Returns what `label_ends` takes.
    """
    ends = []
    for (label, look), step in zip(looks(series).items(), apart(len(series)), strict=True):
        places, estimate = series[label]
        measured(ax, places * factor**step + shift * step, estimate, look, label, joined)
        ends.append((label, float(estimate[0][-1]), look))
    return ends


def predicted(ax: Axes, places: Any, values: Any, label: str | None = None, line: Any = "-") -> None:
    """The prediction of a theorem or a rule, as a thin black line."""
    ax.plot(places, values, color=BLACK, linewidth=1, linestyle=line, label=label)


def should_be(ax: Axes, value: float, tolerated: tuple[float, float] | None = None) -> None:
    """A dotted line at the value that the theory has, on a band of what is tolerated."""
    if tolerated:
        ax.axhspan(*tolerated, color=GREY, alpha=0.2, linewidth=0)
    ax.axhline(value, color=BLACK, linewidth=0.9, linestyle=":")


def apart(count: int) -> np.ndarray:
    """Shifts from -1 to 1 that move `count` series apart, so that none hides another; 0 for a single one."""
    return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)


def logarithmic(axis: Axis) -> None:
    """A log axis with plain numbers: 1, 2 and 5 of each decade, more where it spans less, and powers where more."""
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")  # pyright: ignore[reportAttributeAccessIssue]
    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    if decades < 4:
        subs = (1, 1.1, 1.2, 1.5, 2, 7, 8, 9) if decades < 0.3 else (1, 1.5, 2, 3, 5, 7) if decades < 1 else (1, 2, 5)
        axis.set_major_locator(LogLocator(subs=subs[:1] if decades > 2.5 else subs))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def name_panel(ax: Axes, name: str) -> str:
    """The name of a panel above it. Returns the colour of what is in it, which is grey for a wrong variant."""
    wrong = name.startswith("wrong")
    ax.set_title(name, color=GREY if wrong else BLACK)
    return GREY if wrong else BLUE


def label_ends(ax: Axes, ends: Sequence[End]) -> None:
    """Write labels with their markers to the right of the axes, moved apart if two would overlap.

    Call this last, because limits may move.
    """
    inch, line = ax.figure.dpi / ax.bbox.width, 0.17 * ax.figure.dpi / ax.bbox.height  # as fractions of the axes
    places = (ax.transScale + ax.transLimits).transform([(ax.get_xlim()[1], height) for _, height, _ in ends])
    heights = np.clip(places[:, 1], 0, 1)
    texts = sorted((height, wrapped(text, 28), look) for height, (text, _, look) in zip(heights, ends, strict=True))
    half = [line * (text.count("\n") + 1) / 2 for _, text, _ in texts]
    centres = [height for height, *_ in texts]
    for below, above in pairwise(range(len(texts))):
        centres[above] = max(centres[above], centres[below] + half[below] + half[above])
    ceiling = 1 + line
    for place in reversed(range(len(texts))):
        centres[place] = min(centres[place], ceiling - half[place])
        ceiling = centres[place] - half[place]
    for centre, (_, text, (colour, marker, _)) in zip(centres, texts, strict=True):
        shared = {"color": colour, "transform": ax.transAxes}
        ax.text(1 + 0.17 * inch, centre, text, va="center", fontsize=8, linespacing=1.05, **shared)
        ax.plot([1 + 0.08 * inch], [centre], marker=marker, clip_on=False, **shared)


def legend(fig: Figure, axes: Any) -> None:
    """One legend for all panels, measurements first: beside a single panel, below several."""
    panels = np.ravel(axes)
    pairs = [pair for ax in panels for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    pairs.sort(key=lambda pair: not isinstance(pair[0], Container))
    entries = {label: handle for handle, label in reversed(pairs)}
    labels = list(dict.fromkeys(label for _, label in pairs))
    handles = [entries[label] for label in labels]
    if len(panels) == 1:
        panels[0].legend(handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        fig.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most this many letters, without breaks inside words and formulas."""
    joined = re.sub(r"\$[^$]+\$", lambda maths: maths[0].replace(" ", "\0"), text)
    return fill(joined, width, break_long_words=False).replace("\0", " ")


@dataclass(frozen=True, repr=False)
class Picture:
    """A saved figure, which a notebook shows."""

    name: str
    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"{self.name}.png"


def save(fig: Figure, name: str) -> Picture:
    """Write `name.png` into this run's folder (see `rndlib.paper.output`), if there is one, and show it."""
    picture = Picture(name, fig._repr_png_())
    folder = output.folder()
    if folder is not None:
        output.write(folder / f"{name}.png", picture.png)
    return picture
