"""Tangent kernels from factors of derivatives, against whole Jacobians by JAX's own differentiation."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rndlib.factors import at_once, formed, least, product, sizes
from rndlib.training.backends.jax import factors as module
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.traced import Traced

N, HEADS = 5, 2
NCHW, NHWC = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")


def dense(p, x):
    """Weights on either side, reshaped, turned, scaled and shifted."""
    h = jax.nn.relu((0.7 * p["a"].reshape(6, 4)[::-1].T @ x.reshape(len(x), 6).T).T / 3 + p["bias"])
    return jnp.tanh(h) @ (-p["b"].T / jnp.sqrt(4.0))


def images(numbers, p, x, **given):
    channels = numbers[2].index("C")
    x = jnp.moveaxis(x.reshape(len(x), 2, 3, 1), 3, channels)
    x = lax.conv_general_dilated(x, p["a"], (1, 1), "SAME", dimension_numbers=numbers, **given)
    x = jnp.tanh(2 * x)
    x = lax.conv_general_dilated(x, p["b"], (2, 1), [(1, 0), (0, 1)], (1, 2), (2, 1), numbers)
    return x.sum([axis for axis in (1, 2, 3) if axis != channels]) @ p["c"]


def patches(p, x):
    """A product at each of three positions, which have weights as well, and one that mixes the positions."""
    tokens = jax.nn.silu(x.reshape(len(x), 3, 2) @ p["a"] + p["places"])
    mixed = jnp.einsum("nsc,st->ntc", tokens, p["mix"])
    return mixed.reshape(len(x), -1) @ p["b"]


def attention(p, x):
    tokens = norm(p["norm"], x.reshape(len(x), 3, 2) @ p["in"])
    q, k, v = (jnp.einsum("nsc,chd->nhsd", tokens, p[name]) for name in "qkv")
    weights = jax.nn.softmax(jnp.einsum("nhsd,nhtd->nhst", q, k))
    out = tokens + jnp.einsum("nhst,nhtd,hdc->nsc", weights, v, p["out"])
    return norm(p["norm"], out).mean(1) @ p["b"]


def norm(gain, x):
    """A layer norm, whose gain is used twice."""
    return gain * (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-3)


def shared(p, x):
    """One matrix used twice, one cut in two, one times another, one in a loop, and one that is not used at all."""
    h = jnp.sin(jnp.sin(x @ p["twice"]) @ p["twice"])
    h = h @ (p["left"] @ p["right"]) * (1 + h @ p["cut"][:, :6]) + h @ p["cut"][:, 6:]
    h, _ = lax.scan(lambda h, _: (jnp.tanh(h @ p["loop"]), None), h, length=2)
    return h @ p["b"]


def scaled_by_data(p, x):
    return jax.vmap(lambda x: jnp.tanh(x @ (p["a"] * x.mean())) @ p["b"])(x)


NETWORKS = {
    # The function, the shapes of its tensors, and those that have factors.
    "dense": (dense, {"a": (4, 6), "bias": (4,), "b": (HEADS, 4)}, "a b"),
    "channels first": (partial(images, NCHW), {"a": (3, 1, 2, 2), "b": (4, 3, 2, 2), "c": (4, HEADS)}, "a b c"),
    "channels last": (partial(images, NHWC), {"a": (2, 2, 1, 3), "b": (2, 2, 3, 4), "c": (4, HEADS)}, "a b c"),
    "patches": (patches, {"a": (2, 4), "places": (3, 4), "mix": (3, 5), "b": (20, HEADS)}, "a mix b"),
    "attention": (
        attention,
        {"in": (2, 6), "norm": (6,), **dict.fromkeys("qkv", (6, 2, 3)), "out": (2, 3, 6), "b": (6, HEADS)},
        "in q k v out b",
    ),
    "shared": (
        shared,
        {
            "twice": (6, 6),
            "left": (6, 2),
            "right": (2, 6),
            "cut": (6, 12),
            "loop": (6, 6),
            "idle": (3,),
            "b": (6, HEADS),
        },
        "b",
    ),
    "scaled by data": (scaled_by_data, {"a": (6, 4), "b": (4, HEADS)}, "b"),
}


def drawn(name):
    function, shapes, expected = NETWORKS[name]
    generator = np.random.default_rng(len(name))
    params = {key: generator.normal(size=shape) for key, shape in shapes.items()}
    return function, params, generator.normal(size=(N, 6)), expected.split()


def jacobian(function, params, X, of=None):
    """The Jacobian over all tensors, or over those named in `of`: (N heads, weights)."""
    chosen = {key: a for key, a in params.items() if of is None or key in of}
    # Compiled of arguments: what has none is computed by the compiler of jaxlib 0.5, some of it wrongly.
    blocks = jax.jit(jax.jacrev(lambda chosen, params, X: function({**params, **chosen}, X)))(chosen, params, X)
    return np.concatenate([np.asarray(block).reshape(N * HEADS, -1) for block in jax.tree.leaves(blocks)], axis=1)


@pytest.mark.parametrize("keep", [True, False], ids=["factors", "the shorter"])
@pytest.mark.parametrize("name", NETWORKS)
@in_float64
def test_products_of_factors_are_those_of_jacobians(name, keep, monkeypatch):
    function, params, X, expected = drawn(name)
    if keep:
        monkeypatch.setattr(module, "shorter", lambda a, d: (a, d))
    factors = jax.jit(partial(module.factors, function))
    found = factors(params, X)
    if keep:
        assert {key for key, (a, _) in zip(sorted(params), found, strict=True) if a is not None} == set(expected)
    J = jacobian(function, params, X)
    among = sum(product(one, one) for one in found)
    # Sums of some hundred products of numbers of order 1 to 10.
    np.testing.assert_allclose(np.reshape(among, (N * HEADS, -1)), J @ J.T, rtol=1e-11, atol=1e-11)
    some = factors(params, X[1:3])
    across = sum(map(product, some, found))
    np.testing.assert_allclose(np.reshape(across, (2 * HEADS, -1)), J[HEADS : 3 * HEADS] @ J.T, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("groups", ["feature_group_count", "batch_group_count"])
@in_float64
def test_convolutions_in_groups_are_formed(groups):
    given: Any = {groups: 2}

    def function(p, x):
        x = x.reshape(len(x) * (2 if groups == "batch_group_count" else 1), -1, 1, 3)
        out = lax.conv_general_dilated(x, p, (1, 1), "SAME", dimension_numbers=NCHW, **given)
        return out.reshape(len(out), HEADS, -1).sum(2)

    X = np.random.default_rng(0).normal(size=(N, 6))
    p = np.random.default_rng(1).normal(size=(HEADS, 1, 1, 2))
    ((a, d),) = module.factors(function, p, X[:1])
    assert a is None
    J = np.concatenate([jax.jacrev(function)(p, x[None]).reshape(HEADS, -1) for x in X[:1]])
    np.testing.assert_allclose(product((a, d), (a, d)).reshape(HEADS, HEADS), J @ J.T, rtol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
@in_float64
def test_a_traced_network_forms_its_kernel_of_factors(name):
    function, params, X, _ = drawn(name)
    names = [*sorted(set(params) - {"b"}), "b"]

    def by_layers(layers, X):
        return function({key: a for key, (a,) in zip(names, layers, strict=True)}, X)

    @jax.jit
    def both(layers, X):
        traced = Traced(by_layers, layers, X)
        return traced.kernel_matrix(), traced.last_layer_gram()

    whole, last = both([(params[key],) for key in names], X)
    J = jacobian(function, params, X)
    alone = jacobian(function, params, X, "b")[::HEADS]
    np.testing.assert_allclose(whole, J @ J.T, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(last, alone @ alone.T, rtol=1e-11, atol=1e-11)


def test_so_many_points_at_once_as_memory_holds():
    dense, small = (np.ones((1, 2, 30)), np.ones((1, 1, 2, 20))), formed(np.ones((1, 9)), 1, 1)
    one = sizes([dense, small])
    assert least(one) == 2 * (60 + 40 + 9)
    assert [at_once(one, least(one) + k) for k in (-1, 0)] == [0, 1]
    assert at_once(one, 10 * least(one)) == 10
    pairs = 2 * (100 * 2) ** 2  # of 100 points at two positions each
    assert at_once(sizes([(np.ones((1, 2, 1)), np.ones((1, 1, 2, 1)))]), pairs) == 100
