"""Networks of the user's own: samples against laplace-torch, and training against a plain loop."""

import warnings
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import descent
from benchmarks.case import Case, Way
from benchmarks.trained import digits, distance, fit
from rndlib import BayesianRND, DeepEnsemble, GradientFlow, kernels, laws
from rndlib.torch import Module

TITLE = "Networks of the user's own"
NOTE = (
    "A PyTorch module of two convolutions and a linear layer, on scikit-learn's digits. *Samples*: the variance of 64 "
    "samples of the linearised network with noise 0.1, against laplace-torch; *variance* is over that of the exact "
    "posterior for the mean kernel of eight such networks. *Training*: to within 1 % of the converged flow, against "
    "gradient descent at 0.95 of the largest stable rate, for the steps after which the linear model is there, which "
    "these narrow networks leave. Seconds are those of one network; rndlib trains two at a time."
)

NOISE_STD, SAMPLES, MEMBERS = 0.1, 64, 2
FLOW, TIGHT = GradientFlow(rtol=descent.ACCURACY), GradientFlow(rtol=descent.ACCURACY / 10)


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    for n, channels in ((30, 8),) if quick else ((100, 32), (500, 32)):
        yield _samples(n, channels)
    for n, channels in ((20, 8),) if quick else ((20, 32), (100, 32)):
        yield _training(n, channels, 50 if quick else 500)


class Network(nn.Module):
    """Two convolutions and a linear layer in the parametrisation of Eq. 1; about 18 channels^2 weights."""

    def __init__(self, channels: int, outputs: int):
        super().__init__()
        shapes = (channels, 1, 3, 3), (2 * channels, channels, 3, 3), (outputs, 8 * channels)
        self.weights = nn.ParameterList(torch.randn(shape) for shape in shapes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *filters, last = (w / w[0].numel() ** 0.5 for w in self.weights)
        for stride, w in zip((1, 2), filters, strict=True):
            x = nn.functional.silu(nn.functional.conv2d(x, w, stride=stride))
        return x.flatten(1) @ last.T


def images(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training images (n, 1, 8, 8), labels, and 200 images to test on."""
    data = digits(n, 200)
    return data.X.reshape(-1, 1, 8, 8), data.y, data.X_test.reshape(-1, 1, 8, 8)


def _samples(n: int, channels: int) -> Case:
    net, (X, y, X_test) = Module(partial(Network, channels), scales=1.0), images(n)
    law = cache(lambda: laws.posterior(partial(kernels.empirical, net, draws=8), X, y, X_test, noise_std=NOISE_STD))
    module = Network(channels, 1).double()
    model = BayesianRND(net, SAMPLES, linearised=True, noise_std=NOISE_STD)
    return Case(
        f"samples, N = {n}, {channels} channels",
        Way(lambda: model.fit(X, y).variance(X_test)),
        {"laplace-torch, functional": Way(partial(_laplace, module, *map(torch.from_numpy, (X, y[:, None], X_test))))},
        lambda found: {"variance": float(np.mean(found / law().var))},
    )


def _laplace(module: Any, X: torch.Tensor, y: torch.Tensor, X_test: torch.Tensor) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from laplace import FunctionalLaplace
        from laplace.curvature import CurvlinopsGGN

        fitted = FunctionalLaplace(module, "regression", len(X), sigma_noise=NOISE_STD, backend=CurvlinopsGGN)
        fitted.fit(DataLoader(TensorDataset(X, y), batch_size=len(X)))
        return fitted(X_test)[1].detach().numpy().reshape(len(X_test))


def _training(n: int, channels: int, timed: int) -> Case:
    net, (X, y, X_test) = Module(partial(Network, channels), scales=1.0), images(n)
    train, across = kernels.empirical(net, X, draws=8), kernels.empirical(net, X_test, X, draws=8)
    prior = np.diagonal(kernels.empirical(net, X_test, draws=8).nngp)
    steps, rate, _ = descent.needed(train, across, prior, train.nngp + np.outer(y, y))
    timed = min(steps, timed)
    points, labels = (torch.tensor(a, dtype=torch.float32) for a in (X, y[:, None]))

    def functions(solver: GradientFlow) -> np.ndarray:
        return fit(DeepEnsemble(net, MEMBERS, solver=solver), X, y).functions(X_test)

    def loop() -> None:
        module = Network(channels, 1)
        optimiser = torch.optim.SGD(module.parameters(), rate)
        for _ in range(timed):
            optimiser.zero_grad()
            (0.5 * (module(points) - labels).square().sum()).backward()
            optimiser.step()

    return Case(
        f"training, N = {n}, {channels} channels",
        Way(lambda: functions(FLOW), 1 / MEMBERS),
        {"PyTorch loop": Way(loop, steps / timed, descent.known(steps, timed, 1, 3.0))},
        distance(lambda: functions(TIGHT)),
    )
