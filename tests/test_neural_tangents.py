"""The kernels against neural-tangents, which derives them independently."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from rndlib import MLP, kernels
from rndlib.paper.practice.references import neural_tangents
from rndlib.training.backends.jax import in_float64

pytestmark = pytest.mark.neural_tangents


@pytest.fixture(scope="module")
def stax():
    return neural_tangents().stax


def test_it_is_imported_without_tensorflow():
    code = """
import sys
from rndlib.paper.practice.references import EXPERIMENTAL, neural_tangents
assert neural_tangents().stax.Gelu and neural_tangents().predict
assert "tensorflow" not in sys.modules
assert EXPERIMENTAL not in sys.modules and not hasattr(neural_tangents(), "experimental")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@in_float64
def _theirs(stax, net: MLP, X1: np.ndarray, X2: np.ndarray, nonlinearity) -> tuple[np.ndarray, np.ndarray]:
    def dense(units: int):
        return stax.Dense(units, W_std=net.sigma_w, b_std=net.sigma_b, parameterization="ntk")

    hidden = [layer for _ in range(net.depth - 1) for layer in (dense(1), nonlinearity)]
    kernel_fn = stax.serial(*hidden, dense(1))[2]
    both = kernel_fn(X1, X2, ("nngp", "ntk"))
    return np.asarray(both.nngp), np.asarray(both.ntk)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("activation", ["relu", "erf", "gelu"])
def test_closed_forms_agree(stax, activation, depth):
    X1, X2 = np.random.default_rng(0).standard_normal((2, 12, 3))
    net = MLP(3, depth=depth, activation=activation, sigma_w=1.7, sigma_b=0.3)
    nonlinearity = {"relu": stax.Relu(), "erf": stax.Erf(), "gelu": stax.Gelu()}[activation]
    nngp, ntk = _theirs(stax, net, X1, X2, nonlinearity)
    ours = kernels.kernel(net, X1, X2)
    # Both are in float64; a few hundred roundings a layer.
    np.testing.assert_allclose(ours.nngp, nngp, rtol=0, atol=1e-12 * np.abs(nngp).max())
    np.testing.assert_allclose(ours.ntk, ntk, rtol=0, atol=1e-12 * np.abs(ntk).max())


def test_its_quadrature_approaches_the_silu_kernel(stax):
    """`ElementwiseNumerical` has no closed form to go by: its error is its own and falls with its degree."""
    import jax

    X1, X2 = np.random.default_rng(1).standard_normal((2, 6, 3))
    net = MLP(3, depth=2, activation="silu", sigma_w=1.5, sigma_b=0.1)
    ours = kernels.kernel(net, X1, X2).ntk
    with warnings.catch_warnings():  # it warns about missing derivatives of the quadrature
        warnings.simplefilter("ignore")
        errors = [
            np.abs(_theirs(stax, net, X1, X2, stax.ElementwiseNumerical(jax.nn.silu, deg=degree))[1] - ours).max()
            for degree in (10, 25, 100)
        ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5 < errors[0]
