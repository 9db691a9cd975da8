"""The residuals of training, and the scale that they are relative to."""

import numpy as np
from jaxtyping import Float

from rndlib.training.problem import Problem, State
from rndlib.training.protocols import Backend

CLOSE = 1e-4
"""Lower bound on the initial residual, relative to the targets, for a start that already meets its targets."""


def residual(problem: Problem, backend: Backend, state: State) -> Float[np.ndarray, "bodies n heads"]:
    """f(X) + noise_std xi - y of every body at a state, in float64."""
    params, offsets = state
    f = backend.functions(problem.net, params, problem.X, "float64")
    return np.swapaxes(f, 1, 2) + problem.noise_std * offsets - problem.by_points[0]


def sizes(values: Float[np.ndarray, "bodies _ _"]) -> Float[np.ndarray, " bodies"]:
    """The norm of every body's values, over points and heads."""
    return np.linalg.norm(values, axis=(1, 2))


def relative(
    last: Float[np.ndarray, "bodies _ _"],
    first: Float[np.ndarray, "bodies _ _"],
    targets: Float[np.ndarray, "bodies _ _"],
) -> Float[np.ndarray, " bodies"]:
    """The norm of every body's last residual over that of its first, or over `CLOSE` times its targets' if larger."""
    reference = np.maximum(sizes(first), CLOSE * sizes(targets))
    return sizes(last) / np.where(reference > 0, reference, 1.0)
