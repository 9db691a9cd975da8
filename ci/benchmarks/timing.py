"""Calls timed side by side, so that other work on the machine slows all of them alike.

Every repeat goes through all calls, and each repeat starts at another one. A time is the median over the repeats with
its quartiles. A ratio is the median of the ratios within each repeat, between the least and the greatest of them: an
interval that holds the true median with probability 1 - 2^(1 - repeats), whatever the distribution.

Every call begins when this process is idle. Threads that the call before has left running would slow the next one:
XLA's return gigabytes to the system, and BLAS's spin for a tenth of a second.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rndlib.paper.evidence.estimate import Estimate

Name = TypeVar("Name", bound=Hashable)

REPEATS = 5
"""With five repeats, the intervals of ratios have a level of 94 %."""


@dataclass(frozen=True)
class Timing:
    """Wall seconds of each repeat, those of the first call (compilation included), and the cores kept busy.

    Every field counts the whole job, of which a call may have done a part (`scaled`).
    """

    seconds: tuple[float, ...]
    first: float
    cores: float

    @property
    def spread(self) -> Estimate:
        """Median and quartiles of the seconds."""
        low, median, high = np.quantile(self.seconds, [0.25, 0.5, 0.75])
        return Estimate(float(median), float(low), float(high))

    def scaled(self, factor: float) -> "Timing":
        """The seconds of a job so many times as long; the first call takes the same for compiling."""
        more = (factor - 1) * float(np.median(self.seconds))
        return Timing(tuple(factor * s for s in self.seconds), self.first + more, self.cores)


def side_by_side(calls: Mapping[Name, Callable[[], object]], repeats: int = REPEATS) -> dict[Name, Timing]:
    """Time every call `repeats` times, after a first call of each that is timed apart.

    A call must return only when its work is done: JAX hands back arrays that are still being computed.

    Raises
    ------
    ValueError: repeats is below 1.
    """
    if repeats < 1:
        raise ValueError(f"repeats = {repeats}: give 1 or more")
    names = list(calls)
    firsts = {name: once(calls[name]) for name in names}
    found: dict[Name, list[tuple[float, float]]] = {name: [] for name in names}
    for repeat in range(repeats):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(_timed(calls[name]))
    return {
        name: Timing(tuple(walls), firsts[name], sum(busy) / sum(walls))
        for name, (walls, busy) in ((name, zip(*times, strict=True)) for name, times in found.items())
    }


def ratio(slow: Timing, fast: Timing) -> Estimate:
    """How many times as long the one takes as the other, from repeats that were made side by side."""
    ratios = [s / f for s, f in zip(slow.seconds, fast.seconds, strict=True)]
    return Estimate(float(np.median(ratios)), min(ratios), max(ratios))


def once(call: Callable[[], object]) -> float:
    """Wall seconds of a single call."""
    return _timed(call)[0]


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    _settle()
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def _settle() -> None:
    """Wait until all threads of this process together use less than a tenth of a core, for a second at most."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.001:
            return
