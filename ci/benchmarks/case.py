"""One case of the bench: a task that rndlib and its peers do side by side.

Every repeat goes through all ways, and each repeat starts at another one, so that other work on the machine slows all
of them alike. A time is the median over the repeats with its quartiles. A ratio is the median of the ratios within each
repeat, between the least and the greatest of them: an interval that holds the true median with probability
1 - 2^(1 - repeats), which is 94 % for five.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

REPEATS = 5
OURS, RATIO = "rndlib", "times rndlib's"

Row = dict[str, Any]
"""Columns by name: each a string, a number, or a median with its interval as a list of three numbers."""


@dataclass(frozen=True)
class Way:
    """One way to do the task.

    call: does a part of it, and returns when the work is done: JAX hands back arrays that are still being computed.
    parts: how many such calls make the whole task, to which seconds are scaled.
    known: columns of its row that need no run.
    """

    call: Callable[[], Any]
    parts: float = 1.0
    known: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A task with rndlib's way to it and those of its peers.

    accuracy: columns that say how accurate the result of a call is. It may take its time; to make a case must not.
    """

    name: str
    ours: Way
    peers: Mapping[str, Way]
    accuracy: Callable[[Any], Row]

    @property
    def ways(self) -> dict[str, Way]:
        """All ways by name, rndlib's first."""
        return {OURS: self.ours, **self.peers}

    def rows(self, repeats: int = REPEATS) -> list[Row]:
        """Measure: one row per way."""
        firsts = {name: timed(way.call) for name, way in self.ways.items()}
        seconds = side_by_side({name: way.call for name, way in self.ways.items()}, repeats)
        rows = []
        for name, way in self.ways.items():
            first, found = firsts[name]
            whole = way.parts * seconds[name]
            row: Row = {"case": self.name, "by": name, "seconds": np.quantile(whole, [0.5, 0.25, 0.75]).tolist()}
            row["first call"] = first + float(np.median(whole - seconds[name]))  # what it compiles is not repeated
            if name != OURS:
                ratios = whole / (self.ours.parts * seconds[OURS])
                row[RATIO] = np.quantile(ratios, [0.5, 0.0, 1.0]).tolist()
            rows.append(row | way.known | self.accuracy(found))
        return rows


def side_by_side(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Wall seconds of every call in each repeat."""
    names = list(calls)
    found: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(timed(calls[name])[0])
    return {name: np.array(walls) for name, walls in found.items()}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of a call and its result. It begins when this process is idle, or after a second.

    Threads that the call before has left running would slow it: XLA's return gigabytes to the system, and BLAS's spin
    for a tenth of a second.
    """
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.001:
            break
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found
