"""Eq. 1 and its gradient flow written out independently of the library, as references for the tests."""

from collections.abc import Callable
from functools import partial
from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rndlib import MLP
from rndlib.training.backends.jax import in_float64

# What a test runs on that holds for every backend.
BACKENDS = ["jax", pytest.param("torch", marks=pytest.mark.torch)]

PHI: dict[str, Callable] = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
    "elu": jax.nn.elu,
    "leaky_relu": jax.nn.leaky_relu,
    "sin": jnp.sin,
}


def forward(net: MLP, params, X):
    """f(X; theta) of one network, (N, heads)."""
    x = X
    for layer, (w, b) in enumerate(params, start=1):
        z = net.sigma_b * b + net.sigma_w / sqrt(w.shape[1]) * x @ w.T
        x = z if layer == net.depth else PHI[str(net.activation)](z)
    return x


@in_float64
def values(net: MLP, params, X) -> np.ndarray:
    """The same with heads first, (heads, N), in float64."""
    return np.asarray(forward(net, jax.tree.map(jnp.asarray, params), jnp.asarray(X))).T


def loss(net: MLP, state, X, y, noise_std=0.0):
    """1/2 ||f(X) + noise_std xi - y||^2 of a state (parameters, xi), with xi and y (N, heads)."""
    params, xi = state
    return 0.5 * jnp.sum((forward(net, params, X) + noise_std * xi - y) ** 2)


def jacobian(net: MLP, params, X) -> np.ndarray:
    """d f(X) / d theta of one network, (N * heads, P), point-major."""
    params = jax.tree.map(jnp.asarray, params)
    blocks = jax.jacobian(lambda p: forward(net, p, X))(params)
    size = forward(net, params, X).size
    return np.concatenate([np.asarray(block).reshape(size, -1) for block in jax.tree.leaves(blocks)], axis=1)


def bayesian_target(net: MLP, params, directions, X) -> np.ndarray:
    """J_theta u(x) psi of one network by the whole Jacobian, the last layer's part of psi zero: (heads, N)."""
    psi = np.concatenate([array.ravel() for layer in directions for array in layer])
    J = in_float64(jacobian)(net, params, X).reshape(len(X), len(params[-1][1]), -1)
    return (J[:, :, : psi.size] @ psi).T


def body(params, index: int):
    """One network of a stack of them."""
    return jax.tree.map(lambda a: a[index], params)


@in_float64
def runge_kutta(net: MLP, params, X, y, time: float, noise_std: float = 0.0, xi=0.0):
    """Gradient flow of one network by the classical fourth-order method; its parameters at `time`, in float64.

    With steps of 0.3 over the largest eigenvalue of the tangent kernel at the start, a step changes the function by
    at most a third of the residual, and its error is some 0.3^5 / 120 = 2e-5 of that change. Where the flow crosses
    the kinks of relu, no method keeps its order, so there the steps are twenty times shorter.
    """
    longest = 0.015 if net.activation == "relu" else 0.3
    J = jacobian(net, params, X)
    steps = int(time * (np.linalg.norm(J @ J.T, 2) + noise_std**2) / longest) + 1
    h = time / steps

    xi = jnp.broadcast_to(jnp.asarray(xi), y.shape)
    state = jax.tree.map(jnp.asarray, params), xi
    return jax.tree.map(np.asarray, _run(net, state, X, y, noise_std, h, steps)[0])


@partial(jax.jit, static_argnames="net")
def _run(net, state, X, y, noise_std, h, steps):
    slope = jax.grad(lambda s: -loss(net, s, X, y, noise_std))

    def step(_, s):
        k1 = slope(s)
        k2 = slope(moved(s, k1, h / 2))
        k3 = slope(moved(s, k2, h / 2))
        k4 = slope(moved(s, k3, h))
        return jax.tree.map(lambda s, a, b, c, d: s + h / 6 * (a + 2 * b + 2 * c + d), s, k1, k2, k3, k4)

    return lax.fori_loop(0, steps, step, state)


def moved(state, slope, h):
    return jax.tree.map(lambda s, k: s + h * k, state, slope)


def relative(value, reference) -> float:
    """Distance of two functions over all their values, relative to the second."""
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))
