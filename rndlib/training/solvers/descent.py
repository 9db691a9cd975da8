"""Full-batch gradient descent, the paper's optimiser."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rndlib import checks
from rndlib.any_network import Network
from rndlib.training.backends import Backend
from rndlib.training.problem import Problem, Solver, Task, Trained, full_batch_blocks, relative
from rndlib.training.report import DivergenceError, Report
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

PRODUCTS = 50
"""Products with a kernel that find its largest eigenvalue, up to an error of some 5 %; a tenth would be enough."""


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Full-batch gradient descent on `L = 1/2 ||f(X) - y||^2`, the paper's optimiser.

    The loss is the sum over points and heads, as the paper prints it. For the mean over N points, give
    `learning_rate / N`. Let lambda_max be the largest eigenvalue of a network's own tangent kernel at its start. A rate
    of `2 / lambda_max` or more diverges, and `fit` refuses it.

    Parameters
    ----------
    learning_rate: Step size, > 0. `steps * learning_rate` is the time t of the laws.
    steps: Number of steps, >= 1.

    >>> from rndlib import MLP, RND, GradientDescent, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientDescent(learning_rate=0.01, steps=100))
    >>> model.fit(datasets.toy(0).X).report.time
    1.0
    """

    learning_rate: float = 0.1
    steps: int = 1000

    def __post_init__(self):
        object.__setattr__(self, "learning_rate", checks.positive("learning_rate", self.learning_rate))
        object.__setattr__(self, "steps", checks.whole("steps", self.steps, at_least=1))

    @property
    def time(self) -> float:
        """Training time reached, `steps * learning_rate`.

        >>> from rndlib import GradientDescent
        >>> GradientDescent(learning_rate=0.5, steps=10).time
        5.0
        """
        return self.steps * self.learning_rate

    def train(self, task: Task, backend: Backend) -> Trained:
        return task.train(full_batch_blocks(task), lambda problem, _: self.run(problem, backend))

    def run(self, problem: Problem, backend: Backend) -> tuple[Params, Report]:
        """Train one block of bodies."""
        numbers = map(np.asarray, (problem.noise_std, self.learning_rate, self.steps))
        with backend.settings():
            largest = largest_eigenvalue(problem, backend)
            if self.learning_rate >= 2 / largest:
                raise ValueError(
                    f"learning_rate = {self.learning_rate:g}: gradient descent on the summed loss diverges from "
                    f"2 / lambda_max = {2 / largest:.3g} on, with lambda_max = {largest:.3g} of the tangent kernel: "
                    f"give less (learning_rate / n_samples = {self.learning_rate / len(problem.X):.3g} is the same "
                    "rate on the mean loss), or use GradientFlow"
                )
            shared, own = (problem.X, *numbers, problem.following), (problem.start, problem.offsets, problem.targets)
            trained = backend.each(_descend, problem.net, shared, own, problem.body_bytes)
            params, first, last = backend.arrays(trained)
        left = float(relative(last, first, problem.targets).max())
        if not left <= 1:
            raise DivergenceError(
                f"gradient descent: training residual {left:.1e} of its initial value after {self.steps} steps at "
                f"learning_rate = {self.learning_rate:g}: the kernel grew in training; give a smaller rate"
            )
        return params, Report(self.time, left, 0.0, self.steps, True)


def largest_eigenvalue(problem: Problem, backend: Backend) -> float:
    """lambda_max of the tangent kernels at the start, noise included: the largest over the bodies.

    It is slightly too small. A learning rate that passes by that margin and diverges is caught after training.
    """
    bodies, n, heads = problem.targets.shape
    start = np.sin(np.arange(1.0, 1.0 + n * heads)).reshape(n, heads)  # irregular, not orthogonal to eigenvectors
    v = np.tile(start / np.linalg.norm(start), (bodies, 1, 1))
    with backend.settings():
        found = backend.each(_largest_eigenvalue, problem.net, (problem.X,), (problem.start, v), problem.body_bytes)
        return float(backend.arrays(found).max()) + problem.noise_std**2


def _largest_eigenvalue(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    """By the power method: v' Theta v of the last of some unit vectors, each Theta times the one before."""
    params, v = own
    tangent = lib.linearise(net, params, shared[0])

    def step(_: Any, state: Any) -> Any:
        w = tangent.jvp(tangent.vjp(state[0]))
        return w / lib.norm(w)[..., None, None], (state[0] * w).sum(-1).sum(-1)

    return lib.loop(PRODUCTS, step, (v, lib.norm(v)))[1]


def _descend(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    """Parameters after descent, and the norms of the residuals before and after."""
    (X, noise_std, rate, steps, following), (params, offsets, y) = shared, own

    def target(params: Any) -> Any:
        """y, and of temporal differences the discounted values of the states that follow."""
        return y + following.discount[:, None] * lib.values(net, params, following.X) if following else y

    def norm(state: Any) -> Any:
        r = lib.values(net, state[0], X) + noise_std * state[1] - target(state[0])
        return lib.norm(r)

    def step(_: Any, state: Any) -> Any:
        params, offsets = state
        tangent = lib.linearise(net, params, X)
        r = tangent.value + noise_std * offsets - target(params)
        return mapped(lambda a, slope: a - rate * slope, state, (tangent.vjp(r), noise_std * r))

    state = lib.loop(steps, step, (params, offsets))
    return state[0], norm((params, offsets)), norm(state)
