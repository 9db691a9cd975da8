"""How time and memory grow, one size at a time."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.one_size import TASKS, Measured, Task
from benchmarks.section import Asked, Case, Section
from rndlib.running.costs import Row, Spread

QUICK = ("width", "evaluate", "kernel", "law-n")
"""The tasks that a quick run looks at."""


def _cases(asked: Asked) -> Iterator[Case]:
    for name in QUICK if asked.quick else TASKS:
        task = TASKS[name]
        sizes = task.quick if asked.quick else task.sizes
        yield Case(f"{name}, {sizes}", lambda name=name, task=task, sizes=sizes: [_row(name, task, sizes)])


SECTION = Section(
    "growth",
    "Growth: time and memory against every size",
    "Each size in a process of its own. Seconds are medians of up to three calls after the first. *exponent* is the "
    "slope of a line through all sizes on logarithmic scales, with its 95 % interval where there are more than two "
    "sizes; *at the end* is that between the last two, where what does not grow weighs least. *arithmetic* is the "
    "power that the operations grow with. Memory is the process's peak, less what it held before the task; the first "
    "call compiles in it.",
    _cases,
)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> Spread | float:
    """The slope of log value on log size with its 95 % interval; of two sizes, the slope alone."""
    fit: Any = stats.linregress(np.log(sizes), np.log(values))
    if len(sizes) == 2:
        return float(fit.slope)
    half = float(stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr)
    return Spread(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def _row(name: str, task: Task, sizes: Sequence[int]) -> Row:
    found = [_in_a_process(name, size) for size in sizes]
    seconds = [float(np.median(each.seconds)) for each in found]
    held = [max(1, each.after - each.before) for each in found]
    return {
        "task": task.what,
        "sizes": ", ".join(map(str, sizes)),
        "seconds": ", ".join(f"{each:.2g}" for each in seconds),
        "exponent": exponent(sizes, seconds),
        "at the end": exponent(sizes[-2:], seconds[-2:]),
        "arithmetic": task.arithmetic,
        "MiB": ", ".join(f"{each / 2**20:.0f}" for each in held),
        "MiB at the end": exponent(sizes[-2:], held[-2:]),
    }


def _in_a_process(name: str, size: int) -> Measured:
    script = Path(__file__).with_name("one_size.py")
    done = subprocess.run([sys.executable, script, name, str(size)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{script.name} {name} {size} failed: {done.stderr.strip()}")
    return Measured(**json.loads(done.stdout))
