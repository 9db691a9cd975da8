"""Full-batch gradient descent, one body after the other inside one compiled loop."""

import jax
import jax.numpy as jnp
from jax import lax

from rndlib.training.backends.jax.linearise import linearise
from rndlib.training.backends.jax.programs import program


@program()
def descend(net, params, offsets, X, targets, noise_std, rate, steps):
    """The parameters of a block of bodies after so many steps, and the norms of the first and the last residuals."""

    def one(body):
        params, offsets, y = body

        def residual(state):
            f, at = linearise(net, state[0], X)
            return f + noise_std * state[1] - y, at

        def step(_, state):
            r, at = residual(state)
            return jax.tree.map(lambda p, g: p - rate * g, state, (at.pull_back(r), noise_std * r))

        first = jnp.linalg.norm(residual((params, offsets))[0])
        state = lax.fori_loop(0, steps, step, (params, offsets))
        return state[0], first, jnp.linalg.norm(residual(state)[0])

    return lax.map(one, (params, offsets, targets))
