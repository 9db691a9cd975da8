"""Samples of a linearised network, against NUQLS and laplace-torch on the same module, each beside the exact law."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, jacrev, vmap
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import images
from benchmarks.growth import alone
from benchmarks.momentum import Momentum, choices, fewest
from benchmarks.own_training import kernel
from benchmarks.timing import Timing, ratio, side_by_side
from rndlib import BayesianRND
from rndlib.running.costs import Row

REPEATS, NOISE_STD, EPOCHS = 2, 0.1, 100
EXCESS = 0.01
"""The excess of the mean variance at which descent of NUQLS is done."""

LIBRARY, SLOW, FAST, LAPLACE = "rndlib", "NUQLS, momentum 0.9", "NUQLS, momentum tuned", "laplace-torch, functional"
WAYS = {0.0: (LIBRARY, SLOW, FAST), NOISE_STD: (LIBRARY, LAPLACE)}


def rows(n: int, n_test: int, channels: int, samples: int, noise_std: float) -> list[Row]:
    """One row per way to the variance of the exact posterior, and one per rule of NUQLS taken to the end."""
    net, (X, _, X_test) = images.module(channels), images.digits(n, n_test)
    ways = WAYS[noise_std]
    calls = {way: prepare(way, n, n_test, channels, samples, noise_std) for way in ways}
    variances = {way: call() for way, call in calls.items()}
    times = side_by_side(calls, REPEATS)
    theta = kernel(net, net.initial(1, 0), np.concatenate([X, X_test]))
    own = _common_kernel(BayesianRND(net, samples, linearised=True).fit(X), np.concatenate([X, X_test]))
    shared: Row = {"task": f"{samples} samples, noise {noise_std:g}", "N": n, "weights": net.parameters(1)}
    each: list[Row] = []
    for way in ways:
        law = exact(own if way == LIBRARY else theta, n, noise_std)
        memory = alone(prepare, way, n, n_test, channels, samples, noise_std).memory
        row: Row = {**shared, "by": way, "seconds": times[way].spread, "MiB": memory / 2**20}
        row |= {} if way == LIBRARY else {"times rndlib's": ratio(times[way], times[LIBRARY])}
        row |= {"steps": EPOCHS} if way in (SLOW, FAST) else {}
        each.append({**row, "variance": float(np.mean(variances[way] / law))})
        if way in (SLOW, FAST):
            each.append({**shared, "by": f"{way}, to {1 + EXCESS:g}", **_to_the_end(way, theta, n, times)})
    return each


def _common_kernel(model: BayesianRND, points: np.ndarray) -> np.ndarray:
    """The kernel of every head of its only body. `tangent_kernels` would give that of all pairs of heads."""
    fitted = model._fitted
    return np.add(*fitted._loaded.tangent_kernels(fitted.net_, fitted._trained.drawn[0].tangent, points))[0, 0, 0]


def prepare(way: str, n: int, n_test: int, channels: int, samples: int, noise_std: float) -> Callable[[], np.ndarray]:
    """A call that returns the posterior variance at the test points, (T,)."""
    net, (X, y, X_test) = images.module(channels), images.digits(n, n_test)
    if way == LIBRARY:
        return lambda: BayesianRND(net, samples, linearised=True, noise_std=noise_std).fit(X, y).variance(X_test)
    module = net.build(1).double()
    module.load_state_dict({name: torch.from_numpy(a) for name, a in net.initial(1, 0).items()})
    points, labels, test = (torch.from_numpy(a) for a in (X, y[:, None], X_test))
    if way == LAPLACE:
        return partial(_laplace, module, points, labels, test)
    values = np.linalg.eigvalsh(kernel(net, net.initial(1, 0), X))
    return partial(nuqls, module, points, labels, test, samples, _rule(way, values))


def nuqls(
    module: Any, X: torch.Tensor, y: torch.Tensor, X_test: torch.Tensor, samples: int, rule: Momentum
) -> np.ndarray:
    """Variance of networks linearised at the module's weights, each started elsewhere and trained on the labels."""
    weights = {name: a.detach() for name, a in module.named_parameters()}

    def jacobian(points: torch.Tensor) -> torch.Tensor:
        each = vmap(jacrev(lambda weights, x: functional_call(module, weights, (x[None],))[0, 0]), (None, 0))
        return torch.cat([a.reshape(len(points), -1) for a in each(weights, points).values()], 1)

    J, residual = jacobian(X), module(X).detach() - y
    away = torch.randn(J.shape[1], samples, dtype=J.dtype, generator=torch.Generator().manual_seed(0))
    velocity = torch.zeros_like(away)
    for _ in range(EPOCHS):
        velocity = rule.momentum * velocity + J.T @ (residual + J @ away)
        away = away - rule.rate * velocity
    return (jacobian(X_test) @ away).var(1).numpy()


def _laplace(module: Any, X: torch.Tensor, y: torch.Tensor, X_test: torch.Tensor) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from laplace import FunctionalLaplace
        from laplace.curvature import CurvlinopsGGN

        fitted = FunctionalLaplace(module, "regression", len(X), sigma_noise=NOISE_STD, backend=CurvlinopsGGN)
        fitted.fit(DataLoader(TensorDataset(X, y), batch_size=len(X)))
        return fitted(X_test)[1].detach().numpy().reshape(len(X_test))


def _rule(way: str, values: np.ndarray) -> Momentum:
    return choices(values)["momentum 0.9" if way == SLOW else "momentum, tuned"]


def exact(theta: np.ndarray, n: int, noise_std: float) -> np.ndarray:
    """The variance of the posterior at the test points."""
    A = theta[:n, :n] + noise_std**2 * np.eye(n)
    return np.diagonal(theta)[n:] - np.einsum("ij,ij->j", theta[:n, n:], np.linalg.solve(A, theta[:n, n:]))


def _to_the_end(way: str, theta: np.ndarray, n: int, times: dict[str, Timing]) -> Row:
    """Its steps and seconds until its variance is that of the posterior, scaled from those that were timed."""
    law = exact(theta, n, 0.0)

    def variance(steps: int) -> float:
        return float(np.mean(1 + excess(way, theta, n, steps) / law))

    steps = fewest(lambda steps: variance(steps) <= 1 + EXCESS)
    time = times[way].scaled(steps / EPOCHS)
    more: Row = {"times rndlib's": ratio(time, times[LIBRARY]), "timed": f"{EPOCHS} steps"}
    return {"seconds": time.spread, **more, "steps": steps, "variance": variance(steps)}


def excess(way: str, theta: np.ndarray, n: int, steps: int) -> np.ndarray:
    """By how much the variance of NUQLS at the test points is above that of the posterior after some steps.

    The function has then changed by -Theta_xX V (1 - e_k) / l V' f_0(X), with f_0 drawn from N(0, Theta).
    """
    values, vectors = np.linalg.eigh(theta[:n, :n])
    return (theta[n:, :n] @ vectors) ** 2 @ (_rule(way, values).left(values, steps) ** 2 / values)
