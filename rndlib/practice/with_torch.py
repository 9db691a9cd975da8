"""The contenders that are PyTorch modules: laplace-torch, and random network distillation as it is often written."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from rndlib.network import MLP
from rndlib.practice.task import Task
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch import ModuleBonus

ACTIVATIONS: dict[str, type[nn.Module]] = {"silu": nn.SiLU, "relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
LEARNING_RATE = 1e-3  # of Adam, its default
NARROW = 32  # units: the full Hessian is as large as the number of weights squared
TOGETHER = 25  # points of which laplace-torch forms the Jacobian at once, points by classes by weights
Values = Float[np.ndarray, " t"]


def laplace_regression(task: Task) -> tuple[Values, Values, int]:
    """Mean and standard deviation of observations at the test points, and the number of weights.

    Weights, prior precisions and noise are fitted together by laplace-torch's own training on the marginal likelihood
    (Immer et al., 2021), with the full Hessian of a network of `NARROW` units; predicted by the linearised network. A
    Kronecker-factored one would do for a wider network, but then the gradient of the evidence in the noise, as version
    0.3 has it, is not that of finite differences.
    """
    with _seeded(task.seed):
        model = network(replace(task.net, width=NARROW), 1)
        fitted = _fit(model, task, "regression", "full", _tensor(task.y)[:, None])
        mean, variance = fitted(_tensor(task.X_test))
    std = torch.sqrt(variance[:, 0, 0] + fitted.sigma_noise**2)
    return mean[:, 0].detach().numpy(), std.detach().numpy(), _count(model)


def laplace_entropy(task: Task, classes: int) -> tuple[Values, int]:
    """Entropy in nats of the predicted class at the test points, with labels y from 0, and the number of weights.

    As in `laplace_regression`, for a classifier of the task's width, with a Kronecker-factored Hessian and the probit
    approximation of its probabilities.
    """
    with _seeded(task.seed):
        model = network(task.net, classes)
        fitted = _fit(model, task, "classification", "kron", torch.as_tensor(task.y.astype(np.int64)))
        parts = [fitted(points, link_approx="probit") for points in _tensor(task.X_test).split(TOGETHER)]
    return torch.special.entr(torch.cat(parts)).sum(1).detach().numpy(), _count(model)


def plain_rnd(task: Task) -> tuple[Values, int]:
    """Half the mean squared RND error at the test points, and the number of the predictor's weights.

    As agents have it: PyTorch's initial weights, a predictor with one hidden layer more than its target, Adam, and as
    many epochs as there is patience for. The theorems do not cover it.
    """
    with _seeded(task.seed):
        layers = (network(task.net, task.sizes.heads, task.net.depth + more) for more in (1, 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MismatchWarning)  # That is the point here.
            bonus = ModuleBonus(task.X.shape[1], *layers, normalise=False, learning_rate=LEARNING_RATE, seed=task.seed)
        bonus.update(_tensor(task.X), epochs=task.sizes.epochs, minibatch_size=task.sizes.batch)
        return bonus(_tensor(task.X_test)).numpy(), _count(bonus.predictor)


def network(net: MLP, outputs: int, depth: int | None = None) -> nn.Sequential:
    """A network of the same depth (or another), width and activation, with PyTorch's own initial weights, in float64.

    Raises
    ------
    ValueError: PyTorch has no module for the activation.
    """
    name = net.activation
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"activation = {name!r}: PyTorch has a module for {', '.join(ACTIVATIONS)}")
    sizes = [net.in_dim, *[net.width] * ((net.depth if depth is None else depth) - 1)]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[name]()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs)).double()


def _fit(model: nn.Module, task: Task, likelihood: str, hessian: str, labels: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        # PyTorch deprecates torch.jit.script, and calls it; one of the packages calls it too, when it is imported.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)
        from laplace import marglik_training
        from laplace.curvature import CurvlinopsGGN, GGNInterface

        points = TensorDataset(_tensor(task.X), labels)
        order = torch.Generator().manual_seed(task.seed)
        # Hyperparameters every fortieth epoch, as each time takes longer than an epoch. The default backend, asdl,
        # hooks into layers in a way that PyTorch warns of.
        return marglik_training(
            model,
            DataLoader(points, batch_size=task.sizes.batch, shuffle=True, generator=order),
            likelihood,
            hessian_structure=hessian,
            backend=GGNInterface if hessian == "full" else CurvlinopsGGN,
            optimizer_kwargs={"lr": LEARNING_RATE},
            n_epochs=task.sizes.epochs,
            marglik_frequency=min(40, task.sizes.epochs),
            n_hypersteps=20,
        )[0]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PyTorch's global generator, from which modules draw their weights, at `seed`; afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64))


def _count(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())
