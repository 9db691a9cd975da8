"""The nonlinearities of Eq. 1 with their derivatives, in forms that XLA turns into vector instructions.

In float64 on a CPU, XLA calls the C library's scalar `exp` and `tanh` for each number. The versions here are about six
times faster and as accurate.
"""

from collections.abc import Callable
from math import factorial, log

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from rndlib.activations import ACTIVATIONS, NUMPY, Activation, Functions
from rndlib.training.backends.activations import VALUE_AND_SLOPE

ValueAndSlope = Callable[[Array], tuple[Array, Array]]

# ln 2 in two parts, the first with zeros at its end: a whole number of up to 11 bits times it is exact.
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_EXPONENT = 1.5 * 2.0**52 + 1023
"""Added to a whole number k, it puts the exponent that a float64 has for 2^k into the last bits of the sum."""


def _reduced(z: Array) -> tuple[Array, Array]:
    """(2^k, e^r - 1) with `z = k ln 2 + r`, k whole and |r| <= ln(2) / 2, for float64 z between -708 and 709."""
    z = jnp.clip(z, -708.0, 709.0)
    k = jnp.rint(z * (1 / log(2)))
    r = (z - k * _LN2_HIGH) - k * _LN2_LOW
    series = jnp.full_like(r, 1 / factorial(13))  # the remainder is below 1e-17
    for power in range(12, 0, -1):
        series = series * r + 1 / factorial(power)
    scale = lax.bitcast_convert_type(k + _EXPONENT, jnp.int64) << 52
    return lax.bitcast_convert_type(scale, jnp.float64), series * r


@jax.custom_jvp
def exp(z: Array) -> Array:
    """e^z; beyond the range of float64 its smallest or largest number."""
    if z.dtype != jnp.float64:
        return jnp.exp(z)
    scale, rest = _reduced(z)
    return scale + scale * rest


@exp.defjvp
def _exp_jvp(primals, tangents):
    value = exp(*primals)
    return value, value * tangents[0]


@jax.custom_jvp
def tanh(z: Array) -> Array:
    """tanh(z), to relative accuracy also near zero."""
    if z.dtype != jnp.float64:
        return jnp.tanh(z)
    scale, rest = _reduced(-2 * jnp.abs(z))
    less = (scale - 1) + scale * rest  # e^{-2|z|} - 1
    return -jnp.sign(z) * less / (less + 2)


@tanh.defjvp
def _tanh_jvp(primals, tangents):
    value = tanh(*primals)
    return value, (1 - value**2) * tangents[0]


def sigmoid(z: Array) -> Array:
    """1 / (1 + e^-z)."""
    # In float32 tanh is a third cheaper than exp, and as accurate.
    return 1 / (1 + exp(-z)) if z.dtype == jnp.float64 else 0.5 + 0.5 * jnp.tanh(0.5 * z)


_OWN = {"erf": jax.scipy.special.erf, "exp": exp, "sigmoid": sigmoid, "tanh": tanh}
FUNCTIONS = Functions(
    library="JAX", **{name: _OWN.get(name) or getattr(jnp, name) for name in vars(NUMPY) if name != "library"}
)


def value_and_slope(activation: str | Activation) -> ValueAndSlope:
    """phi and phi' together; the compiler drops the one that is not used."""
    if isinstance(activation, str):
        if activation in VALUE_AND_SLOPE:
            both = VALUE_AND_SLOPE[activation]
            return lambda z: both(z, FUNCTIONS)
        activation = ACTIVATIONS[activation]
    return lambda z: jax.jvp(lambda u: activation(u, FUNCTIONS), (z,), (jnp.ones_like(z),))
