"""The figures of the notebooks, in one style.

Colours are Paul Tol's high-contrast set, told apart by colour-blind readers and in grey; marker and line style repeat
what colour says. Figures are made without pyplot: nothing global is set, and none stays open.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.container import Container
from matplotlib.figure import Figure as _Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, ScalarFormatter

from rndlib import output
from rndlib.statistics import LogRatio, calibration

BLUE, RED, YELLOW, GREY, BLACK = "#004488", "#BB5566", "#DDAA33", "#8C8C8C", "#000000"
_LOOKS = [(BLUE, "o", "-"), (RED, "s", "--"), (YELLOW, "D", "-."), (BLACK, "^", ":")]
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


@dataclass(frozen=True)
class Widths:
    """One panel of `discrepancy_against_width`.

    series: label to `(difference, low, high)`, three arrays `(widths,)`: mean over seeds, and its interval.
    floor: the Monte-Carlo floor and the interval under the laws, `(floor, low, high)`.
    control: label to `(widths,)`, differences of a wrong variant.
    """

    title: str
    series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    floor: tuple[float, float, float]
    control: Mapping[str, np.ndarray] = field(default_factory=dict)


def style() -> AbstractContextManager[None]:
    """The settings under which every figure here is made; use it around figures of your own."""
    return mpl.rc_context(_STYLE)


def blank(
    rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 3.2, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, np.ndarray]:
    """A figure of `width` by `height` inches, and its axes `(rows, columns)`; call it inside `style()`."""
    fig = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    return fig, fig.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def save(fig: _Figure, name: str) -> None:
    """Write `name.png` and `name.pdf` into this run's folder (see `rndlib.output`); nothing where there is none."""
    folder = output.folder()
    if folder is not None:
        for kind in ("png", "pdf"):
            output.write(folder / f"{name}.{kind}", _drawn(fig, kind))


def discrepancy_against_width(widths: Sequence[int], panels: Sequence[Widths]) -> Figure:
    """Fig. 1: mean squared difference against width, log-log, with the Monte-Carlo floor as a band."""
    with style():
        fig, axes = blank(1, len(panels), width=3.6 * len(panels), height=3.4, sharey=True)
        for ax, panel in zip(axes[0], panels, strict=True):
            # Side by side, so that one bar does not hide the other.
            shifts = np.geomspace(0.95, 1.05, len(panel.series)) if len(panel.series) > 1 else [1.0]
            for (label, values), (colour, marker, line), shift in zip(
                panel.series.items(), _LOOKS, shifts, strict=False
            ):
                mean, low, high = values
                bars = np.stack([mean - low, high - mean])
                places = np.asarray(widths) * shift
                ax.errorbar(places, mean, bars, color=colour, marker=marker, linestyle=line, capsize=2, label=label)
            for label, difference in panel.control.items():
                ax.plot(widths, difference, color=BLACK, marker="x", linestyle=":", label=label)
            expected, low, high = panel.floor
            ax.axhline(expected, color=GREY, linewidth=1, label="floor, expected under the law")
            ax.axhspan(low, high, color=GREY, alpha=0.25, linewidth=0, label="floor, 90 % of draws")
            ax.set(xscale="log", yscale="log", title=panel.title, xlabel="width n (units in each hidden layer)")
            ax.set_xticks(list(widths), [str(width) for width in widths], rotation=45 if len(widths) > 6 else 0)
            ax.xaxis.set_minor_locator(NullLocator())
        axes[0, 0].set_ylabel("mean squared difference\n(label units to the fourth)")
        _legend_below(fig, axes)
    return fig


def scatter_by_width(
    widths: Sequence[int],
    ensemble: Float[np.ndarray, "widths points"],
    rnd: Float[np.ndarray, "widths points"],
    title: str,
) -> Figure:
    """Fig. 2: RND error against ensemble variance at every test point, a panel a width, on one pair of log axes."""
    columns = min(4, len(widths))
    rows = -(-len(widths) // columns)
    with style():
        fig, axes = blank(rows, columns, width=1.9 * columns + 0.6, height=2.1 * rows + 0.6, sharex=True, sharey=True)
        ends = [min(ensemble.min(), rnd.min()), max(ensemble.max(), rnd.max())]
        for ax, width, x, y in zip(axes.flat, widths, ensemble, rnd, strict=False):
            slope, correlation = calibration(x, y)
            ax.scatter(x, y, s=3, color=BLUE, alpha=0.25, linewidths=0, rasterized=True)
            ax.plot(ends, ends, color=BLACK, linewidth=0.9, linestyle="--")
            ax.set(xscale="log", yscale="log", title=f"n = {width}")
            ax.text(
                0.04, 0.96, f"slope {slope:.2f}\ncorr. {correlation:.3f}", transform=ax.transAxes, va="top", fontsize=8
            )
            ax.set_aspect("equal")
        for ax in axes.flat[len(widths) :]:
            ax.remove()
        fig.suptitle(title, fontsize=10)
        fig.supxlabel("ensemble variance (label units squared)", fontsize=9)
        fig.supylabel("RND error (label units squared)", fontsize=9)
    return fig


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
        for (label, at), (colour, marker, _), shift in zip(series.items(), _LOOKS, shifts, strict=False):
            places, centre = np.arange(1, len(at.estimate) + 1), np.exp(at.estimate)
            bars = np.stack([centre - np.exp(at.low), np.exp(at.high) - centre])
            ax.errorbar(places + shift, centre, bars, color=colour, marker=marker, linestyle="", label=label)
            ax.set(yscale="log", xlabel="test point", xlim=(0, len(places) + 1), ylabel="mean squared error / variance")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="x", visible=False)
        _legend_below(fig, axes)
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
        _legend_below(fig, axes)
    return fig


def _drawn(fig: _Figure, kind: str) -> bytes:
    with style(), BytesIO() as file:
        # No date in the PDF: the same figure is the same file.
        fig.savefig(file, format=kind, dpi=_DPI, metadata={"CreationDate": None} if kind == "pdf" else None)
        return file.getvalue()


def _legend_below(fig: Figure, axes: np.ndarray) -> None:
    """One legend for all panels, each label once, the measured before what it is held against."""
    found = [pair for ax in axes.flat for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    found.sort(key=lambda pair: not isinstance(pair[0], Container))
    entries: dict[str, Artist] = {}
    for handle, label in found:
        entries.setdefault(label, handle)
    fig.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=min(3, len(entries)))
