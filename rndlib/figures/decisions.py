"""Figure of sequential decisions: regret against queries, with bands over seeds."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from rndlib.evidence.statistics import t_interval
from rndlib.figures.style import GREY, LOOKS, Figure, blank, legend_below, style

_LOOKS = [*LOOKS, (GREY, "x", "-")]


def regret_against_queries(
    found: Mapping[str, Float[np.ndarray, "seeds asked"]], confidence: float = 0.95, unit: str = ""
) -> Figure:
    """Cumulative regret and smallest regret so far against queries, means over seeds with their intervals.

    The intervals are Student's at `confidence`, two-sided, at each number of queries, and are of the mean, not of a
    single run. Left: the sum of the regrets so far. Right: the smallest so far, which is what matters where only the
    best candidate found counts.

    found: label to the regret of each query, in their order (`rndlib.practice.thompson.study`). unit: of regret.

    Raises
    ------
    ValueError: more than five labels, which would look alike, or a single seed, which has no interval.
    """
    if len(found) > len(_LOOKS):
        raise ValueError(f"found has {len(found)} labels: give at most {len(_LOOKS)}, as more would look alike")
    with style():
        fig, axes = blank(1, 2, width=7.2, height=3.7)
        for index, (label, regrets) in enumerate(found.items()):
            colour, marker, line = _LOOKS[index]
            queries = np.arange(1, regrets.shape[1] + 1)
            # Markers of one series lie between those of the others.
            every = (index * len(queries) // (5 * len(found)), max(1, len(queries) // 5))
            for ax, so_far in zip(axes[0], (np.cumsum, np.minimum.accumulate), strict=True):
                runs = so_far(regrets, axis=1)
                ends = np.array([t_interval(column, confidence, sides=2)[1:] for column in runs.T])
                ax.fill_between(queries, *ends.T, color=colour, alpha=0.15, linewidth=0)
                for end in ends.T:  # in grey, overlapping bands are told apart by their edges
                    ax.plot(queries, end, color=colour, linestyle=line, linewidth=0.5)
                ax.plot(
                    queries,
                    runs.mean(axis=0),
                    color=colour,
                    linestyle=line,
                    marker=marker,
                    markevery=every,
                    label=label,
                )
        of = f" ({unit})" if unit else ""
        axes[0, 0].set(xlabel="queries", ylabel=f"cumulative regret{of}", title="all queries count")
        axes[0, 1].set(xlabel="queries", ylabel=f"smallest regret so far{of}", title="the best one counts")
        axes[0, 0].set_ylim(bottom=0)
        means = np.concatenate([np.minimum.accumulate(regrets, axis=1).mean(axis=0) for regrets in found.values()])
        # Over decades. An interval's lower end can be below 0; where it leaves the axis it is cut off.
        axes[0, 1].set_yscale("log")
        axes[0, 1].set_ylim(bottom=means[means > 0].min(initial=1.0) / 2)
        legend_below(fig, axes)
    return fig
