"""Minibatch training, for data sets too large for full-batch training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import Network
from rndlib.cores import split
from rndlib.training.backends import Backend
from rndlib.training.problem import Problem, Solver, Task, Trained, block_size, relative
from rndlib.training.report import DivergenceError, Report
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role, stream

ADAM = 0.9, 0.999, 1e-8
"""Decay of the mean and of the mean square of slopes, and what is added to the root of the latter."""


@dataclass(frozen=True)
class StochasticGradient(Solver):
    """Minibatch training on the mean over points of `1/2 ||f(x) - y||^2`, for large data sets.

    The order of the points follows from the estimator's seed and is the same on every backend. The learning rate falls
    to zero along half a cosine. There is no kernel matrix: memory and time per epoch grow with N.

    Which laws of `rndlib.laws` still hold, for a network wide enough to stay linear in its parameters:

    - "sgd" without noise, trained until the loss vanishes, keeps the law at infinite time. Each step is a combination
      of gradients at training points, so it finds the same interpolant as gradient flow.
    - "adam" without noise does not, however long it trains. It rescales each parameter, and finds another interpolant,
      whose distance from gradient flow's does not fall with the width.
    - With noise_std > 0 either keeps the law, if trained to the minimum: targets are jittered, and L2 regularisation
      pulls the parameters towards initialisation. The slowest directions take `N / noise_std^2 / learning_rate` steps.
    - If training stops earlier, the function does not follow the law of any single training time.

    Parameters
    ----------
    optimizer: "adam", with Kingma and Ba's defaults, or "sgd".
    learning_rate: Rate of the first step, > 0. Plain gradient steps on the mean loss need less than 2 N / lambda_max.
    batch_size: Points per step, >= 1, or all points if there are fewer. An epoch leaves out the points that do not fill
        a batch.
    epochs: Number of passes over the data, >= 1.
    progress: Whether to show a progress bar if standard error is a terminal.

    >>> from rndlib import MLP, RND, StochasticGradient, datasets
    >>> solver = StochasticGradient(learning_rate=1e-2, epochs=20)
    >>> model = RND(MLP(3, width=64), heads=4, solver=solver).fit(datasets.toy(0, n_train=1000).X)
    >>> model.report.evaluations, model.report.residual < 0.5
    (300, True)
    """

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    batch_size: int = 64
    epochs: int = 100
    progress: bool = True

    def __post_init__(self):
        checks.choice("optimizer", self.optimizer, ("adam", "sgd"))
        object.__setattr__(self, "learning_rate", checks.positive("learning_rate", self.learning_rate))
        for name in ("batch_size", "epochs"):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1))
        if not isinstance(self.progress, bool):
            raise ValueError(f"progress = {self.progress!r}: give True or False")

    def train(self, task: Task, backend: Backend) -> Trained:
        from tqdm import tqdm

        blocks = split(task.bodies, block_size(task.net, task.heads, min(self.batch_size, len(task.X))))
        hidden = None if self.progress else True  # None hides it without a terminal.
        with tqdm(total=len(blocks) * self.epochs, unit="epoch", leave=False, disable=hidden) as bar:

            def one(problem: Problem, bodies: list[int]) -> tuple[Params, Report]:
                # Each body has its own order: members stay independent given the data.
                orders = [stream(task.seed, Role.ORDER, int(task.role), body) for body in bodies]
                return self.run(problem, backend, orders, bar.update)

            return task.train(blocks, one)

    def run(
        self, problem: Problem, backend: Backend, orders: Sequence[np.random.Generator], tick: Callable[[], object]
    ) -> tuple[Params, Report]:
        """Train one block of bodies, with one generator per body for the order of its points.

        Calls `tick` after every epoch.
        """
        y, n_samples = problem.targets - problem.noise_std * problem.offsets, len(problem.X)
        rows = [order.permutation(n_samples) for order in orders]
        size = min(self.batch_size, n_samples)
        batches, pull = n_samples // size, np.asarray(problem.noise_std**2 / n_samples)
        cosine = np.cos(np.pi * np.arange(self.epochs * batches) / (self.epochs * batches))
        rates = self.learning_rate * (0.5 + 0.5 * cosine).reshape(self.epochs, batches)
        together = 8 * problem.net.parameters(y.shape[2])

        def residuals(params: Params) -> Float[np.ndarray, " bodies"]:
            f = np.swapaxes(backend.functions(problem.net, params, problem.X), 1, 2)
            return np.linalg.norm(f - y, axis=(1, 2))

        with backend.settings():
            nothing = mapped(np.zeros_like, problem.start)
            state = problem.start, (nothing, nothing) if self.optimizer == "adam" else ()
            for epoch in range(self.epochs):
                shuffled = np.stack([order.permutation(own) for order, own in zip(orders, rows, strict=True)])
                chosen = shuffled[:, : batches * size].reshape(len(orders), batches, size)
                shared = problem.X, rates[epoch], pull, np.asarray(float(epoch * batches))
                state = backend.each(_epoch, problem.net, shared, (problem.start, y, chosen, state), together)
                tick()
            params = backend.arrays(state[0])
        left = float(relative(residuals(params), residuals(problem.start), y).max())
        if not left <= 1:
            raise DivergenceError(
                f"{self.optimizer}: training residual {left:.1e} of its initial value after {self.epochs} epochs at "
                f"learning_rate = {self.learning_rate:g}: give a smaller rate, or scale the columns of X to about 1"
            )
        return params, Report(None, left, None, self.epochs * batches, True)


def _epoch(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    """One step per batch on the mean over a batch of 1/2 ||f(x) - y||^2, plus pull / 2 ||theta - theta_0||^2.

    The state holds the parameters and the optimiser's memory.
    """
    X, rates, pull, done = shared
    start, y, batches, state = own

    def targets(rows: Any) -> Any:
        """The rows of y, of every body its own."""
        return y[rows] if rows.ndim == 1 else y[lib.constant(np.arange(len(y)), y)[:, None], rows]

    def step(i: Any, state: Any) -> Any:
        params, memory = state
        rows = batches[..., i, :]
        tangent = lib.linearise(net, params, X[rows])
        slope = tangent.vjp((tangent.value - targets(rows)) / rows.shape[-1])
        slope = mapped(lambda g, p, s: g + pull * (p - s), slope, params, start)
        if memory:
            memory, slope = adam(memory, slope, done + i + 1, lib.xp)
        return mapped(lambda p, u: p - rates[i] * u, params, slope), memory

    return lib.loop(batches.shape[-2], step, state)


def adam(memory: Any, slope: Any, count: Any, xp: Any) -> tuple[Any, Any]:
    """New means of slopes and of their squares, and the step for a rate of 1 (Kingma and Ba, 2015)."""
    beta, gamma, epsilon = ADAM
    mean, square = memory
    mean = mapped(lambda m, g: beta * m + (1 - beta) * g, mean, slope)
    square = mapped(lambda s, g: gamma * s + (1 - gamma) * g**2, square, slope)
    unbiased = 1 - beta**count, 1 - gamma**count
    step = mapped(lambda m, s: m / unbiased[0] / (xp.sqrt(s / unbiased[1]) + epsilon), mean, square)
    return (mean, square), step
