"""Methods of notebook 06 that are PyTorch modules: a deep ensemble, laplace-torch and GPyTorch."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from rndlib.paper.practice.data import Split
from rndlib.paper.practice.scores import Predictive, normal

_MEMBERS = 5
_HIDDEN = 64  # units of each of the two hidden layers of an ensemble's networks
_EPOCHS, _PATIENCE, _BATCH = 400, 30, 64
_VARIANCE = 1e-4  # at least, of a network's noise, in units of the labels' variance


def deep_ensemble(at: Split, seed: int) -> Predictive:
    """Five networks that each predict a mean and a variance, trained on the likelihood (Lakshminarayanan et al., 2017).

    Each is stopped at its smallest loss on a tenth of the points. There is no adversarial training.
    """
    at = at.standardised()
    with seeded(seed):
        outputs = torch.stack([_member(at) for _ in range(_MEMBERS)]).double().numpy()
    n_test = len(at.X_test)
    return Predictive(outputs[:, :, 0], np.sqrt(outputs[:, :, 1]), np.zeros((n_test, n_test)))


def _member(at: Split) -> torch.Tensor:
    """Mean and variance at the test points, (t, 2), of one network."""
    net = nn.Sequential(
        nn.Linear(at.X.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 2)
    )
    optimizer, loss = torch.optim.Adam(net.parameters(), lr=1e-3), nn.GaussianNLLLoss()
    X, y, X_test = (torch.as_tensor(of).float() for of in (at.X, at.y, at.X_test))
    held, kept = torch.randperm(len(X)).tensor_split([len(X) // 10])
    best, found, since = np.inf, torch.empty(0), 0

    def predicted(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, raw = net(points).T
        return mean, nn.functional.softplus(raw) + _VARIANCE

    for _ in range(_EPOCHS):
        for batch in kept[torch.randperm(len(kept))].split(_BATCH):
            mean, variance = predicted(X[batch])
            optimizer.zero_grad()
            loss(mean, y[batch], variance).backward()
            optimizer.step()
        with torch.no_grad():
            mean, variance = predicted(X[held])
            now = loss(mean, y[held], variance).item()
            if now < best:
                best, found, since = now, torch.stack(predicted(X_test), dim=1), 0
            elif (since := since + 1) == _PATIENCE:
                break
    return found


def laplace(at: Split, seed: int) -> Predictive:
    """laplace-torch's linearised network, whose prior and noise are fitted while it trains (Immer et al., 2021).

    The network is that of its regression example, 50 units with tanh, and the Hessian the full one. In version 0.3 the
    Kronecker-factored Hessian gives a wrong gradient of the evidence in the noise.
    """
    at = at.standardised()
    with seeded(seed), warnings.catch_warnings():
        # PyTorch deprecates torch.jit.script, but calls it, as does one of the packages when it is imported.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)
        from laplace import marglik_training
        from laplace.curvature import GGNInterface

        points = TensorDataset(torch.as_tensor(at.X), torch.as_tensor(at.y)[:, None])
        net = nn.Sequential(nn.Linear(at.X.shape[1], 50), nn.Tanh(), nn.Linear(50, 1)).double()
        # The default backend, asdl, hooks into layers in a way that PyTorch warns about.
        fitted: Any = marglik_training(
            net,
            DataLoader(points, batch_size=_BATCH, shuffle=True),
            "regression",
            hessian_structure="full",
            backend=GGNInterface,
            optimizer_kwargs={"lr": 1e-2},
            n_epochs=300,
            marglik_frequency=10,
        )[0]
        mean, cov = fitted(torch.as_tensor(at.X_test), joint=True)
    return normal(mean.detach().numpy().ravel(), float(fitted.sigma_noise), cov.detach().numpy())


def gpytorch(at: Split, seed: int) -> Predictive:
    """GPyTorch's exact regression by Adam, as in its tutorial: a Matern kernel with one length scale per column."""
    gp: Any = import_module("gpytorch")  # not among this project's pins
    at = at.standardised()
    X, y = torch.as_tensor(at.X), torch.as_tensor(at.y)

    class Process(gp.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, gp.likelihoods.GaussianLikelihood())
            self.mean = gp.means.ConstantMean()
            self.kernel = gp.kernels.ScaleKernel(gp.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1]))

        def forward(self, x: torch.Tensor) -> Any:
            return gp.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    # By Cholesky factors, which are exact. The default beyond 800 points is conjugate gradients.
    with seeded(seed), gp.settings.max_cholesky_size(len(X) + 1):
        model: Any = Process().double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        evidence = gp.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        for _ in range(100):
            optimizer.zero_grad()
            (-evidence(model(X), y)).backward()
            optimizer.step()
        with torch.no_grad():
            function = model.eval()(torch.as_tensor(at.X_test))
            noise_std = float(model.likelihood.noise.sqrt())
            return normal(function.mean.numpy(), noise_std, function.covariance_matrix.numpy())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set PyTorch's generator, from which modules draw their weights, to `seed`, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
