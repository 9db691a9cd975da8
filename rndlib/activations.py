"""The named nonlinearities: their values, their derivatives, and what makes their kernels elementary.

With Phi the normal distribution function, each is a weighted sum over noise variances `a` of `2 Phi(u / sqrt a) - 1`
or of `u Phi(u / sqrt a)`: a sign, or a ramp, smoothed by Gaussian noise of variance `a`. erf and gelu are one
such term and relu is the ramp without noise; tanh and silu are mixtures (`rndlib.mixtures`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import special

from rndlib.mixtures import kolmogorov_rule

Array = Float[np.ndarray, "..."]
Terms = tuple[Float[np.ndarray, " terms"], Float[np.ndarray, " terms"]]


@dataclass(frozen=True)
class Activation:
    """A nonlinearity `phi`.

    name: as in `MLP.activation`.
    family: "sign" for `sum_a w_a (2 Phi(u / sqrt a) - 1)`, "ramp" for `sum_a w_a u Phi(u / sqrt a)`.
    value, derivative: `phi` and `phi'`, elementwise on float64 arrays of any shape; finite, and free of overflow,
        for every finite argument. relu'(0) = 0.
    mixture: returns the noise variances `a` and their weights `w_a`, which sum to 1.
    """

    name: str
    family: Literal["sign", "ramp"]
    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    mixture: Callable[[], Terms]


def _single(noise: float) -> Callable[[], Terms]:
    return lambda: (np.array([noise]), np.ones(1))


def _tanh_mixture() -> Terms:
    s, weights = kolmogorov_rule()
    return s**2, weights


def _silu_mixture() -> Terms:
    s, weights = kolmogorov_rule()
    return 4 * s**2, weights


def _bell(u: Array) -> Array:
    # exp(-u^2). Beyond 30 it is zero in float64; stopping there keeps u^2 from overflowing.
    return np.exp(-np.square(np.minimum(np.abs(u), 30.0)))


def _silu_derivative(u: Array) -> Array:
    return special.expit(u) * (1 + u * special.expit(-u))


def _gelu_derivative(u: Array) -> Array:
    return special.ndtr(u) + u * _bell(u / sqrt(2)) / sqrt(2 * pi)


def _tanh_derivative(u: Array) -> Array:
    # 1 - tanh^2 would cancel. The square of cosh overflows beyond 355; beyond 350 the result is below 1e-303.
    return 1 / np.cosh(np.minimum(np.abs(u), 350.0)) ** 2


ACTIVATIONS: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation("silu", "ramp", lambda u: u * special.expit(u), _silu_derivative, _silu_mixture),
        Activation("relu", "ramp", lambda u: np.maximum(u, 0.0), lambda u: np.where(u > 0, 1.0, 0.0), _single(0.0)),
        Activation("erf", "sign", special.erf, lambda u: 2 / sqrt(pi) * _bell(u), _single(0.5)),
        Activation("gelu", "ramp", lambda u: u * special.ndtr(u), _gelu_derivative, _single(1.0)),
        Activation("tanh", "sign", np.tanh, _tanh_derivative, _tanh_mixture),
    )
}
