"""RND as an exploration bonus whose number is a variance: the networks of Eq. 1 in the loop of an agent."""

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
    """Exploration bonus (Eq. 2) in variance units: predictor and target are networks of one description (Eq. 1).

    `bonus(obs)` is half the mean squared error over `bodies * heads` outputs. In the limit of width, after gradient
    flow or full-batch gradient descent on one set of normalised observations, it has the law of the sample variance of
    `bodies * heads + 1` members of a deep ensemble of the same description, trained for as long on labels at the same
    points (Theorem 3.4). Weights, and the number after the same descent, are those of `rndlib.RND` of the same seed.

    In the loop of an agent much of this is lost. Adam trains with another kernel; minibatches and `update_proportion`
    add noise of their own; a stream weighs observations by how often and how lately they came; and when running
    statistics move, so does what was learnt. A novelty remains that starts as the variance of an untrained ensemble,
    and falls where the predictor learns.

    Observations of any shape are flattened: for images, give `ModuleBonus` two networks of your own.

    Parameters
    ----------
    obs_shape: shape of one observation, as `envs.single_observation_space.shape`; a number n for (n,).
    heads, bodies: outputs of one body, and independent bodies, >= 1. The relative scatter of the bonus is
        sqrt(2 / (bodies * heads)).
    width, depth, activation, sigma_w, sigma_b: as in `MLP`.
    seed: of the networks and of all that is drawn, >= 0.
    dtype: of the weights; None for PyTorch's default, float32.
    normalise, update_proportion, learning_rate, optimizer: as in `ModuleBonus`.

    Warns with `HeadsWarning` where the heads are too many for the width.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.

    Examples
    --------
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
