"""Hyperparameters of the NTK-GP by its exact log evidence on the training set.

What is good for the Gaussian process is good for the networks that tend to it. The evidence needs no network and no
held-out points, and takes one eigendecomposition for each scale of the weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, log, pi

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from rndlib import checks
from rndlib.network import MLP
from rndlib.theory import kernels


@dataclass(frozen=True)
class Choice:
    """A network, a standard deviation of the noise in the units of y, and their log evidence in nats.

    >>> from rndlib import MLP
    >>> from rndlib.practice.choose import Choice
    >>> Choice(MLP(3), noise_std=0.5, log_evidence=-13.6).net.sigma_w
    1.5
    """

    net: MLP
    noise_std: float
    log_evidence: float


def log_evidence(net: MLP, X: ArrayLike, y: ArrayLike, noise_std: float) -> float:
    """`log N(y | 0, Theta_XX + noise_std^2 I)`, in nats, for X (N, in_dim), y (N,) and noise_std > 0.

    Raises
    ------
    ValueError: an argument has the wrong shape, holds NaN or infinity, or is out of range.

    >>> from rndlib import MLP, datasets
    >>> from rndlib.practice import choose
    >>> data = datasets.toy(seed=0)
    >>> round(choose.log_evidence(MLP(3), data.X, data.y, noise_std=0.5), 2)
    -13.56
    """
    return _evidence(*_spectrum(net, X, y), checks.positive("noise_std", noise_std))


def by_evidence(
    net: MLP,
    X: ArrayLike,
    y: ArrayLike,
    sigma_w: Iterable[float],
    noise_between: tuple[float, float] = (0.01, 10.0),
) -> Choice:
    """The scale of the weights and the noise of highest log evidence on X (N, in_dim), y (N,).

    Parameters
    ----------
    net: the rest of the description.
    sigma_w: the scales to choose among.
    noise_between: the least and the greatest noise_std, in the units of y; within, it is found to a part in 1e4.

    Raises
    ------
    ValueError: as in `log_evidence`; or no scale is given, or no room between the two.

    >>> from rndlib import MLP, datasets
    >>> from rndlib.practice import choose
    >>> data = datasets.toy(seed=0, n_train=50)
    >>> found = choose.by_evidence(MLP(3), data.X, data.y, sigma_w=[0.5, 1.0, 2.0])
    >>> found.net.sigma_w, round(found.noise_std, 2)
    (2.0, 0.7)
    """
    low, high = (checks.positive("noise_between", end) for end in noise_between)
    if low >= high:
        raise ValueError(f"noise_between = {noise_between!r}: give two numbers, the smaller one first")
    found = [_best_noise(replace(net, sigma_w=scale), X, y, log(low), log(high)) for scale in sigma_w]
    if not found:
        raise ValueError("sigma_w is empty: give at least one scale of the weights")
    return max(found, key=lambda choice: choice.log_evidence)


def _best_noise(net: MLP, X: ArrayLike, y: ArrayLike, low: float, high: float) -> Choice:
    spectrum = _spectrum(net, X, y)
    best = minimize_scalar(
        lambda at: -_evidence(*spectrum, exp(at)), bounds=(low, high), method="bounded", options={"xatol": 1e-4}
    )
    return Choice(net, exp(float(best.x)), -float(best.fun))


def _spectrum(net: MLP, X: ArrayLike, y: ArrayLike) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Eigenvalues of Theta_XX, and y in the coordinates of its eigenvectors."""
    X = checks.points("X", X, net.in_dim)
    y = checks.labels("y", y, len(X))
    values, vectors = eigh(kernels.kernel(net, X).ntk)
    return np.maximum(values, 0), vectors.T @ y


def _evidence(values: Float[np.ndarray, " n"], along: Float[np.ndarray, " n"], noise_std: float) -> float:
    total = values + noise_std**2
    return float(-0.5 * np.sum(along**2 / total + np.log(total) + log(2 * pi)))
