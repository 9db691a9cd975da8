"""Gradient descent as a user of JAX would write it, with momentum or without, and how many steps of it training takes.

It minimises 1/2 ||f(X) - y||^2 by full batches in float32, for many networks at once. SciPy's L-BFGS takes the same
loss, one network after another.
"""

from bisect import bisect_left
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from benchmarks.case import Row, Way
from rndlib import MLP, kernels
from rndlib.training import weights

ACCURACY = 1e-2
"""Distance of the test function from the converged one, relative to its norm, at which descent is done."""

RATES = {0.0: 0.95 * 2, 0.9: 1.0}
"""Learning rate times the largest eigenvalue, by momentum: near the end of stability, 2, without one. With one, larger
rates carry the network far from the flow on its way, and it ends at another function."""

WHOLE = 10**4
"""Steps with momentum up to which all are taken, so that the networks at their end have a distance."""

GRADIENT = 0.01
"""The largest slope at which L-BFGS ends. At 0.1 it takes a half to a quarter of the time, and on 200 digits ends two
to six times as far from the flow."""


class Steps(NamedTuple):
    """How many steps descent takes, its learning rate, and its momentum."""

    number: int
    rate: float
    momentum: float = 0.0


def needed(
    train: kernels.Kernel, across: kernels.Kernel, prior: np.ndarray, error: np.ndarray, momentum: float = 0.0
) -> Steps:
    """The steps to within `ACCURACY`, at the rate of `RATES`.

    They are those of the linear model, in which k steps leave Theta_xX Theta^-1 p_k(Theta) e_0, with p_k of each
    eigenvalue p_k+1 = (1 + momentum - rate lambda) p_k - momentum p_k-1. Squares are averaged over initialisations.

    Parameters
    ----------
    train, across: kernels of the training points (N, N), and of test with training points (T, N).
    prior: NNGP at the test points (T,).
    error: second moment of e_0, the function less the labels (N, N).
    """
    values, vectors = np.linalg.eigh(train.ntk)
    rate = RATES[momentum] / values[-1]
    modes = across.ntk @ vectors / values
    gain = modes @ vectors.T
    square = np.sum(prior) - 2 * np.sum(gain * across.nngp) + np.sum((gain @ error) * gain)
    form = (modes.T @ modes) * (vectors.T @ error @ vectors)
    half = (1 + momentum - rate * values) / 2
    apart = np.sqrt(half**2 - momentum + 0j)
    roots = np.stack([half + apart, half - apart])
    # p_0 = 1 and p_1 = 1 - rate lambda.
    shares = np.stack([1 - rate * values - roots[1], roots[0] - 1 + rate * values]) / (roots[0] - roots[1])

    def done(steps: int) -> bool:
        left = (shares * roots**steps).sum(0).real
        return bool(left @ form @ left <= ACCURACY**2 * square)

    return Steps(bisect_left(range(10**9), True, key=done), rate, momentum)


