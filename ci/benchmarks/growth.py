"""How time and memory grow, one size at a time, each in a process of its own: so its peak memory is its own."""

import multiprocessing
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.section import Asked, Case, Section
from benchmarks.timing import once
from rndlib import (
    MLP,
    RND,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    HeadsWarning,
    datasets,
    kernels,
    laws,
)
from rndlib.paper.evidence.estimate import Estimate
from rndlib.running.costs import Row

QUICK = ("width", "evaluate", "kernel", "law-n")
"""The tasks that a quick run looks at."""

CALLS, ENOUGH = 3, 20.0
"""A task is called so often after the first time, unless the calls have taken so many seconds."""


@dataclass(frozen=True)
class Task:
    """What grows, at which sizes, and with which power of the size the arithmetic is expected to grow.

    prepare: returns the call that is measured, at one size.
    """

    what: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    arithmetic: str
    prepare: Callable[[int], Callable[[], object]]


def _ensemble(width: int, members: int, n_samples: int, time: float) -> Callable[[], object]:
    data, net = datasets.toy(0, n_train=n_samples, n_test=1), MLP(3, width=width)
    return lambda: DeepEnsemble(net, members, solver=GradientFlow(time=time)).fit(data.X, data.y)


def _heads(heads: int) -> Callable[[], object]:
    data, net = datasets.toy(0, n_test=1), MLP(3, width=1024)
    return lambda: RND(net, heads, 2).fit(data.X)


def _evaluation(points: int) -> Callable[[], object]:
    data = datasets.toy(0, n_test=points)
    model = DeepEnsemble(MLP(3, width=512), 32, solver=GradientDescent(1e-3, 1)).fit(data.X, data.y)
    return lambda: model.functions(data.X_test)


def _kernel(points: int) -> Callable[[], object]:
    X = np.random.default_rng(0).standard_normal((points, 3))
    return lambda: kernels.kernel(MLP(3), X)


def _without_matrix(n_samples: int, heads: int, width: int) -> Callable[[], object]:
    data = datasets.toy(0, n_train=n_samples, n_test=1)
    solver = GradientFlow(memory=1)
    return lambda: BayesianRND(MLP(3, width=width), heads, noise_std=0.1, linearised=True, solver=solver).fit(data.X)


def _law(n_train: int, n_test: int) -> Callable[[], object]:
    data = datasets.toy(0, n_train=n_train, n_test=n_test)
    return lambda: laws.posterior(MLP(3), data.X, data.y, data.X_test, noise_std=0.1)


TASKS = {
    "width": Task(
        "training 32 networks, against width", (256, 1024, 4096, 8192), (64, 256),
        "1", lambda size: _ensemble(size, 32, 10, inf),
    ),
    "members": Task(
        "training networks of width 512, against their number", (32, 128, 512, 1024), (16, 32),
        "1", lambda size: _ensemble(512, size, 10, inf),
    ),
    "heads": Task(
        "training two bodies of width 1024, against heads on each", (16, 64, 256, 512), (2, 4),
        "1 and more, as crowded heads take more iterations", _heads,
    ),
    "train": Task(
        "training 8 networks of width 512 for time 1, against N", (8, 32, 128, 256), (8, 16),
        "1 to 3, for the N x N matrix", lambda size: _ensemble(512, 8, size, 1.0),
    ),
    "points": Task(
        "linearised training without a matrix, 8 heads on width 512, against N", (1000, 3000, 10_000, 30_000),
        (100, 300), "1, times iterations", lambda size: _without_matrix(size, 8, 512),
    ),
    "columns": Task(
        "the same with N = 1000, against heads", (16, 64, 256, 512), (2, 4),
        "1, times iterations", lambda size: _without_matrix(1000, size, 512),
    ),
    "units": Task(
        "the same with N = 1000 and 8 heads, against width", (256, 1024, 4096, 8192), (64, 256),
        "1, times iterations", lambda size: _without_matrix(1000, 8, size),
    ),
    "evaluate": Task(
        "evaluating 32 networks of width 512, against T", (1000, 4000, 16_000, 32_000), (500, 1000),
        "1", _evaluation,
    ),
    "kernel": Task("the kernels of N points, against N", (300, 1000, 3000, 10_000), (100, 300), "2", _kernel),
    "law-n": Task(
        "the posterior's variance at T = 1000 points, against N", (300, 1000, 3000, 10_000), (100, 300),
        "2 to 3, for the N x N factorisation", lambda size: _law(size, 1000),
    ),
    "law-t": Task(
        "the posterior's variance given N = 100 points, against T", (1000, 4000, 16_000, 32_000), (500, 1000),
        "1", lambda size: _law(100, size),
    ),
}  # fmt: skip


def _cases(asked: Asked) -> Iterator[Case]:
    for name in QUICK if asked.quick else TASKS:
        yield partial(_rows, name, TASKS[name].quick if asked.quick else TASKS[name].sizes)


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


def exponent(sizes: Sequence[float], values: Sequence[float]) -> Estimate | float:
    """The slope of log value on log size with its 95 % interval; of two sizes, the slope alone."""
    fit: Any = stats.linregress(np.log(sizes), np.log(values))
    if len(sizes) == 2:
        return float(fit.slope)
    half = float(stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr)
    return Estimate(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def _rows(name: str, sizes: Sequence[int]) -> list[Row]:
    measured = [in_a_process(name, size) for size in sizes]
    seconds = [float(np.median(each.seconds)) for each in measured]
    held = [max(1, each.memory) for each in measured]
    return [
        {
            "task": TASKS[name].what,
            "sizes": ", ".join(map(str, sizes)),
            "seconds": ", ".join(f"{each:.2g}" for each in seconds),
            "exponent": exponent(sizes, seconds),
            "at the end": exponent(sizes[-2:], seconds[-2:]),
            "arithmetic": TASKS[name].arithmetic,
            "MiB": ", ".join(f"{each / 2**20:.0f}" for each in held),
            "MiB at the end": exponent(sizes[-2:], held[-2:]),
        }
    ]


@dataclass(frozen=True)
class Measured:
    """Wall seconds of the calls, without the first unless that is all, and the bytes by which peak memory rose."""

    seconds: list[float]
    memory: int


def in_a_process(name: str, size: int) -> Measured:
    """Run a task at one size in a new process."""
    return alone(_task, name, size)


def alone(prepare: Callable[..., Callable[[], object]], *given: Any, cold: bool = False) -> Measured:
    """Run what a function of a module prepares in a new process; with `cold`, once, the time to compile included."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, prepare, *given, cold=cold).result()


def measure(prepare: Callable[..., Callable[[], object]], *given: Any, cold: bool = False) -> Measured:
    """Run it in this process. Its memory means something only where nothing larger ran before."""
    warnings.simplefilter("ignore", HeadsWarning)
    call = prepare(*given)
    before = _peak()
    seconds = [once(call)]
    if cold:
        return Measured(seconds, _peak() - before)
    seconds = [once(call)]
    while len(seconds) < CALLS and sum(seconds) < ENOUGH:
        seconds.append(once(call))
    return Measured(seconds, _peak() - before)


def _task(name: str, size: int) -> Callable[[], object]:
    return TASKS[name].prepare(size)


def _peak() -> int:
    """The most bytes that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # On Linux getrusage also counts what the process held that started this one.
        (line,) = (line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Kilobytes everywhere else.
