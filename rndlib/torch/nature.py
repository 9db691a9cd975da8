"""The convolutional network that agents on Atari use (Mnih et al., 2015), in the parametrisation of Eq. 1."""

from collections.abc import Callable, Iterable
from functools import partial
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from rndlib import checks
from rndlib.activations import ACTIVATIONS, Activation, named
from rndlib.torch.normalise import shape
from rndlib.training.backends.torch.activations import value

_CONVOLUTIONS = (32, 8, 4), (64, 4, 2), (64, 3, 1)  # channels, side of the kernel, stride
_UNITS = 512


class Affine(nn.Module):
    """`sigma_b b + sigma_w / sqrt(fan_in) w x`, with weights and biases drawn from N(0, 1).

    With a stride it is a convolution, whose fan-in is its input channels times the area of its kernel.
    """

    def __init__(self, *sizes: int, stride: int | None, sigma_w: float, sigma_b: float):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(sizes)), nn.Parameter(torch.randn(sizes[0]))
        self.stride, self.sigma_w, self.sigma_b = stride, sigma_w, sigma_b

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        w, b = self.sigma_w / sqrt(self.weight[0].numel()) * self.weight, self.sigma_b * self.bias
        return linear(x.flatten(1), w, b) if self.stride is None else conv2d(x, w, b, self.stride)


class NatureCNN(nn.Module):
    """Three convolutions and a hidden layer, for images (channels, height, width); `nature_cnn` builds it."""

    def __init__(
        self,
        obs_shape: tuple[int, int, int],
        outputs: int,
        *,
        widen: int,
        activation: str | Activation,
        sigma_w: float,
        sigma_b: float,
    ):
        super().__init__()
        self.activation = activation
        affine = partial(Affine, sigma_w=sigma_w, sigma_b=sigma_b)
        channels, *sides = obs_shape
        self.layers = nn.ModuleList()
        for out, kernel, stride in _CONVOLUTIONS:
            self.layers.append(affine(widen * out, channels, kernel, kernel, stride=stride))
            channels, sides = widen * out, _after(sides, kernel, stride)
        self.layers.append(affine(widen * _UNITS, channels * sides[0] * sides[1], stride=None))
        self.layers.append(affine(outputs, widen * _UNITS, stride=None))

    def forward(self, obs: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch outputs"]:
        phi, x = value(self.activation), obs
        *hidden, last = self.layers
        for layer in hidden:
            x = phi(layer(x))
        return last(x)

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


def nature_cnn(
    obs_shape: Iterable[int],
    *,
    widen: int = 1,
    activation: str | Activation = "relu",
    sigma_w: float = sqrt(2),
    sigma_b: float = 0.1,
) -> Callable[[int], NatureCNN]:
    """A function from a number of outputs to a new network, for `RNDBonus(obs_shape, network=...)` and for `Module`.

    The network has convolutions of 32, 64 and 64 channels (8 by 8 pixels in steps of 4, 4 by 4 in steps of 2, 3 by 3)
    and a layer of 512 units (Mnih et al., 2015), in the paper's parametrisation. Its weights come from PyTorch's
    generator. They start from N(0, 1), so `Module(nature_cnn(...), scales=1.0)` need not measure it.

    Parameters
    ----------
    obs_shape: (channels, height, width) of an image, of 36 by 36 pixels at least, such as (4, 84, 84).
    widen: Factor on all channels and units, >= 1. The theorems hold as it grows.
    activation, sigma_b: As in `MLP`.
    sigma_w: As in `MLP`; with sqrt(2), relu keeps the scale of a signal from layer to layer.

    Raises
    ------
    ValueError: An argument is out of range, or the image is too small.

    >>> import torch
    >>> from rndlib.torch import nature_cnn
    >>> build = nature_cnn((4, 84, 84))
    >>> build(64)(torch.zeros(2, 4, 84, 84)).shape
    torch.Size([2, 64])
    """
    sizes = shape(obs_shape)
    if len(sizes) != 3:
        raise ValueError(f"obs_shape = {sizes}: give (channels, height, width), such as (4, 84, 84)")
    sides = list(sizes[1:])
    for _, kernel, stride in _CONVOLUTIONS:
        sides = _after(sides, kernel, stride)
    if min(sides) < 1:
        raise ValueError(f"obs_shape = {sizes}: give images of 36 by 36 pixels at least, channels first")
    activation = named(activation)
    if not isinstance(activation, Activation):
        checks.choice("activation", activation, ACTIVATIONS)
    return partial(
        NatureCNN,
        sizes,
        widen=checks.whole("widen", widen, at_least=1),
        activation=activation,
        sigma_w=checks.positive("sigma_w", sigma_w),
        sigma_b=checks.non_negative("sigma_b", sigma_b),
    )


def _after(sides: list[int], kernel: int, stride: int) -> list[int]:
    """Height and width of an image after a convolution without padding."""
    return [(side - kernel) // stride + 1 for side in sides]
