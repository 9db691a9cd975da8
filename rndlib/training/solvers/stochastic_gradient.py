"""Minibatch training, for data sets too large for full-batch training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.cores import parallel, split
from rndlib.training.problem import Problem, Task, Trained, block_size
from rndlib.training.protocols import Backend
from rndlib.training.report import DivergenceError, Report
from rndlib.training.residuals import relative
from rndlib.training.solvers.solver import Solver
from rndlib.training.trees import chosen
from rndlib.training.weights import Params, Role, stream


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
    - With noise_std > 0 either keeps the law, if trained to the minimum: targets are jittered, and a penalty pulls the
      parameters to their start. The slowest directions take `N / noise_std^2 / learning_rate` steps.
    - If training stops earlier, by `epochs` or `patience`, the function has no law of a single training time. Held-out
      points are not trained on, and count as unknown.

    Parameters
    ----------
    optimizer: "adam" or "sgd", with the defaults of optax and torch.optim, which agree.
    learning_rate: Rate of the first step, > 0. Plain gradient steps on the mean loss need less than 2 N / lambda_max.
    batch_size: Points per step, >= 1, or all points if there are fewer. An epoch leaves out the points that do not fill
        a batch.
    epochs: Maximum number of passes over the data, >= 1.
    patience: Epochs without a lower loss on the held-out points after which a body stops and keeps its best parameters,
        >= 1. None trains on all points for all epochs.
    validation_fraction: Part of the points that is held out if there is a patience, between 0 and 1.
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
    patience: int | None = None
    validation_fraction: float = 0.1
    progress: bool = True

    def __post_init__(self):
        checks.choice("optimizer", self.optimizer, ("adam", "sgd"))
        object.__setattr__(self, "learning_rate", checks.positive("learning_rate", self.learning_rate))
        for name in ("batch_size", "epochs"):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1))
        if self.patience is not None:
            object.__setattr__(self, "patience", checks.whole("patience", self.patience, at_least=1))
        checks.fraction("validation_fraction", self.validation_fraction)
        if not isinstance(self.progress, bool):
            raise ValueError(f"progress = {self.progress!r}: give True or False")

    def held_out(self, n_samples: int) -> int:
        """Number of points that are held out.

        >>> from rndlib import StochasticGradient
        >>> StochasticGradient(patience=5).held_out(1000), StochasticGradient().held_out(1000)
        (100, 0)
        """
        if self.patience is None:
            return 0
        held = max(1, round(self.validation_fraction * n_samples))
        if held >= n_samples:
            raise ValueError(
                f"validation_fraction = {self.validation_fraction:g} leaves none of {n_samples} points to train on: "
                "give less of it, more points, or patience=None"
            )
        return held

    def rates(self, batches: int) -> Float[np.ndarray, "epochs batches"]:
        """The rate of each step, from learning_rate along half a cosine towards 0: (epochs, batches).

        >>> from rndlib import StochasticGradient
        >>> StochasticGradient(learning_rate=1.0, epochs=2).rates(2).round(3).tolist()
        [[1.0, 0.854], [0.5, 0.146]]
        """
        steps = np.arange(self.epochs * batches) / (self.epochs * batches)
        return self.learning_rate * (0.5 + 0.5 * np.cos(np.pi * steps)).reshape(self.epochs, batches)

    def train(self, task: Task, backend: Backend) -> Trained:
        """Train every body of a task. Raises ImportError if the backend needs a package that is not installed."""
        from tqdm import tqdm

        self.held_out(len(task.X))  # Before any work.
        blocks = split(task.bodies, block_size(task.net, task.heads, min(self.batch_size, len(task.X))))
        hidden = None if self.progress else True  # None hides it without a terminal.
        with tqdm(total=len(blocks) * self.epochs, unit="epoch", leave=False, disable=hidden) as bar:

            def one(block: list[int]) -> tuple[Params, Report]:
                # Each body has its own order: members stay independent given the data.
                orders = [stream(task.seed, Role.ORDER, int(task.role), body) for body in block]
                return self.run(task.problem(block), backend, orders, bar.update)

            results = parallel(one, blocks)
        return Trained.joined(task.bodies, blocks, results)

    def run(
        self, problem: Problem, backend: Backend, orders: Sequence[np.random.Generator], tick: Callable[[], object]
    ) -> tuple[Params, Report]:
        """Train one block of bodies, with one generator per body for the order of its points.

        Calls `tick` after every epoch. With `patience`, the result is each body's best epoch by its loss on the
        held-out points.
        """
        jitter = problem.noise_std * np.swapaxes(problem.by_points[1], 1, 2)
        problem = replace(problem, targets=problem.targets - jitter, offsets=None)
        n_samples = len(problem.X)
        held = self.held_out(n_samples)
        points = np.stack([order.permutation(n_samples) for order in orders])
        out, rows = points[:, :held], points[:, held:]
        size = min(self.batch_size, rows.shape[1])
        batches = rows.shape[1] // size
        rates = self.rates(batches)
        training = backend.minibatches(problem, self.optimizer, problem.noise_std**2 / (n_samples - held))

        def errors(params: Params, rows: np.ndarray) -> np.ndarray:
            return _picked(backend.functions(problem.net, params, problem.X, "float64") - problem.targets, rows)

        best = problem.start
        first = errors(best, rows)
        lowest, waited = np.full(len(orders), np.inf), np.zeros(len(orders), int)
        epoch = 0
        while epoch < self.epochs and (self.patience is None or (waited < self.patience).any()):
            shuffled = np.stack([order.permutation(own) for order, own in zip(orders, rows, strict=True)])
            training.epoch(shuffled[:, : batches * size].reshape(len(orders), batches, size), rates[epoch])
            epoch += 1
            tick()
            if self.patience is not None:
                params = training.params()
                loss = np.mean(errors(params, out) ** 2, axis=(1, 2))
                # A body that has run out of patience keeps its best parameters while others of its block train on.
                better = (loss < lowest) & (waited < self.patience)
                lowest = np.where(better, loss, lowest)
                waited = np.where(better, 0, waited + 1)
                best = chosen(better, params, best)
        if self.patience is None:
            best = training.params()
        left = float(relative(errors(best, rows), first, _picked(problem.targets, rows)).max())
        if not left <= 1:
            raise DivergenceError(
                f"{self.optimizer}: training residual {left:.1e} of the first after {epoch} epochs at learning_rate = "
                f"{self.learning_rate:g}: give a smaller rate, or scale the columns of X to about 1"
            )
        stopped = self.patience is None or bool((waited >= self.patience).all())
        return best, Report(None, left, None, epoch * batches, stopped)


def _picked(values: Float[np.ndarray, "bodies heads n"], rows: np.ndarray) -> np.ndarray:
    """The values of each body at its own rows of points, (bodies, heads, rows)."""
    return np.take_along_axis(values, rows[:, None], axis=2)
