"""What every contender is given and gives back, and running all of them on the same splits."""

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

    net, noise_std: the network's description and the standard deviation of the noise, in the units of y, for those
    contenders that do not find their own. seed: of their draws.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    net: MLP
    noise_std: float
    sizes: Sizes = Sizes()
    seed: int = 0

    def parameters(self, heads: int, networks: int = 1) -> int:
        """Weights and biases of so many networks of so many outputs."""
        return networks * sum(fan_out * (fan_in + 1) for fan_out, fan_in in self.net.layer_shapes(heads))


@dataclass(frozen=True)
class Predictive:
    """Means and standard deviations of new observations at the test points, in the units of y.

    parameters: how many numbers were fitted to the training set.
    """

    mean: Values
    std: Values
    parameters: int


@dataclass(frozen=True)
class Score:
    """A score of every test point, higher where a point is less like those trained on.

    parameters: as in `Predictive`. errors: of the heads from which the score of Bayesian RND comes.
    """

    values: Values
    parameters: int
    errors: Float[np.ndarray, "heads t"] | None = None


def run(
    contenders: Mapping[str, Callable[[Task], Found]], tasks: Sequence[Task]
) -> tuple[dict[str, list[Found]], dict[str, float]]:
    """What every contender finds in the tasks, and the median seconds of fitting and predicting, by name.

    One after the other, so that their seconds can be compared, and with one thread for products of matrices: these are
    small, and threads that wait for each other on a busy machine cost many times what they save. The median leaves out
    what a contender compiles for the first task.
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
