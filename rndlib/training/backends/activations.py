"""Fused nonlinearities and slopes, each written once for all array libraries; faster than differentiation."""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from rndlib.activations import Functions


def _silu(z: Any, xp: Functions) -> tuple[Any, Any]:
    s = xp.sigmoid(z)
    value = z * s
    return value, s + value * (1 - s)


def _relu(z: Any, xp: Functions) -> tuple[Any, Any]:
    value = xp.maximum(z, 0.0)
    return value, xp.sign(value)


def _erf(z: Any, xp: Functions) -> tuple[Any, Any]:
    return xp.erf(z), (2 / sqrt(pi)) * xp.exp(-z * z)


def _gelu(z: Any, xp: Functions) -> tuple[Any, Any]:
    below = 0.5 * (1 + xp.erf(z * sqrt(0.5)))
    return z * below, below + z * xp.exp(-0.5 * z * z) / sqrt(2 * pi)


def _tanh(z: Any, xp: Functions) -> tuple[Any, Any]:
    value = xp.tanh(z)
    return value, 1 - value**2


VALUE_AND_SLOPE: dict[str, Callable[[Any, Functions], tuple[Any, Any]]] = {
    "silu": _silu,
    "relu": _relu,
    "erf": _erf,
    "gelu": _gelu,
    "tanh": _tanh,
}
"""phi and phi' together, by registered name."""
