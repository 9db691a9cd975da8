"""What every contender is given and gives back, and running all of them on the same splits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP

Found = TypeVar("Found")


@dataclass(frozen=True)
class Sizes:
    """How large contenders are, and how long those that count epochs are trained.

    heads: of Bayesian RND and RND. members: networks of an ensemble. rtol: relative error allowed to what gradient flow
    trains. epochs: passes over the data, at most, of what is trained by minibatches; batch: points in one of these.
    """

    heads: int = 32
    members: int = 5
    rtol: float = 0.1
    epochs: int = 100
    batch: int = 32


@dataclass(frozen=True)
class Task:
    """Training points with labels, points to predict, and the settings that contenders share.

    X (n, d), y (n,) and X_test (t, d), scaled to about 1. net, noise_std: the network's description and the standard
    deviation of the noise, in the units of y, for those contenders that do not find their own. seed: of their draws.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    net: MLP
    noise_std: float
    sizes: Sizes = Sizes()
    seed: int = 0


@dataclass(frozen=True)
class Timed(Generic[Found]):
    """What a contender found, and the seconds that fitting and predicting took together."""

    found: Found
    seconds: float


def run(contenders: Mapping[str, Callable[[Task], Found]], tasks: Sequence[Task]) -> dict[str, list[Timed[Found]]]:
    """Every contender on every task: name to results in the order of the tasks.

    One after the other, so that their seconds can be compared, and with one thread for products of matrices: these are
    small, and threads that wait for each other on a busy machine cost many times what they save. What a contender
    compiles for the first task counts in the seconds of that one.
    """
    from threadpoolctl import threadpool_limits  # scikit-learn brings it.

    with threadpool_limits(limits=1):
        return {name: [_timed(contender, task) for task in tasks] for name, contender in contenders.items()}


def seconds(results: Sequence[Timed[Found]]) -> float:
    """The median seconds over the tasks, so that what was compiled for the first does not count.

    >>> from rndlib.practice import task
    >>> task.seconds([task.Timed("slow", 9.0), task.Timed("a", 1.0), task.Timed("b", 2.0)])
    2.0
    """
    return float(np.median([timed.seconds for timed in results]))


def parameters(net: MLP, heads: int, networks: int) -> int:
    """Weights and biases of so many networks of so many outputs.

    >>> from rndlib import MLP
    >>> from rndlib.practice import task
    >>> task.parameters(MLP(3, width=64), heads=8, networks=2)
    1552
    """
    return networks * sum(fan_out * (fan_in + 1) for fan_out, fan_in in net.layer_shapes(heads))


def _timed(contender: Callable[[Task], Found], task: Task) -> Timed[Found]:
    start = time.perf_counter()
    found = contender(task)
    return Timed(found, time.perf_counter() - start)
