"""Figure of an exploration bonus on the frames of a room that it was trained in, and of another."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from rndlib.paper.figures.style import BLACK, Figure, blank, legend, looks, style


class Rooms(NamedTuple):
    """A known room and another.

    frames: one frame of each, (height, width) or (height, width, 3).
    bonuses: by label, the bonus on frames of the known room, and on frames of the other.
    """

    frames: tuple[UInt8[np.ndarray, "height width ..."], UInt8[np.ndarray, "height width ..."]]
    bonuses: Mapping[str, tuple[Float[np.ndarray, " known"], Float[np.ndarray, " other"]]]


@style()
def novelty(environments: Mapping[str, Rooms], title: str) -> Figure:
    """One column per environment, by name: a frame of each room, and below them its bonuses, sorted, on a log axis."""
    fig, axes = blank(title, 2, len(environments), 5.0)
    for (above, below), (name, (frames, bonuses)) in zip(axes.T, environments.items(), strict=True):
        known, other = frames
        gap = np.full_like(known[:, : max(1, known.shape[1] // 20)], 255)
        above.imshow(np.concatenate([known, gap, other], axis=1), cmap="gray", vmin=0, vmax=255)
        above.grid(False)
        above.spines[:].set_visible(False)
        width = known.shape[1]
        above.set(title=name, yticks=[], xticks=[width / 2, gap.shape[1] + 1.5 * width])
        above.set_xticklabels(["known room", "another room"])
        above.tick_params(bottom=False)
        above.set_anchor("S")
        for label, look in looks(bonuses).items():
            parts = bonuses[label]
            values = np.concatenate([np.sort(part) for part in parts])
            below.plot(values, color=look.colour, linestyle=look.line, label=label)
            below.axvline(len(parts[0]) - 0.5, color=BLACK, linewidth=0.6)
        below.set(xlabel="frames of each room, sorted by bonus", yscale="log")
    axes[1, 0].set_ylabel("bonus\n(variance of an ensemble)")
    legend(fig, axes[1])
    return fig
