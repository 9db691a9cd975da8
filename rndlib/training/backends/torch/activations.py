"""The nonlinearities of Eq. 1 with their derivatives, in PyTorch's own vectorised functions."""

from collections.abc import Callable
from math import pi, sqrt

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

PHI: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": silu,
    "relu": torch.relu,
    "erf": torch.erf,
    "gelu": gelu,
    "tanh": torch.tanh,
}


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


VALUE_AND_SLOPE: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "silu": _silu,
    "relu": lambda z: (torch.relu(z), (z > 0).to(z.dtype)),
    "erf": lambda z: (torch.erf(z), (2 / sqrt(pi)) * torch.exp(-z * z)),
    "gelu": _gelu,
    "tanh": _tanh,
}
"""phi and phi' together, as each step of training needs both."""
