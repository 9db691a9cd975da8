"""RND as an exploration bonus that is a variance, with the networks of Eq. 1 or any other in the loop of an agent."""

from collections.abc import Callable, Hashable, Iterable
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from rndlib.network import MLP
from rndlib.theory.crowding import warn_if_narrow
from rndlib.torch.distillation import ModuleBonus
from rndlib.torch.module import Module
from rndlib.torch.networks import drawn
from rndlib.torch.observations import Reader
from rndlib.training.weights import Role


class RNDBonus(ModuleBonus):
    """Exploration bonus (Eq. 2) in variance units: predictor and target are networks with the same settings (Eq. 1).

    `bonus(obs)` is half the mean squared error over `bodies * heads` outputs. In the limit of width, after gradient
    flow or full-batch gradient descent on one set of normalised observations, it is distributed as the sample variance
    of `bodies * heads + 1` members of a deep ensemble with the same settings, trained for as long on labels at the same
    points (Theorem 3.4); with `gamma`, of value functions (`rndlib.laws.value_rnd_error`). With the same seed, the
    functions at the start are those of `rndlib.RND`, and after the same gradient descent so is the number.

    In the loop of an agent, much of this is lost. Adam and other optimisers that rescale gradients train with another
    kernel. Minibatches add noise. Observations count by how often and how recently they came.
    When the running statistics change, so do the inputs that the predictor was trained on. What remains is a novelty
    that starts as the variance of an untrained ensemble, and falls where the predictor learns.

    An MLP takes observations of any shape, flattened. For images, give `network=nature_cnn(obs_shape)`, or a network of
    your own. Predictor and target are independent draws of it. A network whose bonus would not be an ensemble's
    variance is refused before any training (`explain`).

    Warns with `HeadsWarning` if an MLP is too narrow for the heads.

    Parameters
    ----------
    obs_shape: Shape of one observation, or a space such as `envs.single_observation_space`; n stands for (n,).
    heads, bodies: Outputs per network, and number of independent networks, >= 1. More outputs reduce the scatter of the
        bonus, sqrt(2 / (bodies * heads)) relative to its mean; they do not change the mean.
    network: `network(outputs)` returns a new `nn.Module` that maps (N, *obs_shape) to (N, outputs), its weights drawn
        from PyTorch's generator; or a `Module`, or an `MLP`. None for an `MLP` of its default settings.
    seed: Seed of the networks and of all later random draws, >= 0. PyTorch's generator is left as it is.
    dtype: Type of the weights; None for that of the network, and for an MLP PyTorch's default, float32.
    keys, normalise, learning_rate, optimizer, max_grad_norm, gamma: As in `ModuleBonus`.

    Raises
    ------
    ValueError: An argument is out of range, or `network` cannot serve.

    >>> import torch
    >>> from rndlib.torch import RNDBonus
    >>> bonus = RNDBonus(2, seed=0)
    >>> obs = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> bonus.observe(obs)
    >>> before = bonus(obs)
    >>> loss = bonus.update(obs[:2], epochs=200)
    >>> (bonus(obs) < 0.1 * before).tolist()
    [True, True, False]
    """

    def __init__(
        self,
        obs_shape: Any,
        heads: int = 64,
        bodies: int = 1,
        *,
        network: Callable[[int], nn.Module] | Module | MLP | None = None,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        keys: Hashable | Iterable[Hashable] = None,
        normalise: bool = True,
        learning_rate: float | None = None,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
        max_grad_norm: float | None = None,
        gamma: float | None = None,
    ):
        size = prod(Reader(obs_shape, keys).shape)
        net = MLP(size) if network is None else network
        if isinstance(net, MLP) and net.in_dim != size:
            raise ValueError(f"network has in_dim = {net.in_dim}, and observations {size} numbers: give in_dim={size}")
        if not isinstance(net, MLP | Module):
            if isinstance(net, nn.Module) or not callable(net):
                raise ValueError(f"network = {net!r}: give a function from a number of outputs to a new nn.Module")
            net = Module(net)
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise ValueError(f"dtype = {dtype!r}: give a floating-point type, such as torch.float32, or None")
        super().__init__(
            obs_shape,
            drawn(net, heads, bodies, seed, Role.PREDICTOR, dtype),
            drawn(net, heads, bodies, seed, Role.TARGET, dtype),
            keys=keys,
            normalise=normalise,
            learning_rate=learning_rate,
            optimizer=optimizer,
            max_grad_norm=max_grad_norm,
            gamma=gamma,
            seed=seed,
        )
        if isinstance(net, MLP):
            warn_if_narrow(net, heads)

    def _object(self) -> None:
        if self.meaning.factor or self.meaning.factors:
            return super()._object()
        raise ValueError(
            f"network cannot serve: {'; '.join(self.meaning.reasons)}. It was tried on normal numbers, as of "
            "normalised observations; with normalise=False on 0 and 1"
        )
