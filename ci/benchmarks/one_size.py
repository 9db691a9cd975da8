"""One task at one size, in a process of its own, so that its peak memory is its own:

    python ci/benchmarks/one_size.py TASK SIZE

prints a JSON object: `seconds` of every call after the first, `first`, and the peak memory in bytes before the task and
after it.
"""

import json
import resource
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timing import once
from rndlib import MLP, RND, DeepEnsemble, GradientDescent, GradientFlow, HeadsWarning, datasets, kernels, laws

CALLS, ENOUGH = 3, 20.0
"""A task is called so often after the first time, unless the calls have taken so many seconds."""


@dataclass(frozen=True)
class Task:
    """What grows, its sizes, and the powers of it that arithmetic and memory are expected to grow with.

    prepare: returns the call that is measured, at one size.
    """

    what: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    arithmetic: str
    prepare: Callable[[int], Callable[[], object]]


def _points(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, 3))


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
    return lambda: kernels.kernel(MLP(3), _points(points))


def _law_of_n(points: int) -> Callable[[], object]:
    data = datasets.toy(0, n_train=points, n_test=1000)
    return lambda: laws.posterior(MLP(3), data.X, data.y, data.X_test, noise_std=0.1)


def _law_of_t(points: int) -> Callable[[], object]:
    data = datasets.toy(0, n_train=100, n_test=points)
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
        "1 to 3, for the N x N eigenproblem", lambda size: _ensemble(512, 8, size, 1.0),
    ),
    "evaluate": Task(
        "evaluating 32 networks of width 512, against T", (1000, 4000, 16_000, 32_000), (500, 1000),
        "1", _evaluation,
    ),
    "kernel": Task("the kernels of N points, against N", (300, 1000, 3000, 10_000), (100, 300), "2", _kernel),
    "law-n": Task(
        "the posterior's variance at T = 1000 points, against N", (300, 1000, 3000, 10_000), (100, 300),
        "2 to 3, for the N x N factorisation", _law_of_n,
    ),
    "law-t": Task(
        "the posterior's variance given N = 100 points, against T", (1000, 4000, 16_000, 32_000), (500, 1000),
        "1", _law_of_t,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Wall seconds of the calls, and bytes that the process held at most before the task and after it."""

    seconds: list[float]
    first: float
    before: int
    after: int


def measure(task: Task, size: int) -> Measured:
    """Run the task in this process. Its peak memory means something only where nothing larger ran before."""
    call = task.prepare(size)
    before = _peak()
    first = once(call)
    seconds = [once(call)]
    while len(seconds) < CALLS and sum(seconds) < ENOUGH:
        seconds.append(once(call))
    return Measured(seconds, first, before, _peak())


def _peak() -> int:
    """Bytes that this process has held at most."""
    status = Path("/proc/self/status")
    if status.exists():  # On Linux getrusage also counts what the process held that started this one.
        (line,) = (line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Kilobytes everywhere else.


if __name__ == "__main__":
    warnings.simplefilter("ignore", HeadsWarning)
    print(json.dumps(asdict(measure(TASKS[sys.argv[1]], int(sys.argv[2])))))
