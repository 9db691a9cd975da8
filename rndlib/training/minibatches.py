"""Training by minibatches, as every backend does it: the order of points, the rates, early stopping, the report.

A backend steps through an epoch; which points its batches hold and when it ends is decided here, in NumPy, so that all
backends take the same steps. With B points a batch a step follows the gradient of

    1/(2 B) sum_batch ||f(x) - y||^2 + noise_std^2 / (2 N) ||theta - theta_0||^2,

with N the points trained on. Its mean over batches is 1 / N of the loss of the other solvers with the offsets of
observation noise eliminated: targets jittered by them, parameters drawn to their start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float, Int

from rndlib.training.solvers import CLOSE, DivergenceError, Report, StochasticGradient
from rndlib.training.weights import Params, Role, stream

State = TypeVar("State")
Batches = Int[np.ndarray, "bodies batches batch"]
PerBody = Float[np.ndarray, " bodies"]


@dataclass(frozen=True)
class Block(Generic[State]):
    """A block of bodies in training, as an array library holds it, and what it can do with them.

    start: parameters and the optimiser's memory of every body before training.
    epoch: the state after one step for each batch of rows of X, at the rates (batches,).
    params: a state's parameters, as copies in NumPy.
    functions: f(X) of every body and head (bodies, heads, n), of parameters at any rows X (n, d).
    """

    start: State
    epoch: Callable[[State, Batches, Float[np.ndarray, " batches"]], State]
    params: Callable[[State], Params]
    functions: Callable[[Params, Float[np.ndarray, "n d"]], Float[np.ndarray, "bodies heads n"]]


@dataclass(frozen=True)
class Draws:
    """What a block's draws are made from: a seed, the role of its networks, and which bodies they are."""

    seed: int
    role: Role
    bodies: Sequence[int]

    def streams(self) -> list[np.random.Generator]:
        """A generator for each body, of its own whatever the block: members stay independent given the data."""
        return [stream(self.seed, Role.ORDER, int(self.role), body) for body in self.bodies]


def descend(
    block: Block[State],
    solver: StochasticGradient,
    draws: Draws,
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies heads n"],
    tick: Callable[[], None],
) -> tuple[Params, Report]:
    """The parameters of a block of bodies after minibatch training; calls `tick` after every epoch.

    With `patience`, the parameters of each body's best epoch by its loss on the points held out.

    Raises
    ------
    DivergenceError: the training loss left the finite numbers, or ended above where it began.
    """
    streams = draws.streams()
    orders = np.stack([generator.permutation(len(X)) for generator in streams])
    held = solver.held_out(len(X))
    out, rows = orders[:, :held], orders[:, held:]
    size = min(solver.batch_size, rows.shape[1])
    batches = rows.shape[1] // size
    rates = solver.rates(batches)

    def residual(params: Params) -> PerBody:
        return np.linalg.norm(_picked(block.functions(params, X) - targets, rows), axis=(1, 2))

    def loss(params: Params) -> PerBody:
        return np.mean(_picked(block.functions(params, X) - targets, out) ** 2, axis=(1, 2))

    state, best = block.start, block.params(block.start)
    scale = CLOSE * np.linalg.norm(_picked(targets, rows), axis=(1, 2))
    first = np.maximum(residual(best), scale)
    lowest, waited = np.full(len(streams), np.inf), np.zeros(len(streams), int)
    epoch = 0
    while epoch < solver.epochs and (solver.patience is None or (waited < solver.patience).any()):
        shuffled = np.stack([generator.permutation(own) for generator, own in zip(streams, rows, strict=True)])
        chosen = shuffled[:, : batches * size].reshape(len(streams), batches, size)
        state = block.epoch(state, chosen, rates[epoch])
        epoch += 1
        tick()
        if solver.patience is not None:
            params = block.params(state)
            found = loss(params)
            # A body that has run out of patience is left at its best, though others of its block train on.
            better = (found < lowest) & (waited < solver.patience)
            lowest = np.where(better, found, lowest)
            waited = np.where(better, 0, waited + 1)
            best = [(_where(better, w, v), _where(better, b, c)) for (w, b), (v, c) in zip(params, best, strict=True)]
    if solver.patience is None:
        best = block.params(state)
    left = float(np.max(residual(best) / np.where(first > 0, first, 1.0)))
    if not left <= 1:
        raise DivergenceError(
            f"{solver.optimizer}: training residual {left:.1e} of the first after {epoch} epochs at learning_rate = "
            f"{solver.learning_rate:g}: give a smaller rate, or scale the columns of X to about 1"
        )
    stopped = solver.patience is None or bool((waited >= solver.patience).all())
    return best, Report(None, left, None, epoch * batches, stopped)


def _picked(values: Float[np.ndarray, "bodies heads n"], rows: np.ndarray) -> np.ndarray:
    """Of each body its own rows of points, (bodies, heads, rows)."""
    return np.take_along_axis(values, rows[:, None], axis=2)


def _where(chosen: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)
