"""`rndlib.jax.conv` against JAX's own convolutions, with derivatives."""

import jax
import numpy as np
import pytest
from jax import lax

from rndlib.jax import conv
from rndlib.training.backends.jax import in_float64

LAYOUTS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC")}


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("window", "strides"), [((3, 2), (1, 1)), ((1, 3), (2, 3)), ((4,), (3,)), ((2,), None)])
@in_float64
def test_products_are_convolutions_and_have_their_derivatives(window, strides, padding):
    generator = np.random.default_rng(sum(window))
    x = generator.normal(size=(2, *(9, 8)[: len(window)], 3))
    w = generator.normal(size=(*window, 3, 4))

    def native(x, w):
        layout = LAYOUTS[len(window)]
        return lax.conv_general_dilated(x, w, strides or (1,) * len(window), padding, dimension_numbers=layout)

    def loss(of):
        return lambda x, w: (of(x, w) ** 2).sum()

    np.testing.assert_allclose(conv(x, w, strides, padding), native(x, w), rtol=1e-12, atol=1e-12)
    ours, theirs = (jax.grad(loss(of), (0, 1))(x, w) for of in (lambda x, w: conv(x, w, strides, padding), native))
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
