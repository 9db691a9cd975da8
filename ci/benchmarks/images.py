"""A small convolutional network as users of PyTorch and of JAX would write it, and images for it."""

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from torch import nn

from rndlib import MLP
from rndlib.any_network import Weights
from rndlib.jax import Function
from rndlib.torch import Module
from rndlib.torch.networks import Affine

_NET = MLP(1)  # for its default sigma_w and sigma_b
_LAYOUT = "NCHW", "OIHW", "NCHW"


def digits(n: int, n_test: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (N, 1, 8, 8) of scikit-learn's digits, the values of their digits (N,), and images to test on."""
    from sklearn.datasets import load_digits

    rows: Any = load_digits(return_X_y=True)
    X, y = rows
    X, y = (X - X.mean()) / X.std(), (y - y.mean()) / y.std()
    X = X.reshape(-1, 1, 8, 8)
    return X[:n], y[:n], X[n : n + n_test]


def build(channels: int, outputs: int) -> nn.Module:
    """Two convolutions and an affine layer of Eq. 1; about 18 channels^2 weights."""
    affine = partial(Affine, sigma_w=_NET.sigma_w, sigma_b=_NET.sigma_b)
    first, second = affine(channels, 1, 3, 3, stride=1), affine(2 * channels, channels, 3, 3, stride=2)
    return nn.Sequential(first, nn.SiLU(), second, nn.SiLU(), affine(outputs, 8 * channels))


def module(channels: int) -> Module:
    """The network as a PyTorch module."""
    return Module(partial(build, channels), scales=1.0)


def function(channels: int) -> Function:
    """The same network as a JAX function."""
    return Function(partial(_init, channels), apply, scales=1.0)


def _init(channels: int, key: Any, outputs: int) -> Any:
    sizes = (channels, 1, 3, 3), (2 * channels, channels, 3, 3), (outputs, 8 * channels)
    shapes = [shape for size in sizes for shape in (size, size[:1])]
    return [jax.random.normal(k, shape) for k, shape in zip(jax.random.split(key, 6), shapes, strict=True)]


def parameters(weights: Weights) -> list[Any]:
    """The parameters of `apply`, from weights by name."""
    return [weights[f"[{i}]"] for i in range(6)]


def apply(params: Any, x: Any) -> Any:
    """The outputs (N, outputs) at images x."""
    *convolutions, w, b = params
    for stride, w1, b1 in zip((1, 2), convolutions[::2], convolutions[1::2], strict=True):
        z = lax.conv_general_dilated(x, w1, (stride, stride), "VALID", dimension_numbers=_LAYOUT)
        x = jax.nn.silu(_NET.sigma_w / w1[0].size ** 0.5 * z + _NET.sigma_b * b1[:, None, None])
    return _NET.sigma_w / w.shape[1] ** 0.5 * x.reshape(len(x), -1) @ w.T + _NET.sigma_b * b
