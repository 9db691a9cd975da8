"""Predictors and targets as PyTorch modules: the network of Eq. 1, and independent draws of any other."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rndlib import checks
from rndlib.any_network import Fault, spawned
from rndlib.network import MLP
from rndlib.torch.module import Module
from rndlib.training.backends.torch.linearise import apply
from rndlib.training.weights import Role, draw


class NTKMLP(nn.Module):
    """A network with the settings `net` (Eq. 1, NTK parametrisation) and the initial weights of a seed.

    It consists of `bodies` independent networks of `heads` outputs each, the initial networks of `RND` with the same
    seed. The input (batch, ...) is flattened to `in_dim` numbers per row; the output is (batch, bodies * heads), one
    body after the other.

    Parameters
    ----------
    heads, bodies: Outputs per body, and number of bodies, >= 1.
    role: `Role.PREDICTOR` or `Role.TARGET`; with one seed the two are independent.
    dtype: Type of the weights; None for PyTorch's default, float32.

    >>> import torch
    >>> from rndlib import MLP
    >>> from rndlib.torch import NTKMLP
    >>> from rndlib.training.weights import Role
    >>> network = NTKMLP(MLP(in_dim=6, width=32), heads=4, role=Role.TARGET, seed=1)
    >>> network(torch.zeros(5, 2, 3)).shape
    torch.Size([5, 4])
    """

    net: MLP

    def __init__(
        self, net: MLP, heads: int, role: Role, *, bodies: int = 1, seed: int = 0, dtype: torch.dtype | None = None
    ):
        super().__init__()
        if not isinstance(net, MLP):
            raise ValueError(f"net = {net!r}: give an rndlib.MLP")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        heads, bodies = checks.whole("heads", heads, at_least=1), checks.whole("bodies", bodies, at_least=1)
        self.net = net
        params = draw(net, heads, checks.whole("seed", seed, at_least=0), role, range(bodies))
        self.weights = nn.ParameterList(torch.as_tensor(w, dtype=dtype) for w, _ in params)
        self.biases = nn.ParameterList(torch.as_tensor(b, dtype=dtype) for _, b in params)

    def forward(self, obs: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch outputs"]:
        params = list(zip(self.weights, self.biases, strict=True))
        return apply(self.net, params, obs.reshape(len(obs), self.net.in_dim)).movedim(0, 1).flatten(1)

    def extra_repr(self) -> str:
        bodies, heads, _ = self.weights[-1].shape
        return f"{self.net}, heads={heads}, bodies={bodies}"


class Bodies(nn.ModuleList):
    """Independent draws of one network, `bodies` of `heads` outputs each, with the outputs of one after the other."""

    def __init__(
        self, net: Module, heads: int, role: Role, *, bodies: int = 1, seed: int = 0, dtype: torch.dtype | None = None
    ):
        heads, bodies = checks.whole("heads", heads, at_least=1), checks.whole("bodies", bodies, at_least=1)
        seed = checks.whole("seed", seed, at_least=0)
        self.output_scale = net.output_scale or 1.0
        # The seeds of `rndlib.training.weights.draw`.
        super().__init__(net._built(heads, spawned(seed, int(role), body)).to(dtype) for body in range(bodies))

    def forward(self, obs: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch outputs"]:
        return self.output_scale * torch.cat([body(obs) for body in self], 1)


def examined(network: Callable[[int], nn.Module] | Module, obs_shape: tuple[int, ...], normalise: bool) -> Module:
    """The network as a `Module`; a ValueError if it fails, or the theorems are not about it.

    It is tried on observations as it will see them: normal numbers if they are normalised, and else zeros and ones,
    which may be pixels, tokens or truth values.
    """
    if isinstance(network, nn.Module) or not (callable(network) or isinstance(network, Module)):
        raise ValueError(
            f"network = {network!r}: give a function from a number of outputs to a new torch.nn.Module, such as "
            "nature_cnn((4, 84, 84))"
        )
    net = network if isinstance(network, Module) else Module(network)
    random, size = np.random.default_rng(0), (4, *obs_shape)
    try:
        net.examine(random.normal(size=size) if normalise else random.integers(0, 2, size).astype(float))
    except Fault as fault:
        scaled = "normalised observations; normalise=False leaves whole numbers as they are" if normalise else "0 and 1"
        raise ValueError(f"network was tried on {scaled}: {fault}") from fault.__cause__
    return net
