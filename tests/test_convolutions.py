"""Products of patches against JAX's own convolutions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from rndlib.training.backends.jax import convolutions
from rndlib.training.backends.jax.precision import in_float64

LAYOUTS = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("HNCW", "WOIH", "CWNH")]
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))
EDGES = st.tuples(st.integers(-1, 2), st.integers(-1, 2))


def drawn(seed, layout, window):
    sizes = {"N": 2, "C": 3, "H": 9, "W": 8}, {"O": 4, "I": 3, "H": window[0], "W": window[1]}
    generator = np.random.default_rng(seed)
    return [generator.normal(size=[size[axis] for axis in axes]) for size, axes in zip(sizes, layout[:2], strict=True)]


def steps(function, *values):
    return [step.primitive.name for step in jax.make_jaxpr(function)(*values).eqns]


@given(
    layout=st.sampled_from(LAYOUTS),
    window=PAIRS,
    strides=PAIRS,
    padding=st.one_of(st.tuples(EDGES, EDGES), st.sampled_from(["SAME", "VALID"])),
    apart=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    spread=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
@settings(max_examples=25, deadline=None)
@in_float64
def test_products_are_convolutions_and_have_their_derivatives(layout, window, strides, padding, apart, spread):
    x, w = drawn(sum(window), layout, window)
    if isinstance(padding, str):
        spread = (1, 1)  # as JAX asks

    def native(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, spread, apart, layout)

    replaced = convolutions.by_products(native)
    assert "conv_general_dilated" not in steps(replaced, x, w)
    expected, pull_back = jax.vjp(native, x, w)
    found, own_pull_back = jax.vjp(replaced, x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    v = np.random.default_rng(0).normal(size=expected.shape)
    for a, b in zip(own_pull_back(v), pull_back(v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_what_is_called_inside_is_replaced_and_results_keep_their_form():
    x, w = (a.astype(np.float32) for a in drawn(0, LAYOUTS[0], (2, 2)))

    @jax.jit
    def inner(x, w):
        return lax.conv(x, w, (1, 1), "SAME")

    def function(given):
        return {"out": jax.nn.relu(inner(*given["in"])), "more": (given["in"][0].sum(),)}

    found, expected = (of({"in": (x, w)}) for of in (convolutions.by_products(function), function))
    assert found["out"].dtype == jnp.float32
    assert "conv_general_dilated" not in steps(convolutions.by_products(function), {"in": (x, w)})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, expected)


@pytest.mark.parametrize("groups", ["feature_group_count", "batch_group_count"])
def test_convolutions_in_groups_stay(groups):
    more: Any = {groups: 2}
    images = np.ones((2, 1, 3, 3) if groups == "batch_group_count" else (1, 2, 3, 3), np.float32)

    def function(x):
        return lax.conv_general_dilated(x, jnp.ones((2, 1, 2, 2)), (1, 1), "SAME", **more)

    replaced = convolutions.by_products(function)
    assert "conv_general_dilated" in steps(replaced, images)
    np.testing.assert_array_equal(replaced(images), function(images))


def test_convolutions_stay_where_a_device_has_fast_ones(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    x, w = drawn(0, LAYOUTS[0], (2, 2))
    assert "conv_general_dilated" in steps(convolutions.by_products(lambda x, w: lax.conv(x, w, (1, 1), "SAME")), x, w)
