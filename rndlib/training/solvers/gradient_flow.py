"""Gradient flow, the continuous-time limit of gradient descent (Eq. 3)."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.cores import parallel
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.training.backends.base import Backend
from rndlib.training.flow import integration
from rndlib.training.flow.conditioning import warn_if_nearly_singular
from rndlib.training.flow.exponential import Spectrum
from rndlib.training.pilots import Pilot
from rndlib.training.problem import Problem, Task, Trained
from rndlib.training.report import Report
from rndlib.training.solvers.solver import Solver, full_batch_blocks
from rndlib.training.weights import Params

PILOTS = 8
"""Bodies that are trained before the others, which learn from them how finely to step."""


@dataclass(frozen=True)
class GradientFlow(Solver):
    """Gradient flow `d theta/dt = -grad L`, with `L = 1/2 ||f(X) - y||^2` summed over points and heads (Eq. 3).

    Parameters
    ----------
    time: training time t, learning rate 1; `math.inf` trains to convergence.
    rtol: relative error allowed in the trained function, in the norm over probe points near the data; > 0.
        From 4e-4 on, steps are taken in float32 where that adds a twentieth of it or less.

    Raises
    ------
    ValueError: a field is out of range.

    >>> from rndlib import MLP, RND, GradientFlow, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientFlow(time=1.0)).fit(datasets.toy(0).X)
    >>> model.report.time, model.report.residual < 1
    (1.0, True)
    """

    needs_kernel: ClassVar[bool] = True

    time: float = inf
    rtol: float = 1e-3

    def __post_init__(self):
        object.__setattr__(self, "time", checks.duration("time", self.time))
        object.__setattr__(self, "rtol", checks.positive("rtol", self.rtol))

    def train(self, task: Task, backend: Backend) -> Trained:
        """Train every body of a task: some pilots first, which tell the others how finely to step.

        Raises
        ------
        ValueError: the kernel on X is singular, and the training time too long for that not to matter.
        DivergenceError: a body left the finite numbers, or missed `rtol`.
        """
        spectrum = self._spectrum(task.net, task.X, task.noise_std)
        blocks = full_batch_blocks(task, backend)
        first = -(-PILOTS // len(blocks[0]))
        leading = parallel(lambda block: self.run(task.problem(block), backend, spectrum), blocks[:first])
        results = [(params, report) for params, report, _ in leading]
        if blocks[first:]:
            pilot = integration.followed([pilot for _, _, pilot in leading if pilot], self.rtol)
            results += parallel(
                lambda block: self.run(task.problem(block), backend, spectrum, pilot)[:2], blocks[first:]
            )
        return Trained.joined(task.bodies, blocks, results)

    def run(
        self, problem: Problem, backend: Backend, spectrum: Spectrum, pilot: Pilot | None = None
    ) -> tuple[Params, Report, Pilot | None]:
        """Train one block of bodies.

        spectrum: eigenvalues and eigenvectors of the infinite-width kernel on X, noise included.
        pilot: advice from other bodies of the same description, if some have been trained.

        Returns the parameters, the report, and advice to further bodies.
        """
        steps = backend.flow(problem, spectrum)
        return integration.gradient_flow(steps, problem, self.time, self.rtol, spectrum.values, pilot)

    def _spectrum(self, net: MLP, X: Float[np.ndarray, "n d"], noise_std: float) -> Spectrum:
        """Eigenvalues and eigenvectors of the infinite-width kernel on X, noise included."""
        if self.time == inf and noise_std == 0:
            checks.distinct("X", X)
        values, vectors = np.linalg.eigh(kernels.kernel(net, X).ntk + noise_std**2 * np.eye(len(X)))
        if self.time == inf and values[0] <= len(X) * np.finfo(float).eps * values[-1]:
            raise ValueError(
                f"X: the tangent kernel of its rows is singular in float64 (eigenvalues from {values[0]:.1e} to "
                f"{values[-1]:.1e}), so training to convergence has no limit: drop points that nearly repeat others, "
                "give noise_std > 0 where it is offered, a finite training time, or a deeper network"
            )
        warn_if_nearly_singular(net, values, noise_std, self.time, self.rtol)
        return Spectrum(values, vectors)
