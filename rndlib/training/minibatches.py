"""Training by minibatches, as every backend does it: what a backend steps through, and the order of points.

With B points per batch, a step follows the gradient of

    1/(2 B) sum_batch ||f(x) - y||^2 + noise_std^2 / (2 N) ||theta - theta_0||^2,

with N the points trained on. Its mean over batches is 1 / N of the loss of the other solvers, with the offsets of
observation noise eliminated: targets jittered by them, parameters drawn to their start. Which points a batch holds, and
when training ends, is decided in NumPy (`StochasticGradient`), so that all backends take the same steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float, Int

from rndlib.training.weights import Params, Role, stream

State = TypeVar("State")
Batches = Int[np.ndarray, "bodies batches batch"]


class MinibatchSteps(ABC, Generic[State]):
    """A block of bodies in training, as an array library holds it.

    start: parameters, and the optimiser's memory, of every body before training.
    """

    start: State

    @abstractmethod
    def epoch(self, state: State, batches: Batches, rates: Float[np.ndarray, " batches"]) -> State:
        """The state after one step per batch of rows of X, at these learning rates."""

    @abstractmethod
    def params(self, state: State) -> Params:
        """A state's parameters, as copies in NumPy."""


@dataclass(frozen=True)
class Draws:
    """What the order of a block's points is drawn from: a seed, the role of its networks, and which bodies they are."""

    seed: int
    role: Role
    bodies: Sequence[int]

    def streams(self) -> list[np.random.Generator]:
        """One generator per body, independent of how bodies are grouped: members stay independent given the data."""
        return [stream(self.seed, Role.ORDER, int(self.role), body) for body in self.bodies]
