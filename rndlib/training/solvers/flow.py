"""Gradient flow, the continuous-time limit of gradient descent (Section 2)."""

import warnings
from dataclasses import dataclass
from functools import partial, reduce
from math import inf

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import Network
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.training import conditioning, matrices
from rndlib.training.backends import Backend
from rndlib.training.integration import Hint, Integration
from rndlib.training.problem import Problem, Solver, Spectrum, Task, Trained, full_batch_blocks
from rndlib.training.report import ConditionWarning, Report
from rndlib.training.weights import Params

DRAWS = 4
"""Number of initial networks whose tangent kernels are averaged where the infinite-width kernel is not known."""

PILOTS = 8
"""Number of bodies trained first, whose step sizes are a hint for the others."""


@dataclass(frozen=True)
class GradientFlow(Solver):
    """Gradient flow `d theta/dt = -grad L`, with `L = 1/2 ||f(X) - y||^2` summed over points and heads (Section 2).

    Parameters
    ----------
    time: Training time t, learning rate 1; `math.inf` trains to convergence.
    rtol: Allowed relative error of the trained function, in the norm over probe points near the data; > 0. For 4e-4 or
        more, networks are linearised in float32 if that adds at most a twentieth of it.
    memory: Bytes for the N x N matrices of one network, six at the same time. If they do not fit, `fit` raises a
        ValueError that says how much is needed; a linearised network that trains to convergence then forms none.

    >>> from rndlib import MLP, RND, GradientFlow, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientFlow(time=1.0)).fit(datasets.toy(0).X)
    >>> model.report.time, model.report.residual < 1
    (1.0, True)
    """

    time: float = inf
    rtol: float = 1e-3
    memory: int = 2**32

    def __post_init__(self):
        object.__setattr__(self, "time", checks.duration("time", self.time))
        object.__setattr__(self, "rtol", checks.positive("rtol", self.rtol))
        object.__setattr__(self, "memory", checks.whole("memory", self.memory, at_least=1))

    def train(self, task: Task, backend: Backend) -> Trained:
        from tqdm import tqdm

        spectrum = self._spectrum(task.net, task.X, task.noise_std)
        conditioning.announce(task, conditioning.factor(spectrum.values, self.time), self.rtol)
        # Hidden without a terminal, and where training ends before anybody asks.
        with tqdm(unit="evaluation", leave=False, disable=None, delay=3) as bar:

            def one(problem: Problem, _: list[int], known: Hint | None = None) -> tuple[Params, Report]:
                with backend.settings():
                    integration = Integration(problem, backend, spectrum, self.time, self.rtol, bar.update)
                    params, report, hint = integration.run(known)
                hints.append(hint)
                return params, report

            blocks, hints = full_batch_blocks(task), []
            first = -(-PILOTS // len(blocks[0]))
            trained = task.train(blocks[:first], one)
            if blocks[first:]:
                trained |= task.train(blocks[first:], partial(one, known=reduce(Hint.joined, hints)))
        return trained

    def _spectrum(self, net: Network, X: Float[np.ndarray, "n *shape"], noise_std: float) -> Spectrum:
        """The infinite-width kernel on X, noise included; refused if singular, with a warning if nearly so.

        For a network of the user's own, the mean tangent kernel of a few draws stands in for it.
        """
        if matrices.needed(len(X)) > self.memory:
            raise ValueError(
                f"{matrices.refusal(len(X), self.memory)}, StochasticGradient, or RND or BayesianRND with "
                "linearised=True, which forms none to train to convergence"
            )
        if self.time == inf and noise_std == 0:
            checks.distinct(X)
        kernel = kernels.kernel(net, X) if isinstance(net, MLP) else kernels.empirical(net, X, draws=DRAWS)
        values, vectors = np.linalg.eigh(kernel.ntk + noise_std**2 * np.eye(len(X)))
        if self.time == inf and values[0] <= len(X) * np.finfo(float).eps * values[-1]:
            raise ValueError(
                f"X: the tangent kernel of its rows is singular in float64 (eigenvalues from {values[0]:.1e} to "
                f"{values[-1]:.1e}), so training to convergence has no limit: {conditioning.remedies(values[-1])}, or "
                "take a deeper network"
            )
        advice = conditioning.advice(values, self.time)
        if advice and net.hidden_parameters:  # Without a hidden layer there is no curvature: gradient flow is exact.
            warnings.warn(
                f"X with noise_std = {noise_std:g}: {advice}; training takes long and may miss rtol = {self.rtol:g}",
                ConditionWarning,
                stacklevel=5,
            )
        return Spectrum(values, vectors)
