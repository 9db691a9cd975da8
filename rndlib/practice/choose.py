"""Hyperparameters of the NTK-GP by its exact log evidence on the training set.

Hyperparameters that suit the Gaussian process suit the networks that tend to it. The evidence needs no network and no
held-out points.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import exp, log, pi

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from rndlib.network import MLP
from rndlib.theory import kernels


def log_evidence(net: MLP, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], noise_std: float) -> float:
    """`log N(y | 0, Theta_XX + noise_std^2 I)`, in nats."""
    return _evidence(*_spectrum(net, X, y), noise_std)


def by_evidence(
    net: MLP, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], scales: Iterable[float]
) -> tuple[MLP, float]:
    """`net` with the scale of the weights, among `scales`, and the noise std under which the labels are most probable.

    The noise is between 0.01 and 10, in the units of y, to a part in 1e4.
    """
    choices = [_best_noise(replace(net, sigma_w=scale), X, y) for scale in scales]
    if not choices:
        raise ValueError("scales is empty: give at least one scale of the weights")
    _, scaled, noise_std = max(choices, key=lambda choice: choice[0])
    return scaled, noise_std


def _best_noise(net: MLP, X: np.ndarray, y: np.ndarray) -> tuple[float, MLP, float]:
    values, coordinates = _spectrum(net, X, y)
    best = minimize_scalar(
        lambda log_noise: -_evidence(values, coordinates, exp(log_noise)),
        bounds=(log(0.01), log(10.0)),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return -float(best.fun), net, exp(float(best.x))


def _spectrum(net: MLP, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Theta_XX, and y in the coordinates of its eigenvectors."""
    values, vectors = eigh(kernels.kernel(net, X).ntk)
    return np.maximum(values, 0), vectors.T @ y


def _evidence(values: np.ndarray, coordinates: np.ndarray, noise_std: float) -> float:
    total = values + noise_std**2
    return float(-0.5 * np.sum(coordinates**2 / total + np.log(total) + log(2 * pi)))
