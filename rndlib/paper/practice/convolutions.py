"""Convolutional networks for images of one channel, as a user would write them, and the kernels of infinite width.

Each has two convolutions of 3 by 3 pixels and a linear layer. They are the networks of notebook 07.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import kernels
from rndlib.jax import Function, conv
from rndlib.paper.practice.references import neural_tangents
from rndlib.torch import Module

TOGETHER = 8
"""Images of a block of the infinite kernels, which are compiled for blocks of one size."""


@cache
def in_jax(channels: int, sigma_w: float = 1.5, sigma_b: float = 0.1) -> Function:
    """Strides of 2 and a mean over positions, parametrised as in Eq. 1, for images (N, height, width, 1).

    >>> from rndlib.paper.practice import convolutions
    >>> convolutions.in_jax(channels=4)
    """
    import jax

    fan_in = [9, 9 * channels, channels]

    def init(key, outputs):
        layers = zip(jax.random.split(key, 3), fan_in, [channels, channels, outputs], strict=True)
        return [jax.random.normal(key, (n + 1, m)) for key, n, m in layers]

    def scaled(layer):
        return sigma_w / (len(layer) - 1) ** 0.5 * layer[:-1], sigma_b * layer[-1]

    def convolution(layer, x):
        weights, biases = scaled(layer)
        window = weights.reshape(3, 3, x.shape[-1], -1)
        return conv(x, window, (2, 2)) + biases

    def apply(parameters, x):
        for layer in parameters[:-1]:
            x = jax.nn.gelu(convolution(layer, x), approximate=False)
        weights, biases = scaled(parameters[-1])
        return x.mean((1, 2)) @ weights + biases

    return Function(jax.jit(init, static_argnums=1), apply, scales=1.0)


@cache
def infinite(
    sigma_w: float = 1.5, sigma_b: float = 0.1, *, second: float | None = None, flatten: bool = False, erf: bool = False
) -> Callable[[Any, Any], Any]:
    """The kernels of `in_jax` with infinitely many channels, by neural-tangents (Novak et al., 2020).

    `second` is another scale for the weights of the second convolution; `flatten` keeps the positions apart, in place
    of averaging over them; `erf` has the error function as activation, in place of GELU.
    """
    import jax
    import jax.numpy as jnp
    from jax.experimental import enable_x64

    stax = neural_tangents().stax
    layers: list[Any] = []
    for scale in (sigma_w, sigma_w if second is None else second):
        layers += [stax.Conv(1, (3, 3), (2, 2), "SAME", W_std=scale, b_std=sigma_b), stax.Erf() if erf else stax.Gelu()]
    pool = stax.Flatten() if flatten else stax.GlobalAvgPool()
    kernel = jax.jit(stax.serial(*layers, pool, stax.Dense(1, W_std=sigma_w, b_std=sigma_b))[2], static_argnums=2)

    def blocks(X):
        padded = np.concatenate([X, np.zeros((-len(X) % TOGETHER, *X.shape[1:]))])
        return [jnp.asarray(block) for block in np.split(padded, len(padded) // TOGETHER)]

    def both(X1, X2):
        with enable_x64():
            rows, columns = blocks(X1), blocks(X2)
            pairs = [[kernel(one, other, ("nngp", "ntk")) for other in columns] for one in rows]
            nngp, ntk = (
                np.block([[np.asarray(getattr(pair, part)) for pair in row] for row in pairs])[: len(X1), : len(X2)]
                for part in ("nngp", "ntk")
            )
        return kernels.Kernel(nngp, ntk)

    return both


def own_posteriors(
    kernels: Float[np.ndarray, "networks points points"], n_train: int, scale: float = 1.0
) -> Float[np.ndarray, "networks t t"]:
    """Posterior covariances at t test images, of tangent kernels at n training images and them, in this order.

    `scale` is another one of the last layer's weights, by which the kernel of a network without biases is scaled twice.
    """
    train, cross, test = (
        kernels[:, :n_train, :n_train],
        kernels[:, :n_train, n_train:],
        kernels[:, n_train:, n_train:],
    )
    return scale**2 * (test - cross.mT @ np.linalg.solve(train, cross))


@cache
def in_torch(channels: int, scales: float | None = None) -> Module:
    """A module with PyTorch's default weights and no biases, for images (N, 1, 8, 8).

    >>> from rndlib.paper.practice import convolutions
    >>> convolutions.in_torch(channels=4)
    """
    from torch import nn

    def build(outputs):
        convolutions = nn.Conv2d(1, channels, 3, 2, bias=False), nn.Conv2d(channels, channels, 3, bias=False)
        body = convolutions[0], nn.SiLU(), convolutions[1], nn.SiLU(), nn.Flatten()
        return nn.Sequential(*body, nn.Linear(channels, outputs, bias=False))

    return Module(build, scales=scales)
