"""The backend's nonlinearities, against those of the kernels; exp and tanh, against NumPy's in extended precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rndlib.activations import ACTIVATIONS, NUMPY
from rndlib.training.backends.jax import activations
from rndlib.training.backends.jax.activations import value_and_slope
from rndlib.training.backends.jax.precision import in_float64

Z = np.concatenate([np.linspace(-40, 40, 4001), [0.0, -0.0, 1e-300, -1e-8, 400.0, -400.0, 1e3, -1e3, 1e15, -1e15]])
EPS = np.finfo(float).eps


def slope_of(name, z):
    """By complex steps, which overflow far out: beyond 40 all slopes but sin's are constant."""
    return ACTIVATIONS[name].value_and_slope(z if name == "sin" else np.clip(z, -40, 40))[1]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("compiled", [False, True])
@in_float64
def test_those_of_the_kernels(name, compiled):
    function = value_and_slope(name)
    value, slope = (jax.jit(function) if compiled else function)(jnp.asarray(Z))
    # A few roundings of the value; the slopes of silu and gelu pass through a term as large as |z| near its decay.
    np.testing.assert_allclose(value, ACTIVATIONS[name](Z, NUMPY), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(slope, slope_of(name, Z), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_single_precision(name):
    """What `dtype="float32"` evaluates: within a few roundings of 6e-8, and finite wherever float32 is."""
    z = np.append(Z, [3e38, -3e38]).astype(np.float32)
    value, slope = (np.asarray(part, float) for part in value_and_slope(name)(jnp.asarray(z)))
    exact = z.astype(float)
    np.testing.assert_allclose(value, ACTIVATIONS[name](exact, NUMPY), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(slope, slope_of(name, exact), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "z"),
    [
        ("exp", np.linspace(-700, 700, 200_001)),
        ("tanh", np.concatenate([np.linspace(-25, 25, 200_001), *(s * np.geomspace(1e-300, 1, 999) for s in (1, -1))])),
    ],
)
@in_float64
def test_within_four_roundings(name, z):
    exact = getattr(np, name)(z.astype(np.longdouble))
    found = np.asarray(jax.jit(getattr(activations, name))(jnp.asarray(z)))
    assert (np.abs(found - exact) <= 4 * EPS * np.abs(exact)).all()


@in_float64
def test_beyond_the_range():
    far = jnp.array([-jnp.inf, -1e300, 1e300, jnp.inf, jnp.nan])
    low, _, _, high, lost = np.asarray(jax.jit(activations.exp)(far))
    assert 0 <= low < 1e-300
    assert high > 1e300
    assert np.isnan(lost)
    np.testing.assert_array_equal(jax.jit(activations.tanh)(far), [-1, -1, 1, 1, np.nan])


@pytest.mark.parametrize("name", ["exp", "tanh"])
@in_float64
def test_derivatives(name):
    z = jnp.linspace(-3, 3, 13)
    _, ours = jax.jvp(getattr(activations, name), (z,), (jnp.ones_like(z),))
    _, theirs = jax.jvp(getattr(jnp, name), (z,), (jnp.ones_like(z),))
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)
