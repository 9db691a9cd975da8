"""RND as an exploration bonus that is a variance: the networks of Eq. 1 in the loop of an agent."""

from collections.abc import Callable, Iterable
from math import prod

import torch
from torch import nn
from torch.optim import Optimizer

from rndlib.network import MLP
from rndlib.theory.crowding import warn_if_narrow
from rndlib.torch.distillation import ModuleBonus, shape
from rndlib.torch.network import NTKMLP
from rndlib.training.weights import Role


class RNDBonus(ModuleBonus):
    """Exploration bonus (Eq. 2) in variance units: predictor and target are networks with the same settings (Eq. 1).

    `bonus(obs)` is half the mean squared error over `bodies * heads` outputs. In the limit of width, after gradient
    flow or full-batch gradient descent on one set of normalised observations, it has the law of the sample variance of
    `bodies * heads + 1` members of a deep ensemble with the same settings, trained for as long on labels at the same
    points (Theorem 3.4). With the same seed, the weights are those of `rndlib.RND`; after the same gradient descent, so
    is the number.

    In the loop of an agent, much of this is lost. Adam and other optimisers that rescale gradients train with another
    kernel. Minibatches and `update_proportion` add noise. Observations count by how often and how recently they came.
    When the running statistics change, so do the inputs that the predictor was trained on. What remains is a novelty
    that starts as the variance of an untrained ensemble, and falls where the predictor learns.

    Observations of any shape are flattened: for images, give `ModuleBonus` two networks of your own. Warns with
    `HeadsWarning` if there are too many heads for the width.

    Parameters
    ----------
    obs_shape: Shape of one observation, such as `envs.single_observation_space.shape`; a number n stands for (n,).
    heads, bodies: Outputs per body, and number of independent bodies, >= 1. More outputs reduce the scatter of the
        bonus, sqrt(2 / (bodies * heads)) relative to its mean; they do not change the mean.
    width, depth, activation, sigma_w, sigma_b: As in `MLP`.
    seed: Seed of the networks and of all later random draws, >= 0.
    dtype: Type of the weights; None for PyTorch's default, float32.
    normalise, update_proportion, learning_rate, optimizer: As in `ModuleBonus`.

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
        width: int = 512,
        depth: int = 2,
        activation: str = "silu",
        sigma_w: float = 1.5,
        sigma_b: float = 0.1,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        normalise: bool = True,
        update_proportion: float = 1.0,
        learning_rate: float = 1e-3,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
    ):
        obs_shape = shape(obs_shape)
        net = MLP(prod(obs_shape), width, depth, activation, sigma_w, sigma_b)
        super().__init__(
            obs_shape,
            NTKMLP(net, heads, Role.PREDICTOR, bodies=bodies, seed=seed, dtype=dtype),
            NTKMLP(net, heads, Role.TARGET, bodies=bodies, seed=seed, dtype=dtype),
            normalise=normalise,
            update_proportion=update_proportion,
            learning_rate=learning_rate,
            optimizer=optimizer,
            seed=seed,
        )
        warn_if_narrow(net, heads, 1, "standard")
