"""Full-batch gradient descent, the paper's optimiser."""

from dataclasses import dataclass

from rndlib import checks
from rndlib.cores import parallel
from rndlib.training.lanczos import largest_eigenvalue
from rndlib.training.problem import Problem, Task, Trained
from rndlib.training.protocols import Backend
from rndlib.training.report import DivergenceError, Report
from rndlib.training.residuals import relative, residual
from rndlib.training.solvers.solver import Solver, full_batch_blocks
from rndlib.training.weights import Params


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
        blocks = full_batch_blocks(task)
        results = parallel(lambda block: self.run(task.problem(block), backend), blocks)
        return Trained.joined(task.bodies, blocks, results)

    def run(self, problem: Problem, backend: Backend) -> tuple[Params, Report]:
        """Train one block of bodies."""
        largest = largest_eigenvalue(problem, backend)
        if self.learning_rate >= 2 / largest:
            raise ValueError(
                f"learning_rate = {self.learning_rate:g}: gradient descent on the summed loss diverges from "
                f"2 / lambda_max = {2 / largest:.3g} on, with lambda_max = {largest:.3g} of the tangent kernel: give "
                f"less (learning_rate / n_samples = {self.learning_rate / len(problem.X):.3g} is the same rate on the "
                "mean loss), or use GradientFlow"
            )
        state = backend.descend(problem, self.learning_rate, self.steps)
        first, last = (residual(problem, backend, at) for at in (problem.state, state))
        left = float(relative(last, first, problem.targets).max())
        if not left <= 1:
            raise DivergenceError(
                f"gradient descent: training residual {left:.1e} of the first after {self.steps} steps at "
                f"learning_rate = {self.learning_rate:g}: the kernel grew in training; give a smaller rate"
            )
        return state[0], Report(self.time, left, 0.0, self.steps, True)
