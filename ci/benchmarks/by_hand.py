"""Steps of the solver written out for two layers of silu, one output and no noise: the arithmetic, and nothing else.

In the precision of what they are given, but for the eigenproblem, which is in float64.

It is what is left of `rndlib.training.steps` when the network, its depth and its heads are known
beforehand. How far this stays behind the machine is up to XLA; how far the library stays behind this, to the library.
"""

from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rndlib import MLP
from rndlib.training.backends.jax.activations import value_and_slope
from rndlib.training.backends.jax.programs import WIDE

Layers = Any  # [(w (d, n), b (n,)), (v (n, 1), a (1,))], as the JAX backend has them


def program(net: MLP, over: float, ahead: float, count: int) -> Any:
    """A compiled function of parameters, points `(N, d)` and targets `(N,)`: the parameters after `count` steps.

    Each follows the linear flow of the network at the midpoint for `over`, and for `ahead` more to the next midpoint.
    """

    def steps(params: Layers, X: Any, y: Any) -> Layers:
        start = params, params
        return lax.fori_loop(0, count, lambda _, state: _step(net, state, X, y, over, ahead), start)[0]

    return jax.jit(steps, compiler_options=WIDE)


def _step(net: MLP, state: tuple[Layers, Layers], X: Any, y: Any, over: float, ahead: float) -> tuple[Layers, Layers]:
    params, here = state
    (w, b), (v, a) = here
    first, last, bias = net.sigma_w / sqrt(net.in_dim), net.sigma_w / sqrt(net.width), net.sigma_b

    def hidden(w: Any, b: Any) -> Any:
        return sum(X[:, j : j + 1] * (first * w[j]) for j in range(net.in_dim)) + bias * b

    x, slope = value_and_slope("silu")(hidden(w, b))
    delta = slope * (last * v[:, 0])
    kernel = last**2 * _gram(x) + bias**2 + _gram(delta) * (first**2 * (X @ X.T) + bias**2)
    (dw, db), (dv, da) = jax.tree.map(jnp.subtract, params, here)
    moved = (delta * hidden(dw, db)).sum(1) + x @ (last * dv[:, 0]) + bias * da
    residual = x @ (last * v[:, 0]) + bias * a + moved - y
    values, vectors = jnp.linalg.eigh(kernel.astype(float))
    times = jnp.array([[over], [over + ahead]])
    u = ((-jnp.expm1(-times * values) / values * (vectors.T @ residual)) @ vectors.T).astype(X.dtype)
    weighted = jnp.concatenate([first * u[:, None] * X.T, bias * u[:, None]], axis=1)
    below = (weighted.reshape(-1, len(X)) @ delta).reshape(2, -1, net.width)
    above = last * (u @ x)

    def moved_by(k: int) -> Layers:
        (w, b), (v, a) = params
        return [(w - below[k, :-1], b - below[k, -1]), (v - above[k, :, None], a - bias * u[k].sum())]

    return moved_by(0), moved_by(1)


def _gram(x: Any) -> Any:
    return lax.map(lambda row: x @ row, x)  # x @ x.T takes longer