def peers(
    net: MLP,
    X: np.ndarray,
    X_test: np.ndarray,
    y: np.ndarray,
    error: np.ndarray,
    work: int,
    goal: float | None = None,
) -> dict[str, Way]:
    """Descent towards labels y (bodies, N, heads), timed on as many steps as go through about `work` numbers.

    `error` is that of `needed`. With a `goal`, the ratio that is asked for, with momentum and by L-BFGS too. Ways that
    take all of their steps then return their functions at X_test. Networks start as those of `DeepEnsemble` do.
    """
    of = kernels.kernel(net, X), kernels.kernel(net, X_test, X), kernels.diagonal(net, X_test).nngp, error
    bodies, n_samples, heads = y.shape
    layers = weights.draw(net, heads, 0, weights.Role.MEMBER, range(bodies))
    start = [a.astype(np.float32) for layer in layers for a in layer]
    numbers = sum(a[0].size for a in start) + n_samples * ((net.depth - 1) * net.width + heads)
    ways = {}
    for momentum in RATES if goal else (0.0,):
        steps = needed(*of, momentum)
        affordable = WHOLE if momentum and steps.number <= WHOLE else max(1, work // (numbers * bodies))
        timed = min(steps.number, affordable)

        def functions(steps: Steps = steps, timed: int = timed) -> np.ndarray | None:
            found = trained(net, X, y, steps, start, timed)
            return values(net, found, X_test) if goal and timed == steps.number else None

        name = f"JAX, momentum {momentum}" if momentum else "JAX, descent"
        ways[name] = Way(functions, steps.number / timed, known(steps.number, timed, bodies, goal))
    if goal:
        whole = {"goal": goal, "timed": f"{bodies} networks"}
        ways["SciPy, L-BFGS"] = Way(lambda: values(net, by_lbfgs(net, X, y, start), X_test), known=whole)
    return ways


def known(steps: int, timed: int, networks: int, goal: float | None = None) -> Row:
    """The columns of a row of descent."""
    row = {"steps": steps, "timed": f"{timed} steps of {networks} network{'s' * (networks > 1)}"}
    return row if goal is None else {"goal": goal, **row}


def trained(net: MLP, X: np.ndarray, y: np.ndarray, how: Steps, start: list[np.ndarray], steps: int) -> list[Any]:
    """The networks after a compiled loop of steps."""
    points, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)
    return jax.block_until_ready(_compiled(net, bool(how.momentum), points, labels, how, start, steps))


def by_lbfgs(net: MLP, X: np.ndarray, y: np.ndarray, start: list[np.ndarray]) -> list[Any]:
    """The networks where L-BFGS finds no slope above `GRADIENT`."""
    points, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)
    found = [_by_lbfgs(net, params, points, own) for own, *params in zip(labels, *start, strict=True)]
    return [jnp.stack(layer) for layer in zip(*found, strict=True)]


def _by_lbfgs(net: MLP, params: list[np.ndarray], X: Any, y: Any) -> list[Any]:
    flat, unravel = ravel_pytree(params)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = _value_and_slopes(net, unravel(jnp.asarray(flat, jnp.float32)), X, y)
        return float(value), np.asarray(ravel_pytree(slopes)[0], float)

    options: Any = {"ftol": 0.0, "gtol": GRADIENT, "maxiter": 10**5, "maxfun": 10**5}
    end = minimize(loss, np.asarray(flat, float), jac=True, method="L-BFGS-B", options=options)
    return unravel(jnp.asarray(end.x, jnp.float32))


@partial(jax.jit, static_argnums=0)
def _value_and_slopes(net: MLP, params: Any, X: Any, y: Any) -> Any:
    return jax.value_and_grad(_loss, argnums=1)(net, params, X, y)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(net: MLP, momentum: bool, X: Any, y: Any, how: Steps, start: Any, steps: Any) -> Any:
    def one(y: Any, params: Any) -> Any:
        slopes = jax.grad(lambda params: _loss(net, params, X, y))

        def step(_: Any, state: Any) -> Any:
            params, before = state
            moved = jax.tree.map(lambda a, slope: a - how.rate * slope, params, slopes(params))
            if momentum:
                moved = jax.tree.map(lambda new, a, b: new + how.momentum * (a - b), moved, params, before)
            return moved, params if momentum else before

        return lax.fori_loop(0, steps, step, (params, params if momentum else None))[0]

    return jax.vmap(one)(y, start)


def _loss(net: MLP, params: Any, X: Any, y: Any) -> Any:
    return 0.5 * jnp.sum((_function(net, params, X) - y) ** 2)


def _function(net: MLP, params: Any, X: Any) -> Any:
    x = X
    for layer, (w, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
        x = jax.nn.silu(x) if layer else x
        x = net.sigma_w / w.shape[1] ** 0.5 * (x @ w.T) + net.sigma_b * b
    return x


def values(net: MLP, params: list[Any], X: np.ndarray) -> np.ndarray:
    """The functions of networks of one output, (bodies, N)."""
    points = jnp.asarray(X, jnp.float32)
    return np.asarray(jax.vmap(lambda own: _function(net, own, points))(params), float)[..., 0]
