"""The backends' nonlinearities and slopes against those of the kernels, and exp and tanh against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks import BACKENDS

from rndlib import MLP
from rndlib.activations import ACTIVATIONS, NUMPY
from rndlib.training import backends
from rndlib.training.backends import jax as module
from rndlib.training.backends.jax import in_float64

Z = np.concatenate([np.linspace(-40, 40, 4001), [0.0, -0.0, 1e-90, -1e-8, 400.0, -400.0, 1e3, -1e3, 1e15, -1e15]])


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_slopes(name, backend):
    lib = backends.load(backend)

    def both(lib, net, shared, own):
        return lib.value_and_slope(name, own)

    for dtype, rtol, atol in (("float64", 1e-13, 1e-14), ("float32", 2e-6, 2e-6)):
        z = Z.astype(dtype)
        with lib.settings():
            value, slope = lib.arrays(lib.each(both, MLP(1), (), lib.tensors(z[None], dtype)))
        exact = z.astype(float)
        np.testing.assert_allclose(value[0], ACTIVATIONS[name](exact, NUMPY), rtol=rtol, atol=atol)
        # By complex steps, which overflow far out: beyond 40 all slopes but sin's are constant.
        expected = ACTIVATIONS[name].value_and_slope(exact if name == "sin" else np.clip(exact, -40, 40))[1]
        np.testing.assert_allclose(slope[0], expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "far"), [("exp", 700), ("tanh", 25)])
@in_float64
def test_exp_and_tanh(name, far):
    ours, theirs, z = getattr(module, name), getattr(jnp, name), np.linspace(-far, far, 200_001)
    exact, found = getattr(np, name)(z.astype(np.longdouble)), np.asarray(jax.jit(ours)(jnp.asarray(z)))
    assert (np.abs(found - exact) <= 4 * np.finfo(float).eps * (np.abs(exact) + (name == "tanh"))).all()
    z = jnp.linspace(-3, 3, 13)
    slopes = [jax.jvp(function, (z,), (jnp.ones_like(z),))[1] for function in (ours, theirs)]
    np.testing.assert_allclose(*slopes, rtol=1e-13)
    low, high, lost = np.asarray(jax.jit(ours)(jnp.array([-jnp.inf, jnp.inf, jnp.nan])))
    assert (low, high) == (-1, 1) if name == "tanh" else 0 <= low < 1e-300 < 1e300 < high
    assert np.isnan(lost)
