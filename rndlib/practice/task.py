"""Input and output of every contender, and running all of them on the same splits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP

Found = TypeVar("Found")
Values = Float[np.ndarray, " t"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of contenders, and the accuracy (`rtol`) of gradient flow or the most epochs of minibatch training."""

    heads: int = 32
    members: int = 5
    rtol: float = 0.1
    epochs: int = 100
    batch: int = 32


@dataclass(frozen=True)
class Task:
    """Training points with labels, points to predict, and common settings.

    `net` and `noise_std` (in the units of y) are for contenders that do not find their own.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    net: MLP
    noise_std: float
    sizes: Sizes = Sizes()
    seed: int = 0


@dataclass(frozen=True)
class Predictive:
    """Means and standard deviations of new observations at the test points, and the number of fitted parameters."""

    mean: Values
    std: Values
    parameters: int


@dataclass(frozen=True)
class Score:
    """A score of every test point, higher for points unlike the training points; `errors` are those of RND's heads."""

    values: Values
    parameters: int
    errors: Float[np.ndarray, "heads t"] | None = None


def run(
    contenders: Mapping[str, Callable[[Task], Found]], tasks: Sequence[Task]
) -> tuple[dict[str, list[Found]], dict[str, float]]:
    """The results of every contender on the tasks, and the median seconds of fitting and predicting, by name.

    One after the other and with one BLAS thread, to compare times. The median leaves out compilation on the first task.
    """
    from threadpoolctl import threadpool_limits  # scikit-learn brings it.

    results: dict[str, list[Found]] = {name: [] for name in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    with threadpool_limits(limits=1):
        for name, contender in contenders.items():
            for task in tasks:
                start = time.perf_counter()
                results[name].append(contender(task))
                seconds[name].append(time.perf_counter() - start)
    return results, {name: float(np.median(of)) for name, of in seconds.items()}
