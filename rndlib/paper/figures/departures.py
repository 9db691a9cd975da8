"""How far settings are from the equalities: one departure in detail, and a map of all."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullFormatter

from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.figures.style import (
    BLACK,
    GREY,
    PREDICTION,
    Figure,
    blank,
    label_ends,
    looks,
    measured,
    predicted,
    style,
)

_COLOURS = "PuOr"
_LARGEST = 4.0  # ratio at the ends of the colours
_HATCHES = {"safe": "", "biased": "//", "meaningless": "xx"}


def _wrapped(strength: str) -> str:
    return fill(strength, 9, break_long_words=False)


@style()
def departure(
    strengths: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    label: str,
    title: str,
    laws: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Ratios at each strength of one departure, which should be 1, on a log axis.

    The shaded band has the ratios within a quarter of 1. `laws` predict the ratios.
    """
    fig, ((ax,),) = blank(title, height=2.8)
    ax.axhspan(1 / 1.25, 1.25, color=GREY, alpha=0.2, linewidth=0)
    ax.axhline(1, color=BLACK, linewidth=0.9, linestyle=":")
    ends = [("theorem, shaded: within a quarter", 1.0, PREDICTION)]
    for (name, values), line in zip((laws or {}).items(), ("-", "--"), strict=False):
        predicted(ax, np.arange(len(values)), values, name, line)
        ends.append((name, values[-1], PREDICTION))
    look, apart = looks(series), np.linspace(-0.08, 0.08, len(series)) if len(series) > 1 else [0.0]
    for (name, estimates), shift in zip(series.items(), apart, strict=True):
        values, low, high = np.array(estimates).T
        measured(ax, np.arange(len(values)) + shift, (values, low, high), look[name], name, joined=True)
        ends.append((name, float(values[-1]), look[name]))
    ax.set(yscale="log", xlabel=label, ylabel="ratio")
    ax.set_xticks(range(len(strengths)), map(_wrapped, strengths))
    low, high = ax.get_ylim()
    ticks = (1, 1.1, 1.2, 1.5, 7, 8, 9) if high < 2 * low else (1, 1.5, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5)
    ax.yaxis.set_major_locator(LogLocator(subs=ticks))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    label_ends(ax, ends)
    return fig


@style()
def departure_map(
    rows: Mapping[str, Sequence[tuple[str, Mapping[str, float], Mapping[str, str]]]],
    names: Mapping[str, str],
    title: str,
) -> Figure:
    """Departures as rows, their strengths from left to right, and a panel for each equality.

    A cell is one strength, with its ratio and verdict on each equality. The colour is the ratio, and cells that are
    not safe are hatched, for readers in grey. `names` has the title of each panel.
    """
    longest = max(map(len, rows.values()))
    fig, (axes,) = blank(title, 1, len(names), 0.9 + 0.34 * len(rows), sharey=True)
    outline = [withStroke(linewidth=2, foreground="white")]
    colours = ScalarMappable(LogNorm(1 / _LARGEST, _LARGEST), _COLOURS)
    for ax, (name, text) in zip(axes, names.items(), strict=True):
        for line, cells in enumerate(rows.values()):
            for place, (strength, ratios, verdicts) in enumerate(cells):
                colour = colours.to_rgba(np.clip(ratios[name], 1 / _LARGEST, _LARGEST))
                hatch = _HATCHES[verdicts[name]]
                ax.add_patch(
                    Rectangle(
                        (place - 0.48, line - 0.46), 0.96, 0.92, facecolor=colour, edgecolor=GREY, hatch=hatch, lw=0
                    )
                )
                ax.text(place, line, _wrapped(strength), ha="center", va="center", fontsize=6, path_effects=outline)
        ax.set(xlim=(-0.6, longest - 0.4), ylim=(len(rows) - 0.4, -0.6), xticks=[])
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_title(text)
        ax.grid(False)
        for side in ax.spines.values():
            side.set_visible(False)
        ax.tick_params(length=0)
    ticks = [0.25, 0.5, 1, 2, 4]
    bar = fig.colorbar(
        colours, ax=axes, extend="both", ticks=ticks, format="{x:g}", location="bottom", shrink=0.5, aspect=40
    )
    bar.minorticks_off()
    bar.set_label("ratio")
    marks = [
        Patch(facecolor="white", edgecolor=GREY, hatch=hatch, label=verdict) for verdict, hatch in _HATCHES.items()
    ]
    fig.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    return fig
