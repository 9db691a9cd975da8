"""RND as an exploration bonus that is a variance, with the networks of Eq. 1 or any other in the loop of an agent."""

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from rndlib.activations import Activation
from rndlib.network import MLP
from rndlib.theory.crowding import warn_if_narrow
from rndlib.torch.distillation import ModuleBonus
from rndlib.torch.module import Module
from rndlib.torch.network import NTKMLP, Bodies, examined
from rndlib.torch.normalise import shape
from rndlib.training.weights import Role


class RNDBonus(ModuleBonus):
    """Exploration bonus (Eq. 2) in variance units: predictor and target are networks with the same settings (Eq. 1).

    `bonus(obs)` is half the mean squared error over `bodies * heads` outputs. In the limit of width, after gradient
    flow or full-batch gradient descent on one set of normalised observations, it has the law of the sample variance of
    `bodies * heads + 1` members of a deep ensemble with the same settings, trained for as long on labels at the same
    points (Theorem 3.4). With the same seed, the weights are those of `rndlib.RND`; after the same gradient descent, so
    is the number (for a network of your own, with `Module(network, scales=1.0)`).

    In the loop of an agent, much of this is lost. Adam and other optimisers that rescale gradients train with another
    kernel. Minibatches and `update_proportion` add noise. Observations count by how often and how recently they came.
    When the running statistics change, so do the inputs that the predictor was trained on. What remains is a novelty
    that starts as the variance of an untrained ensemble, and falls where the predictor learns.

    An MLP takes observations of any shape, flattened. For images, give `network=nature_cnn(obs_shape)`, or a network of
    your own: a function from a number of outputs to a new `nn.Module`. Predictor and target are then independent draws
    of it. What the theorems do not cover is refused as by `Module`, before any training, and `meaning` says which
    ensemble's variance the bonus is.

    Warns with `HeadsWarning` if an MLP is too narrow for the heads.

    Parameters
    ----------
    obs_shape: Shape of one observation, such as `envs.single_observation_space.shape`; a number n stands for (n,).
    heads, bodies: Outputs per body, and number of independent bodies, >= 1. More outputs reduce the scatter of the
        bonus, sqrt(2 / (bodies * heads)) relative to its mean; they do not change the mean.
    network: `network(outputs)` returns a new `nn.Module` that maps (N, *obs_shape) to (N, outputs), its weights drawn
        from PyTorch's generator; or a `Module`. None for an MLP.
    width, depth, activation, sigma_w, sigma_b: Of the MLP, as in `MLP`; None for the default there.
    seed: Seed of the networks and of all later random draws, >= 0. PyTorch's generator is left as it is.
    dtype: Type of the weights; None for that of the network, and for an MLP PyTorch's default, float32.
    normalise, update_proportion, learning_rate, optimizer: As in `ModuleBonus`.

    Raises
    ------
    ValueError: An argument is out of range, settings of an MLP are given beside `network`, or `network` cannot serve.

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
        obs_shape: int | Iterable[int],
        heads: int = 64,
        bodies: int = 1,
        *,
        network: Callable[[int], nn.Module] | Module | None = None,
        width: int | None = None,
        depth: int | None = None,
        activation: str | Activation | None = None,
        sigma_w: float | None = None,
        sigma_b: float | None = None,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        normalise: bool = True,
        update_proportion: float = 1.0,
        learning_rate: float = 1e-3,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
    ):
        obs_shape = shape(obs_shape)
        settings: dict[str, Any] = {
            "width": width,
            "depth": depth,
            "activation": activation,
            "sigma_w": sigma_w,
            "sigma_b": sigma_b,
        }
        given = {name: value for name, value in settings.items() if value is not None}
        if network is not None and given:
            raise ValueError(f"{', '.join(given)}: settings of an MLP: give them to the network, or leave network out")
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise ValueError(f"dtype = {dtype!r}: give a floating-point type, such as torch.float32, or None")
        net = MLP(prod(obs_shape), **given) if network is None else examined(network, obs_shape, normalise)
        draw: Any = partial(NTKMLP if isinstance(net, MLP) else Bodies, net, heads)
        super().__init__(
            obs_shape,
            draw(Role.PREDICTOR, bodies=bodies, seed=seed, dtype=dtype),
            draw(Role.TARGET, bodies=bodies, seed=seed, dtype=dtype),
            normalise=normalise,
            update_proportion=update_proportion,
            learning_rate=learning_rate,
            optimizer=optimizer,
            seed=seed,
        )
        if isinstance(net, MLP):
            warn_if_narrow(net, heads, 1, "standard")
