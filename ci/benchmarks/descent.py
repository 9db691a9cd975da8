"""Gradient descent as users of PyTorch and of JAX would write it, and how many steps of it training takes.

All minimise 1/2 ||f(X) - y||^2 by full batches in float32. Networks are lists of arrays (bodies, ...), labels are
(bodies, N, heads), and what comes back are the trained networks.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from benchmarks.case import Row, Way
from rndlib import MLP, kernels

ACCURACY = 1e-2
"""Distance of the test function from the converged one, relative to its norm, at which descent is done."""

FEW = 8
"""Networks that a peer which trains one after the other is timed on; its seconds are scaled to all of them."""

Arrays = list[np.ndarray]


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


def ways(net: MLP, X: np.ndarray, X_test: np.ndarray, y: np.ndarray, error: np.ndarray, work: int) -> dict[str, Way]:
    """Every peer, timed on as many steps as go through about `work` numbers. `error` is that of `needed`."""
    prior = kernels.diagonal(net, X_test).nngp
    steps, rate = needed(kernels.kernel(net, X), kernels.kernel(net, X_test, X), prior, error)
    bodies, n_samples, heads = y.shape
    start = drawn(net, heads, bodies)
    numbers = sum(a[0].size for a in start) + n_samples * ((net.depth - 1) * net.width + heads)
    found = {}
    for name, train in PEERS.items():
        count = bodies if "vmap" in name else min(bodies, FEW)
        timed = max(1, min(steps, work // (numbers * count)))
        call = partial(train, net, X, y[:count], rate, [a[:count] for a in start], timed)
        found[name] = Way(call, steps / timed * bodies / count, known(steps, timed, count))
    return found


def known(steps: int, timed: int, networks: int) -> Row:
    """The columns of a row of descent."""
    return {"steps": steps, "timed": f"{timed} steps of {networks} network{'s' * (networks > 1)}"}


def drawn(net: MLP, heads: int, bodies: int) -> Arrays:
    """Networks with every weight and bias from N(0, 1)."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((bodies, *shape)).astype(np.float32) for shape in shapes(net, heads)]


def shapes(net: MLP, heads: int) -> list[tuple[int, ...]]:
    """Of the weights and biases, layer by layer, in the parametrisation of Eq. 1."""
    sizes = [net.in_dim, *[net.width] * (net.depth - 1), heads]
    return [shape for into, out in pairwise(sizes) for shape in ((out, into), (out,))]


def function(net: MLP, silu: Callable[[Any], Any], params: Any, x: Any) -> Any:
    """The outputs (N, heads) of one network at x (N, in_dim), by JAX or PyTorch."""
    for layer, (w, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
        x = silu(x) if layer else x
        x = net.sigma_w / w.shape[1] ** 0.5 * (x @ w.T) + net.sigma_b * b
    return x


def torch_steps(outputs: Callable[[Any, Any], Any], params: Any, X: Any, y: Any, rate: float, steps: int) -> None:
    """Train one network in place: its loop, with one optimiser."""
    optimiser = torch.optim.SGD(params, rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = 0.5 * ((outputs(params, X) - y) ** 2).sum()
        loss.backward()
        optimiser.step()


def with_torch(net: MLP, X: np.ndarray, y: np.ndarray, rate: float, start: Arrays, steps: int) -> Arrays:
    """One network after the other."""
    outputs, points = partial(function, net, torch.nn.functional.silu), torch.tensor(X, dtype=torch.float32)
    bodies = [[torch.tensor(a[body], requires_grad=True) for a in start] for body in range(len(y))]
    for params, labels in zip(bodies, torch.tensor(y, dtype=torch.float32), strict=True):
        torch_steps(outputs, params, points, labels, rate, steps)
    return [np.stack([a.detach().numpy() for a in each]) for each in zip(*bodies, strict=True)]


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(over: Any, net: MLP, X: Any, y: Any, rate: Any, start: Any, steps: Any) -> Any:
    def loss(params: Any, y: Any) -> Any:
        return 0.5 * jnp.sum((function(net, jax.nn.silu, params, X) - y) ** 2)

    def step(y: Any, _: Any, params: Any) -> Any:
        return jax.tree.map(lambda a, slope: a - rate * slope, params, jax.grad(loss)(params, y))

    return over(lambda one: lax.fori_loop(0, steps, partial(step, one[0]), one[1]), (y, start))


def with_jax(over: Any, net: MLP, X: np.ndarray, y: np.ndarray, rate: float, start: Arrays, steps: int) -> Arrays:
    """A compiled loop of steps a network: over all networks at once, or over one after the other."""
    points, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)
    return jax.block_until_ready(_compiled(over, net, points, labels, rate, start, steps))


def _at_once(train: Callable[[Any], Any], given: Any) -> Any:
    return jax.vmap(train)(given)


PEERS: dict[str, Callable[..., Arrays]] = {
    "PyTorch loop": with_torch,
    "JAX one by one": partial(with_jax, lax.map),
    "JAX vmap": partial(with_jax, _at_once),
}
"""Ways to train many networks, by name."""
