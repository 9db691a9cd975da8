"""Gradient descent as a user of JAX would write it, and how many steps of it training takes.

It minimises 1/2 ||f(X) - y||^2 by full batches in float32, for many networks at once.
"""

from bisect import bisect_left
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.case import Row, Way
from rndlib import MLP, kernels

ACCURACY = 1e-2
"""Distance of the test function from the converged one, relative to its norm, at which descent is done."""


def needed(train: kernels.Kernel, across: kernels.Kernel, prior: np.ndarray, error: np.ndarray) -> tuple[int, float]:
    """Steps that descent takes to within `ACCURACY`, and its rate, 0.95 of the largest stable one, 2 / lambda_max.

    Both are those of the linear model, whose function is away from its limit by
    Theta_xX Theta^-1 (I - rate Theta)^k e_0 after k steps. Squares are averaged over initialisations.

    Parameters
    ----------
    train, across: kernels of the training points (N, N), and of test with training points (T, N).
    prior: NNGP at the test points (T,).
    error: second moment of e_0, the function less the labels (N, N).
    """
    values, vectors = np.linalg.eigh(train.ntk)
    rate = 0.95 * 2 / values[-1]
    modes = across.ntk @ vectors / values
    gain = modes @ vectors.T
    square = np.sum(prior) - 2 * np.sum(gain * across.nngp) + np.sum((gain @ error) * gain)
    rotated = vectors.T @ error @ vectors

    def done(steps: int) -> bool:
        left = modes * (1 - rate * values) ** steps
        return bool(np.sum((left @ rotated) * left) <= ACCURACY**2 * square)

    return bisect_left(range(10**9), True, key=done), rate


def peer(net: MLP, X: np.ndarray, X_test: np.ndarray, y: np.ndarray, error: np.ndarray, work: int) -> dict[str, Way]:
    """Descent towards labels y (bodies, N, heads), timed on as many steps as go through about `work` numbers.

    `error` is that of `needed`.
    """
    prior = kernels.diagonal(net, X_test).nngp
    steps, rate = needed(kernels.kernel(net, X), kernels.kernel(net, X_test, X), prior, error)
    bodies, n_samples, heads = y.shape
    start = drawn(net, heads, bodies)
    numbers = sum(a[0].size for a in start) + n_samples * ((net.depth - 1) * net.width + heads)
    timed = max(1, min(steps, work // (numbers * bodies)))
    call = partial(trained, net, X, y, rate, start, timed)
    return {"JAX vmap": Way(call, steps / timed, known(steps, timed, bodies))}


def known(steps: int, timed: int, networks: int) -> Row:
    """The columns of a row of descent."""
    return {"steps": steps, "timed": f"{timed} steps of {networks} network{'s' * (networks > 1)}"}


def drawn(net: MLP, heads: int, bodies: int) -> list[np.ndarray]:
    """Weights and biases (bodies, ...) from N(0, 1), layer by layer, in the parametrisation of Eq. 1."""
    rng = np.random.default_rng(0)
    shapes = [part for shape in net.layer_shapes(heads) for part in (shape, shape[:1])]
    return [rng.standard_normal((bodies, *shape)).astype(np.float32) for shape in shapes]


def trained(net: MLP, X: np.ndarray, y: np.ndarray, rate: float, start: list[np.ndarray], steps: int) -> list[Any]:
    """The networks after a compiled loop of steps."""
    points, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)
    return jax.block_until_ready(_compiled(net, points, labels, rate, start, steps))


@partial(jax.jit, static_argnums=0)
def _compiled(net: MLP, X: Any, y: Any, rate: Any, start: Any, steps: Any) -> Any:
    def function(params: Any) -> Any:
        x = X
        for layer, (w, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
            x = jax.nn.silu(x) if layer else x
            x = net.sigma_w / w.shape[1] ** 0.5 * (x @ w.T) + net.sigma_b * b
        return x

    def one(y: Any, params: Any) -> Any:
        slopes = jax.grad(lambda params: 0.5 * jnp.sum((function(params) - y) ** 2))

        def step(_: Any, params: Any) -> Any:
            return jax.tree.map(lambda a, slope: a - rate * slope, params, slopes(params))

        return lax.fori_loop(0, steps, step, params)

    return jax.vmap(one)(y, start)
