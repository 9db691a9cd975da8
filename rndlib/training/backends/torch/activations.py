"""The nonlinearities of Eq. 1 with their derivatives, in PyTorch's own vectorised functions."""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from rndlib.activations import ACTIVATIONS, Activation, Functions

Value = Callable[[Tensor], Tensor]
ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]


class Fused(NamedTuple):
    """phi, and phi together with phi'."""

    value: Value
    value_and_slope: ValueAndSlope


def _silu(z: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(z)
    value = z * s
    return value, s + value * (1 - s)


def _gelu(z: Tensor) -> tuple[Tensor, Tensor]:
    below = 0.5 * (1 + torch.erf(z * sqrt(0.5)))
    return z * below, below + z * torch.exp(-0.5 * z * z) / sqrt(2 * pi)


def _tanh(z: Tensor) -> tuple[Tensor, Tensor]:
    value = torch.tanh(z)
    return value, 1 - value**2


FUSED: dict[str, Fused] = {
    "silu": Fused(silu, _silu),
    "relu": Fused(torch.relu, lambda z: (torch.relu(z), (z > 0).to(z.dtype))),
    "erf": Fused(torch.erf, lambda z: (torch.erf(z), (2 / sqrt(pi)) * torch.exp(-z * z))),
    "gelu": Fused(gelu, _gelu),
    "tanh": Fused(torch.tanh, _tanh),
}
"""By registered name, where this is faster than the function that all libraries share and its differentiation."""


def _of_tensors(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """A function of two tensors, for a tensor and a number as well."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        return function(*(torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in (a, b)))

    return call


FUNCTIONS = Functions(
    library="PyTorch",
    abs=torch.abs,
    cos=torch.cos,
    erf=torch.erf,
    exp=torch.exp,
    expm1=torch.expm1,
    log1p=torch.log1p,
    logaddexp=_of_tensors(torch.logaddexp),
    maximum=_of_tensors(torch.maximum),
    minimum=_of_tensors(torch.minimum),
    sigmoid=torch.sigmoid,
    sign=torch.sign,
    sin=torch.sin,
    sqrt=torch.sqrt,
    tanh=torch.tanh,
    where=torch.where,
)


def value(activation: str | Activation) -> Value:
    """phi, differentiable by autograd."""
    if isinstance(activation, str):
        if activation in FUSED:
            return FUSED[activation].value
        activation = ACTIVATIONS[activation]
    return lambda z: activation(z, FUNCTIONS)


def value_and_slope(activation: str | Activation) -> ValueAndSlope:
    """phi and phi' together, as each step of training needs both.

    What has no fused form is differentiated backward, as phi is elementwise: on its first call `torch.func.jvp` loads
    decompositions for seconds, with a DeprecationWarning from PyTorch's own code.
    """
    if isinstance(activation, str) and activation in FUSED:
        return FUSED[activation].value_and_slope
    phi = value(activation)

    def both(z: Tensor) -> tuple[Tensor, Tensor]:
        out, pull_back, *_ = torch.func.vjp(phi, z)
        return out, pull_back(torch.ones_like(out))[0]

    return both
