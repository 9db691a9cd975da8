"""Tangent kernels of a network of the user's own, against neural-tangents and a Jacobian that is stored whole."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import images
from benchmarks.growth import alone
from benchmarks.timing import ratio, side_by_side
from rndlib import kernels
from rndlib.any_network import spawned
from rndlib.paper.practice.references import neural_tangents
from rndlib.running.costs import Row
from rndlib.training.backends.jax.precision import in_float64

REPEATS = 2
LIBRARY, WHOLE = "rndlib, Function", "jacrev, stored"
JACOBIANS, PRODUCTS = "neural-tangents, Jacobians", "neural-tangents, products"
PATCHES = f"{JACOBIANS}, of patches"
# neural-tangents' third implementation, structured derivatives, fails with the JAX that the package imports under.
WAYS = LIBRARY, "rndlib, Module", JACOBIANS, PATCHES, PRODUCTS, WHOLE


def rows(n: int, channels: int, goal: float, goal_memory: float) -> list[Row]:
    """One row per way to the kernel of one network at N images."""
    calls = {way: prepare(way, n, channels) for way in WAYS}
    found = {way: call() for way, call in calls.items()}
    times, memory = side_by_side(calls, REPEATS), {way: alone(prepare, way, n, channels).memory for way in WAYS}
    shared: Row = {"task": "its kernel", "N": n, "weights": images.function(channels).parameters(1)}
    each: list[Row] = []
    for way in WAYS:
        exact = found["rndlib, Module" if way == "rndlib, Module" else WHOLE]
        row: Row = {**shared, "by": way, "seconds": times[way].spread, "MiB": memory[way] / 2**20}
        if way != LIBRARY:
            row |= {"times rndlib's": ratio(times[way], times[LIBRARY]), "MiB, times": memory[way] / memory[LIBRARY]}
        if not way.startswith("rndlib"):
            row |= {"goal": f"{goal:g}, memory {goal_memory:g}"}
        if way not in (WHOLE, "rndlib, Module"):
            row |= {"error": float(np.abs(found[way] - exact).max() / np.abs(exact).max())}
        each.append(row)
    return each


def prepare(way: str, n: int, channels: int) -> Callable[[], np.ndarray]:
    """A call that forms the kernel (N, N) in float64, of the network that `kernels.empirical` draws first.

    For `PATCHES`, neural-tangents gets the function as rndlib computes it, without JAX's own convolutions.
    """
    X, _, _ = images.digits(n)
    if way.startswith("rndlib"):
        net = images.module(channels) if way == "rndlib, Module" else images.function(channels)
        net.examine(X)
        return lambda: kernels.empirical(net, X, draws=1).ntk
    net: Any = images.function(channels)
    drawn = net.initial(1, spawned(0, 0))
    weights = drawn if way == PATCHES else images.parameters(drawn)
    apply: Any = net.of_weights if way == PATCHES else images.apply
    if way == WHOLE:
        form: Any = jax.jit(_stored, static_argnums=0)
    else:
        nt = neural_tangents()
        kinds = nt.NtkImplementation
        form = nt.empirical_ntk_fn(
            apply,
            trace_axes=(-1,),
            vmap_axes=0,
            implementation=kinds.NTK_VECTOR_PRODUCTS if way == PRODUCTS else kinds.JACOBIAN_CONTRACTION,
        )
        return partial(_called, jax.jit(lambda weights, X: form(X, None, weights)), weights, X)
    return partial(_called, partial(form, apply), weights, X)


@in_float64
def _called(form: Callable[[Any, Any], Any], weights: Any, X: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():  # neural-tangents calls JAX in a way that it deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.asarray(form(weights, X))


def _stored(function: Any, weights: Any, X: Any) -> Any:
    J = jax.jacrev(lambda weights: function(weights, X)[:, 0])(weights)
    flat = jnp.concatenate([a.reshape(len(X), -1) for a in jax.tree.leaves(J)], axis=1)
    return flat @ flat.T
