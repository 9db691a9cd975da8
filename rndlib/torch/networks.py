"""Networks for a bonus: those of Eq. 1 in PyTorch's own layers, an MLP or for images, and independent draws of any."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from math import prod, sqrt

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rndlib import checks
from rndlib.activations import Activation
from rndlib.any_network import spawned
from rndlib.network import MLP
from rndlib.torch.module import Module
from rndlib.torch.observations import shape
from rndlib.training.backends.torch import value
from rndlib.training.weights import Role, draw

_CONVOLUTIONS = (32, 8, 4), (64, 4, 2), (64, 3, 1)  # channels, side of the kernel, stride
_UNITS = 512

Layer = tuple[tuple[int, ...], int | None]
"""The sizes of a layer's weights, (out, in) or (out, in, height, width), and the stride if it is a convolution."""


class Eq1(nn.ModuleList):
    """The network of Eq. 1 in layers of PyTorch's own: the factors of its weights, of N(0, 1), are in the weights.

    So they start from N(0, sigma_w^2 / fan_in), and biases from N(0, sigma_b^2). Without sigma_b there are no biases.
    `rndlib.torch.optimiser` lets gradient descent train them with the factors outside.
    """

    def __init__(self, layers: Sequence[Layer], activation: str | Activation, sigma_w: float, sigma_b: float):
        super().__init__()
        self.activation, self.sigma_w, self.sigma_b = activation, sigma_w, sigma_b
        for (out, fan_in, *sides), stride in layers:
            bias = sigma_b > 0
            flat = stride is None
            made = nn.Linear(fan_in, out, bias) if flat else nn.Conv2d(fan_in, out, sides[0], stride, bias=bias)
            for p in made.parameters():
                nn.init.normal_(p, std=self.scale(p))
            self.append(made)

    def forward(self, obs: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch outputs"]:
        phi = value(self.activation)
        first, *others = self
        z = first(obs.flatten(1) if isinstance(first, nn.Linear) else obs)
        for layer in others:
            z = layer(phi(z.flatten(1) if isinstance(layer, nn.Linear) else z))
        return z

    def scale(self, p: Tensor) -> float:
        """The factor of Eq. 1 that is in a tensor of weights, or of biases: its standard deviation at the start."""
        return self.sigma_b if p.ndim == 1 else self.sigma_w / sqrt(p[0].numel())


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
    sizes = [net.in_dim, *[net.width] * (net.depth - 1), heads]
    layers: list[Layer] = [((fan_out, fan_in), None) for fan_in, fan_out in pairwise(sizes)]
    with torch.device("meta"):  # weights that are replaced need not be drawn, nor touch PyTorch's generator
        each = [Eq1(layers, net.activation, net.sigma_w, net.sigma_b) for _ in range(bodies)]
    arrays = [a for layer in draw(net, heads, seed, role, range(bodies)) for a in (layer if net.sigma_b else layer[:1])]
    dtype = torch.get_default_dtype() if dtype is None else dtype
    for body, network in enumerate(each):
        named_weights = zip(network.named_parameters(), arrays, strict=True)
        state = {name: torch.tensor(network.scale(p) * a[body], dtype=dtype) for (name, p), a in named_weights}
        network.load_state_dict(state, assign=True)
    return Bodies(each)


def nature_cnn(obs_shape: Iterable[int]) -> Callable[[int], nn.Module]:
    """A function from a number of outputs to a new network, for `RNDBonus(obs_shape, network=...)` and for `Module`.

    The network has convolutions of 32, 64 and 64 channels (8 by 8 pixels in steps of 4, 4 by 4 in steps of 2, 3 by 3)
    and a layer of 512 units, all with relu (Mnih et al., 2015), and initial weights as in Eq. 1, drawn from PyTorch's
    generator: sigma_w = sqrt(2), with which relu keeps the scale of a signal from layer to layer, and sigma_b = 0.1.

    Parameters
    ----------
    obs_shape: (channels, height, width) of an image, of 36 by 36 pixels at least, such as (4, 84, 84).

    Raises
    ------
    ValueError: `obs_shape` is no such shape.

    >>> import torch
    >>> from rndlib.torch import nature_cnn
    >>> build = nature_cnn((4, 84, 84))
    >>> build(64)(torch.zeros(2, 4, 84, 84)).shape
    torch.Size([2, 64])
    """
    sizes = shape(obs_shape)
    checks.require(len(sizes) == 3, f"obs_shape = {sizes}: give (channels, height, width), such as (4, 84, 84)")
    channels, *sides = sizes
    hidden: list[Layer] = []
    for out, kernel, stride in _CONVOLUTIONS:
        hidden.append(((out, channels, kernel, kernel), stride))
        channels, sides = out, [(side - kernel) // stride + 1 for side in sides]
    checks.require(min(sides) > 0, f"obs_shape = {sizes}: give images of 36 by 36 pixels at least, channels first")
    return partial(_nature, [*hidden, ((_UNITS, channels * prod(sides)), None)])


def _nature(hidden: list[Layer], outputs: int) -> Eq1:
    return Eq1([*hidden, ((outputs, _UNITS), None)], "relu", sqrt(2), 0.1)
