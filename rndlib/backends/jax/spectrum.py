"""The largest eigenvalue of a network's own tangent kernel: how fast its fastest mode trains."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from rndlib.backends.jax.linearise import Bodies, kernel_matrix, kernel_product, linearise
from rndlib.backends.jax.programs import program
from rndlib.exponential import DENSE_LIMIT, POWER_STEPS
from rndlib.network import MLP


@program()
def largest_eigenvalue(net: MLP, params: Bodies, X: Float[Array, "n d"], noise: Array) -> Float[Array, ""]:
    """lambda_max of Theta + noise I, the largest over the bodies.

    By power iteration where the matrix is too large to form. It approaches the eigenvalue from below; a rate that
    passes by that margin and still diverges is caught after training.
    """

    def one(params):
        _, at = linearise(net, params, X)
        n, heads = X.shape[0], params[-1][0].shape[0]
        if n * heads <= DENSE_LIMIT:
            return jnp.linalg.eigvalsh(kernel_matrix(at))[-1] + noise

        def step(_, v):
            v = kernel_product(at, v)
            return v / jnp.linalg.norm(v)

        v = jnp.sin(jnp.arange(1.0, 1.0 + n * heads)).reshape(n, heads)
        v = lax.fori_loop(0, POWER_STEPS, step, v / jnp.linalg.norm(v))
        return jnp.sum(v * kernel_product(at, v)) + noise

    return jnp.max(lax.map(one, params))
