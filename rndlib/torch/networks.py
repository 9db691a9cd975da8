"""Networks for a bonus: those of Eq. 1 as PyTorch modules, an MLP or for images, and independent draws of any."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from math import prod, sqrt

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import conv2d

from rndlib import checks
from rndlib.activations import ACTIVATIONS, Activation, named
from rndlib.any_network import spawned
from rndlib.network import MLP
from rndlib.torch.module import Module
from rndlib.torch.observations import shape
from rndlib.training.backends.torch import value
from rndlib.training.weights import Role, draw

_CONVOLUTIONS = (32, 8, 4), (64, 4, 2), (64, 3, 1)  # channels, side of the kernel, stride
_UNITS = 512


class Affine(nn.Module):
    """`sigma_b b + sigma_w / sqrt(fan_in) w x`, with weights and biases drawn from N(0, 1).

    With a stride it is a convolution, whose fan-in is its input channels times the area of its kernel.
    """

    def __init__(self, *sizes: int, sigma_w: float, sigma_b: float, stride: int | None = None):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(sizes)), nn.Parameter(torch.randn(sizes[0]))
        self.scale, self.sigma_b, self.stride = sigma_w / sqrt(prod(sizes[1:])), sigma_b, stride

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        if self.stride is None:
            return torch.addmm(self.bias, x.flatten(1), self.weight.mT, beta=self.sigma_b, alpha=self.scale)
        return conv2d(x, self.scale * self.weight, self.sigma_b * self.bias, self.stride)


class Nonlinearity(nn.Module):
    """The activation of Eq. 1, by name or as an `Activation`."""

    def __init__(self, activation: str | Activation):
        super().__init__()
        self.activation = activation

    def forward(self, z: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        return value(self.activation)(z)


class Bodies(nn.ModuleList):
    """Independent networks, with the outputs of one after the other, multiplied by a number."""

    def __init__(self, networks: Iterable[nn.Module], output_scale: float = 1.0):
        super().__init__(networks)
        self.output_scale = output_scale

    def forward(self, obs: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch outputs"]:
        outputs = [network(obs) for network in self]
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)
        return joined if self.output_scale == 1 else self.output_scale * joined


def drawn(net: MLP | Module, heads: int, bodies: int, seed: int, role: Role, dtype: torch.dtype | None) -> Bodies:
    """The initial networks of `RND(net, heads, bodies, seed)` in one role; dtype None for that of the networks."""
    heads, bodies = checks.whole("heads", heads, at_least=1), checks.whole("bodies", bodies, at_least=1)
    checks.whole("seed", seed, at_least=0)
    if isinstance(net, Module):
        seeds = (spawned(seed, int(role), body) for body in range(bodies))  # those of `rndlib.training.weights.draw`
        return Bodies((net._built(heads, seed).to(dtype) for seed in seeds), net.output_scale or 1.0)
    with torch.device("meta"):  # weights that are replaced need not be drawn, nor touch PyTorch's generator
        networks = Bodies(_mlp(net, heads) for _ in range(bodies))
    layers = draw(net, heads, seed, role, range(bodies))
    weights = (a[body] for body in range(bodies) for layer in layers for a in layer)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    named_weights = zip(networks.state_dict(), weights, strict=True)
    networks.load_state_dict({name: torch.tensor(a, dtype=dtype) for name, a in named_weights}, assign=True)
    return networks


def _mlp(net: MLP, heads: int) -> nn.Sequential:
    """The network of Eq. 1, of observations (batch, ...) that are flattened to `in_dim` numbers."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise([net.in_dim, *[net.width] * (net.depth - 1), heads]):
        layers += [Affine(fan_out, fan_in, sigma_w=net.sigma_w, sigma_b=net.sigma_b), Nonlinearity(net.activation)]
    return nn.Sequential(*layers[:-1])


def nature_cnn(
    obs_shape: Iterable[int],
    *,
    widen: int = 1,
    activation: str | Activation = "relu",
    sigma_w: float = sqrt(2),
    sigma_b: float = 0.1,
) -> Callable[[int], nn.Sequential]:
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
    channels, *sides = sizes
    checks.whole("widen", widen, at_least=1)
    convolutions = []  # the sizes of their weights, with their strides
    for out, kernel, stride in _CONVOLUTIONS:
        convolutions.append(((widen * out, channels, kernel, kernel), stride))
        channels, sides = widen * out, [(side - kernel) // stride + 1 for side in sides]
    if min(sides) < 1:
        raise ValueError(f"obs_shape = {sizes}: give images of 36 by 36 pixels at least, channels first")
    activation = named(activation)
    if not isinstance(activation, Activation):
        checks.choice("activation", activation, ACTIVATIONS)
    scales = {
        "sigma_w": checks.positive("sigma_w", sigma_w),
        "sigma_b": checks.non_negative("sigma_b", sigma_b),
    }
    return partial(_cnn, convolutions, (widen * _UNITS, channels * prod(sides)), activation, scales)


def _cnn(convolutions: list, hidden: tuple[int, int], activation: str | Activation, scales: dict, outputs: int):
    layers = [*convolutions, (hidden, None), ((outputs, hidden[0]), None)]
    each = [
        part for sizes, stride in layers for part in (Affine(*sizes, stride=stride, **scales), Nonlinearity(activation))
    ]
    return nn.Sequential(*each[:-1])
