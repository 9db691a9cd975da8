"""The largest eigenvalue of a network's own tangent kernel: how fast its fastest mode trains."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training import lanczos
from rndlib.training.backends.jax.linearise import Bodies, Given, linearise
from rndlib.training.backends.jax.programs import program
from rndlib.training.flow.exponential import DENSE_LIMIT


def largest_eigenvalue(net: MLP, params: Bodies, X: Float[Given, "n d"]) -> float:
    """lambda_max of Theta, the largest over the bodies.

    Where the matrix is too large to form it comes out a little too small (`rndlib.training.lanczos`); a rate that
    passes by that margin and still diverges is caught after training.
    """
    if X.shape[0] * params[-1][0].shape[-1] <= DENSE_LIMIT:
        return float(_formed(net, params, X))
    return lanczos.largest(*map(np.asarray, _tridiagonal(net, params, X)))


@program()
def _formed(net, params, X):
    def one(params):
        _, at = linearise(net, params, X)
        return jnp.linalg.eigvalsh(at.kernel_matrix())[-1]

    return jnp.max(lax.map(one, params))


@program()
def _tridiagonal(net, params, X):
    first = jnp.asarray(lanczos.start(X.shape[0], params[-1][0].shape[-1]))

    def one(params):
        _, at = linearise(net, params, X)

        def step(carry, _):
            before, v, beside = carry
            w = at.kernel_product(v) - beside * before
            diagonal = jnp.sum(v * w)
            w = w - diagonal * v
            beside = jnp.linalg.norm(w)
            return (v, w / jnp.where(beside > 0, beside, 1.0), beside), (diagonal, beside)

        return lax.scan(step, (jnp.zeros_like(first), first, jnp.zeros(())), length=lanczos.STEPS)[1]

    return lax.map(one, params)
