"""Full-batch gradient descent, the paper's optimiser, one body after the other inside one compiled loop."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training.backends.jax.linearise import Bodies, linearise, pull_back
from rndlib.training.backends.jax.programs import program
from rndlib.training.backends.jax.spectrum import largest_eigenvalue
from rndlib.training.descent import check_rate, report
from rndlib.training.solvers import CLOSE, GradientDescent, Report


@program()
def _descend(net, params, offsets, X, targets, noise_std, rate, steps):
    def one(body):
        params, offsets, y = body

        def residual(state):
            f, at = linearise(net, state[0], X)
            return f + noise_std * state[1] - y, at

        def step(_, state):
            r, at = residual(state)
            return jax.tree.map(lambda p, g: p - rate * g, state, (pull_back(net, at, r), noise_std * r))

        first = jnp.linalg.norm(residual((params, offsets))[0])
        state = lax.fori_loop(0, steps, step, (params, offsets))
        first = jnp.maximum(first, CLOSE * jnp.linalg.norm(y))
        return state[0], jnp.linalg.norm(residual(state)[0]) / jnp.where(first > 0, first, 1.0)

    return lax.map(one, (params, offsets, targets))


def gradient_descent(
    net: MLP,
    solver: GradientDescent,
    params: Bodies,
    offsets: Float[np.ndarray, "bodies n heads"],
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies n heads"],
    noise_std: float,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after `solver.steps` steps, each on its own targets.

    Raises
    ------
    ValueError: the learning rate is 2 / lambda_max or more.
    DivergenceError: the training loss ended above where it began.
    """
    check_rate(solver, largest_eigenvalue(net, params, X) + noise_std**2, X.shape[0])
    settings = map(np.asarray, (noise_std, solver.learning_rate, solver.steps))
    params, residuals = _descend(net, params, offsets, X, targets, *settings)
    return params, report(solver, np.asarray(residuals))
