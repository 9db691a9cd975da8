"""The convolutional networks of notebook 07: their parametrisation, and neural-tangents' kernels."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("neural_tangents")

from rndlib import kernels  # noqa: E402
from rndlib.paper.practice import convolutions  # noqa: E402

pytestmark = pytest.mark.neural_tangents
IMAGES = np.random.default_rng(0).standard_normal((3, 8, 8, 1))


def test_networks_are_parametrised_as_in_eq_1():
    sigma_w, sigma_b = 1.3, 0.2
    net = convolutions.in_jax(4, sigma_w, sigma_b)
    parameters, x = net.init(jax.random.key(1), 2), jax.numpy.asarray(IMAGES)
    expected = x
    for layer in parameters[:-1]:
        filters = layer[:-1].reshape(3, 3, -1, 4) * sigma_w / np.sqrt(len(layer) - 1)
        expected = jax.lax.conv_general_dilated(
            expected, filters, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
        )
        expected = jax.nn.gelu(expected + sigma_b * layer[-1], approximate=False)
    head = parameters[-1]
    expected = expected.mean((1, 2)) @ (sigma_w / 2 * head[:-1]) + sigma_b * head[-1]
    np.testing.assert_allclose(net.apply(parameters, x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.check
def test_the_infinite_kernels_are_those_that_wide_networks_tend_to():
    infinite = convolutions.infinite()(IMAGES, IMAGES)
    found = kernels.empirical(convolutions.in_jax(256), IMAGES, draws=32)
    for name in ("nngp", "ntk"):
        expected = np.asarray(getattr(infinite, name))
        assert np.linalg.norm(getattr(found, name) - expected) < 0.05 * np.linalg.norm(expected), name


def test_infinite_kernels_are_taken_block_by_block():
    images = np.random.default_rng(1).standard_normal((convolutions.TOGETHER + 3, 8, 8, 1))
    whole = convolutions.infinite()(images, IMAGES)
    assert whole.nngp.shape == whole.ntk.shape == (len(images), 3)
    part = convolutions.infinite()(images[-2:], IMAGES[1:])
    for name in ("nngp", "ntk", "body"):
        np.testing.assert_allclose(getattr(whole, name)[-2:, 1:], getattr(part, name), rtol=1e-12)


def test_networks_are_made_once():
    """So that a study compiles their programs once."""
    assert convolutions.in_jax(4) is convolutions.in_jax(4)
    assert convolutions.in_torch(4) is convolutions.in_torch(4)
    assert convolutions.infinite(flatten=True) is convolutions.infinite(flatten=True)
