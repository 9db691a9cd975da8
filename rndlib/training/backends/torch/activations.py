"""The nonlinearities of Eq. 1 with their derivatives, in PyTorch's own vectorised functions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from rndlib.activations import ACTIVATIONS, NUMPY, Activation, Functions
from rndlib.training.backends.activations import VALUE_AND_SLOPE

Value = Callable[[Tensor], Tensor]
ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]

VALUE: dict[str, Value] = {"silu": silu, "relu": torch.relu, "gelu": gelu}
"""PyTorch's own functions, by registered name, whose backward pass is one operation."""


def _of_tensors(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """A function of two tensors, for a tensor and a number as well."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        return function(*(torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in (a, b)))

    return call


_OWN = {name: _of_tensors(getattr(torch, name)) for name in ("logaddexp", "maximum", "minimum")}
FUNCTIONS = Functions(
    library="PyTorch", **{name: _OWN.get(name) or getattr(torch, name) for name in vars(NUMPY) if name != "library"}
)


def value(activation: str | Activation) -> Value:
    """phi, differentiable by autograd."""
    if isinstance(activation, str):
        if activation in VALUE:
            return VALUE[activation]
        activation = ACTIVATIONS[activation]
    return lambda z: activation(z, FUNCTIONS)


def value_and_slope(activation: str | Activation) -> ValueAndSlope:
    """phi and phi' together.

    An activation without a fused form is differentiated backward, which is correct because it is elementwise: on its
    first call `torch.func.jvp` loads decompositions for seconds.
    """
    if isinstance(activation, str) and activation in VALUE_AND_SLOPE:
        both = VALUE_AND_SLOPE[activation]
        return lambda z: both(z, FUNCTIONS)
    phi = value(activation)

    def differentiated(z: Tensor) -> tuple[Tensor, Tensor]:
        out, pull_back, *_ = torch.func.vjp(phi, z)
        return out, pull_back(torch.ones_like(out))[0]

    return differentiated
