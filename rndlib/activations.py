"""Nonlinearities. Each is one function that works with NumPy, JAX and PyTorch.

The function takes an array and the `Functions` of its library, `phi(u, xp)`, and uses operators on `u` and functions of
`xp`. Derivatives follow by differentiation, and kernels by quadrature (`rndlib.theory.quadrature`). Some registered
names have shortcuts: kernels in closed form (`rndlib.theory.expectations`) and fused derivatives (in the backends).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

Array = Float[np.ndarray, "*shape"]

_STEP = -1e-100  # Negative, for the slope to the left of a kink.
_NEAR = 1e-6
_PROBE = np.linspace(-8, 8, 34).reshape(2, 17)  # an even number of points, so that 0 is not among them


class Functions(SimpleNamespace):
    """The elementwise functions of one array library (`library`) that an activation may call.

    `abs`, `cos`, `erf`, `exp`, `expm1`, `log1p`, `logaddexp`, `maximum`, `minimum`, `sigmoid` (the logistic function),
    `sign`, `sin`, `sqrt`, `tanh` and `where`. `maximum`, `minimum`, `logaddexp` and `where` accept numbers besides
    arrays, but `where(condition, a, b)` needs an array as a or b.
    """

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(sorted(set(vars(self)) - {"library"}))
        raise AttributeError(f"there is no xp.{name}; there are {known}")


@dataclass(frozen=True)
class Activation:
    """A nonlinearity `phi`, for `MLP(activation=...)`.

    Parameters
    ----------
    name: Label of the activation.
    function: `phi(u, xp)`, elementwise: takes an array of any shape and the `Functions` of its library, returns an
        array of that shape. It must be finite and continuous, and smooth except at 0, where its derivative may jump. To
        pickle networks, define it at the top level of a module.

    >>> from rndlib import MLP
    >>> from rndlib.activations import Activation
    >>> mish = Activation("mish", lambda u, xp: u * xp.tanh(xp.logaddexp(u, 0.0)))
    >>> MLP(in_dim=3, activation=mish)
    MLP(in_dim=3, width=512, depth=2, activation=Activation(name='mish'), sigma_w=1.5, sigma_b=0.1)
    """

    name: str
    function: Callable[[Any, Functions], Any] = field(repr=False)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name = {self.name!r}: give a string that is not empty")
        if not callable(self.function):
            raise ValueError(f"function = {self.function!r}: give a function phi(u, xp)")
        with np.errstate(all="ignore"):
            value = self(_PROBE, NUMPY)
            if np.shape(value) != _PROBE.shape:
                raise ValueError(
                    f"function of Activation {self.name!r} maps an array of shape {_PROBE.shape} to {np.shape(value)}: "
                    "return an array of the same shape"
                )
            bad = _PROBE[~np.isfinite(value + self.value_and_slope(_PROBE)[1])]
        if bad.size:
            raise ValueError(
                f"function of Activation {self.name!r}: its value or derivative at u = {bad[0]:.3g} is not finite; "
                "mind that both branches of xp.where are evaluated"
            )
        slopes = self.value_and_slope(_PROBE)[1]
        differences = (self(_PROBE + _NEAR, NUMPY) - self(_PROBE - _NEAR, NUMPY)) / (2 * _NEAR)
        if not np.allclose(slopes, differences, rtol=0, atol=1e-3 * max(1.0, float(np.abs(slopes).max()))):
            raise ValueError(
                f"function of Activation {self.name!r} has another derivative in complex arithmetic than by "
                "differences: write it with functions of xp alone, such as xp.abs in place of abs"
            )

    def __call__(self, u: Any, xp: Functions) -> Any:
        """phi(u) for an array of the library of `xp`; a ValueError if the function fails on such an array."""
        try:
            return self.function(u, xp)
        except (AttributeError, TypeError) as error:
            raise ValueError(
                f"function of Activation {self.name!r} fails on an array of {xp.library}: {error}. Write it as "
                "phi(u, xp) with operators on u and functions of xp"
            ) from error

    def value_and_slope(self, u: Array) -> tuple[Array, Array]:
        """phi(u) and phi'(u) of a float64 array, up to rounding; at a kink, the slope to the left of it.

        The slope is the imaginary part of phi(u + ih) / h, which subtracts nothing, so h may be tiny (Squire and Trapp,
        1998).
        """
        both = self(u + _STEP * (1 + 1j), NUMPY)  # with a real part, which decides at a kink
        value = np.array(np.real(both))
        value[u == 0] = self(np.zeros(1), NUMPY)[0]
        return value, np.imag(both) / _STEP


def named(activation: str | Activation) -> str | Activation:
    """The name of a registered activation, or any other activation itself."""
    if isinstance(activation, Activation) and ACTIVATIONS.get(activation.name) == activation:
        return activation.name
    return activation


def _abs(u: Any) -> Any:
    return np.where(np.real(u) < 0, -u, u)


def _logaddexp(a: Any, b: Any) -> Any:
    below = np.real(a) < np.real(b)
    high, low = np.where(below, b, a), np.where(below, a, b)
    return high + np.log1p(np.exp(low - high))


# These also work with complex numbers, which NumPy compares by their real parts first.
NUMPY = Functions(
    library="NumPy",
    abs=_abs,
    cos=np.cos,
    erf=special.erf,
    exp=np.exp,
    expm1=np.expm1,
    log1p=np.log1p,
    logaddexp=_logaddexp,
    maximum=np.maximum,
    minimum=np.minimum,
    sigmoid=lambda u: 0.5 + 0.5 * np.tanh(0.5 * u),
    sign=lambda u: np.sign(np.real(u)),
    sin=np.sin,
    sqrt=np.sqrt,
    tanh=np.tanh,
    where=np.where,
)


ACTIVATIONS: dict[str, Activation] = {
    name: Activation(name, function)
    for name, function in {
        "silu": lambda u, xp: u * xp.sigmoid(u),
        "relu": lambda u, xp: xp.maximum(u, 0.0),
        "erf": lambda u, xp: xp.erf(u),
        "gelu": lambda u, xp: 0.5 * u * (1 + xp.erf(u * 0.5**0.5)),
        "tanh": lambda u, xp: xp.tanh(u),
        "softplus": lambda u, xp: xp.logaddexp(u, 0.0),
        # Without `minimum`, whose slope at 0 JAX and PyTorch divide between both arguments.
        "elu": lambda u, xp: xp.where(u > 0, u, xp.expm1(xp.where(u > 0, 0.0, u))),
        "leaky_relu": lambda u, xp: xp.where(u > 0, u, 0.01 * u),
        "sin": lambda u, xp: xp.sin(u),
    }.items()
}
"""Activations by the names that `MLP` takes, with the names and default constants of PyTorch if it has them."""
