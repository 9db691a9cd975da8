"""Contenders that are PyTorch modules: laplace-torch, and random network distillation as it is often written."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from rndlib.network import MLP
from rndlib.practice.task import Predictive, Score, Task
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch import ModuleBonus
from rndlib.training.backends.torch.activations import value

_LEARNING_RATE = 1e-3  # of Adam, its default
_NARROW = 32  # units: the full Hessian is as large as the number of weights squared
_TOGETHER = 25  # points of which laplace-torch forms the Jacobian at once, points by classes by weights


def laplace_regression(task: Task) -> Predictive:
    """The linearised network of laplace-torch, fitted with its prior and noise on the marginal likelihood.

    The training is that of Immer et al. (2021), with the full Hessian of a narrow network: in version 0.3, the
    Kronecker-factored Hessian gives a wrong gradient of the evidence in the noise.
    """
    with _seeded(task.seed):
        model = network(replace(task.net, width=_NARROW), 1)
        fitted = _fit(model, task, "regression", "full", _tensor(task.y)[:, None])
        mean, variance = fitted(_tensor(task.X_test))
    std = torch.sqrt(variance[:, 0, 0] + fitted.sigma_noise**2)
    return Predictive(mean[:, 0].detach().numpy(), std.detach().numpy(), _count(model))


def laplace_entropy(task: Task) -> Score:
    """Entropy in nats of the class prediction of laplace-torch, with a Kronecker-factored Hessian."""
    classes, labels = np.unique(task.y, return_inverse=True)
    with _seeded(task.seed):
        model = network(task.net, len(classes))
        fitted = _fit(model, task, "classification", "kron", torch.as_tensor(labels))
        parts = [fitted(points, link_approx="probit") for points in _tensor(task.X_test).split(_TOGETHER)]
    return Score(torch.special.entr(torch.cat(parts)).sum(1).detach().numpy(), _count(model))


def plain_rnd(task: Task) -> Score:
    """Half the mean squared error of RND as agents use it, which the theorems do not cover.

    It has PyTorch's initial weights, a predictor with one more hidden layer than its target, and Adam.
    """
    with _seeded(task.seed):
        layers = (network(replace(task.net, depth=task.net.depth + more), task.sizes.heads) for more in (1, 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MismatchWarning)  # The mismatch is intended.
            bonus = ModuleBonus(task.X.shape[1], *layers, normalise=False, learning_rate=_LEARNING_RATE, seed=task.seed)
        bonus.update(_tensor(task.X), epochs=task.sizes.epochs, minibatch_size=task.sizes.batch)
        return Score(bonus(_tensor(task.X_test)).numpy(), _count(bonus.predictor))


class Nonlinearity(nn.Module):
    """The activation of an `MLP`."""

    def __init__(self, net: MLP):
        super().__init__()
        self.forward = value(net.activation)


def network(net: MLP, outputs: int) -> nn.Sequential:
    """A network with these settings and PyTorch's own initial weights, in float64."""
    sizes = [net.in_dim, *[net.width] * (net.depth - 1)]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), Nonlinearity(net)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs)).double()


def _fit(model: nn.Module, task: Task, likelihood: str, hessian: str, labels: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        # PyTorch deprecates torch.jit.script, but calls it, as does one of the packages when it is imported.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)
        from laplace import marglik_training
        from laplace.curvature import CurvlinopsGGN, GGNInterface

        points = TensorDataset(_tensor(task.X), labels)
        order = torch.Generator().manual_seed(task.seed)
        # Hyperparameters every fortieth epoch, because each update takes longer than an epoch. The default backend,
        # asdl, hooks into layers in a way that PyTorch warns about.
        return marglik_training(
            model,
            DataLoader(points, batch_size=task.sizes.batch, shuffle=True, generator=order),
            likelihood,
            hessian_structure=hessian,
            backend=GGNInterface if hessian == "full" else CurvlinopsGGN,
            optimizer_kwargs={"lr": _LEARNING_RATE},
            n_epochs=task.sizes.epochs,
            marglik_frequency=min(40, task.sizes.epochs),
            n_hypersteps=20,
        )[0]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set PyTorch's global generator, from which modules draw their weights, to `seed`, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64))


def _count(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())
