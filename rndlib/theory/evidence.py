"""Hyperparameters of the NTK-GP by its exact log evidence, log N(y | 0, s^2 Theta_XX + noise_std^2 I).

Theta is the NTK of an erf network that reads X / input_scales. Its log evidence has analytic derivatives
(`rndlib.theory.erf`), which L-BFGS follows from several starts. Outputs share the kernel, and their evidences add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, pi

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import eigh, lapack, solve_triangular
from scipy.optimize import minimize

from rndlib import checks
from rndlib.network import MLP
from rndlib.theory import erf

# Points that the starts are tried on, and iterations there.
_FEW, _TRIAL, _FULL = 256, 25, 100
# (sigma_w, sigma_b) to start from: with small biases the network is a smooth function of scalar products, with large
# ones of differences of points. Evidence has optima of both kinds.
_STARTS = [(1.0, 0.5), (1.0, 3.0)]
_INPUT_SCALE, _WEIGHT, _BIAS, _OUTPUT, _NOISE = (1e-3, 1e4), (0.1, 10.0), (1e-2, 100.0), (1e-3, 1e3), (1e-3, 3.0)

Matrix = Float[np.ndarray, "n n"]
Labels = Float[np.ndarray, "n outputs"]
Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " p"]
Bounds = Float[np.ndarray, "p 2"]

_REFUSED = 1e10  # in place of infinity, which L-BFGS cannot interpolate


@dataclass(frozen=True)
class Hyperparameters:
    """An NTK-GP: the prior is `output_scale`^2 times the NTK of `net` at X / `input_scales`.

    net: erf network; its width means nothing here.
    input_scales: length scales, one per column of X, in the units of X.
    output_scale, noise_std: in the units of y.
    log_evidence: of the rows that it was computed from, summed over outputs, in nats.
    rows: number of these rows.
    """

    net: MLP
    input_scales: Float[np.ndarray, " d"]
    output_scale: float
    noise_std: float
    log_evidence: float
    rows: int


def maximise(
    X: ArrayLike,
    y: ArrayLike,
    *,
    depths: Sequence[int] = (2, 3),
    noise_std: float | None = None,
    input_scales: ArrayLike | None = None,
    most_rows: int = 1500,
    seed: int = 0,
) -> Hyperparameters:
    """The hyperparameters of largest log evidence for `X` (N, D) and `y`, (N,) or (N, outputs).

    X and y are standardised: columns of deviation 1, or constant. A `noise_std` or `input_scales` (D,) that is given is
    kept. Beyond `most_rows` points, that many are drawn at random by `seed`.

    Raises
    ------
    ValueError: An argument is no such number or array, or no start has a positive definite kernel, as for repeated
        points with `noise_std=0`.
    """
    X = checks.points("X", X, None)
    Y = _columns(y, len(X))
    if noise_std is not None:
        noise_std = checks.non_negative("noise_std", noise_std)
    if input_scales is not None:
        input_scales = checks.array("input_scales", input_scales, X.shape[1])
        if (input_scales <= 0).any():
            raise ValueError(f"input_scales = {input_scales}: give numbers above 0, one per column of X")
    order = np.random.default_rng(seed).permutation(len(X))[: checks.whole("most_rows", most_rows, at_least=1)]
    bounds = _bounds(X.shape[1], noise_std, input_scales)
    few = order[:_FEW]
    starts = [
        (depth, _start(depth, X[few], np.array([sigma_w, sigma_b]), bounds))
        for depth in depths
        for sigma_w, sigma_b in _STARTS
    ]
    for rows, iterations, kept in ((few, _TRIAL, 2), (order, _TRIAL, 1), (order, _FULL, 1)):
        climbed = [
            (*_climb(X[rows], Y[rows], depth, start, bounds, noise_std, iterations), depth) for depth, start in starts
        ]
        climbed.sort(key=lambda end: end[0])
        starts = [(depth, place) for _, place, depth in climbed[:kept]]
    loss, place, depth = climbed[0]
    if loss == inf:
        raise ValueError(
            f"noise_std = {noise_std!r}: the kernel of X is singular for all hyperparameters that were tried: give a "
            "larger noise_std, or none to have it chosen"
        )
    net, scales, output_scale, noise = _read(place, depth, X.shape[1], noise_std)
    return Hyperparameters(net, scales, output_scale, noise, -loss, len(order))


def _bounds(in_dim: int, noise_std: float | None, input_scales: Vector | None) -> Bounds:
    """Logs between which each hyperparameter is sought: input scales, sigma_w, sigma_b, output scale and noise.

    What is fixed has equal bounds; a fixed noise is read elsewhere, as it may be 0.
    """
    scales = np.tile(_INPUT_SCALE, (in_dim, 1)) if input_scales is None else np.stack([input_scales] * 2, axis=1)
    return np.log(np.vstack([scales, _WEIGHT, _BIAS, _OUTPUT, _NOISE if noise_std is None else (1.0, 1.0)]))


def _start(depth: int, X: Points, sigmas: Vector, bounds: Bounds) -> Vector:
    """Input scales of 1, a mean prior variance of 1 and a noise of a half, within bounds."""
    start = np.log(np.concatenate([np.ones(X.shape[1]), sigmas, [1.0, 0.5]]))
    net, scales, _, _ = _read(np.clip(start, *bounds.T), depth, X.shape[1], None)
    start[-2] = -np.log(np.mean(erf.diagonal(net, X / scales))) / 2
    return np.clip(start, *bounds.T)


def _read(place: Vector, depth: int, in_dim: int, noise_std: float | None) -> tuple[MLP, Vector, float, float]:
    """Network, input scales, output scale and noise from their logs."""
    scales = np.exp(place[:in_dim])
    sigma_w, sigma_b, output_scale, noise = np.exp(place[in_dim:]).tolist()
    net = MLP(in_dim, depth=depth, activation="erf", sigma_w=sigma_w, sigma_b=sigma_b)
    return net, scales, output_scale, noise if noise_std is None else noise_std


def _climb(
    X: Points, Y: Labels, depth: int, start: Vector, bounds: Bounds, noise_std: float | None, iterations: int
) -> tuple[float, Vector]:
    """The smallest negative log evidence that L-BFGS meets from `start`, and where; inf if no kernel was definite."""
    best, best_place = inf, start

    def loss(place: Vector) -> tuple[float, Vector]:
        nonlocal best, best_place
        value, slope = negative_log_evidence(X, Y, *_read(place, depth, X.shape[1], noise_std))
        if value < best:
            best, best_place = value, place.copy()
        return (value, slope) if value < inf else (_REFUSED, slope)

    minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations, "ftol": 1e-6})
    return best, best_place


def negative_log_evidence(
    X: Points, Y: Labels, net: MLP, scales: Vector, output_scale: float, noise_std: float
) -> tuple[float, Vector]:
    """Minus the log evidence of `Y` (N, outputs), and its derivatives by the logs of all hyperparameters.

    They are the input scales, sigma_w, sigma_b, output scale and noise. A kernel that is not positive definite in
    float64 gives infinity and zeros.
    """
    Z, s2 = X / scales, output_scale**2
    theta = erf.ntk(net, Z)
    K = s2 * theta
    K.flat[:: len(K) + 1] += noise_std**2
    factor, failed = lapack.dpotrf(K.T, lower=0, overwrite_a=1, clean=0)
    if failed:
        return inf, np.zeros(X.shape[1] + 4)
    A = lapack.dpotrs(factor, Y, lower=0)[0]
    value = 0.5 * np.sum(Y * A) + Y.shape[1] * np.log(factor.diagonal()).sum() + 0.5 * Y.size * log(2 * pi)
    inverse = lapack.dpotri(factor, lower=0, overwrite_c=1)[0].T  # its lower triangle
    by_noise = noise_std**2 * (Y.shape[1] * np.trace(inverse) - np.sum(A * A))

    def by_theta(rows: slice) -> np.ndarray:
        part = Y.shape[1] * inverse[rows, : rows.stop]
        part -= A[rows] @ A[: rows.stop].T
        part *= s2 / 2
        return part

    along, columns, by_w, by_b = erf.pullback(net, Z, theta, by_theta)
    return float(value), np.concatenate([-columns, [by_w, by_b, 2 * along, by_noise]])


def kernel(prior: Hyperparameters, X1: ArrayLike, X2: ArrayLike | None = None) -> Float[np.ndarray, "n1 n2"]:
    """Prior covariance between the rows of `X1` (N1, D) and `X2` (N2, D), or of `X1` with itself: (N1, N2).

    Takes little memory beside the result.
    """
    X1 = checks.points("X1", X1, prior.net.in_dim) / prior.input_scales
    if X2 is not None:
        X2 = checks.points("X2", X2, prior.net.in_dim) / prior.input_scales
    theta = erf.ntk(prior.net, X1, X2)
    theta *= prior.output_scale**2
    return theta


def diagonal(prior: Hyperparameters, X: ArrayLike) -> Vector:
    """Prior variances of the rows of `X` (N, D): (N,)."""
    X = checks.points("X", X, prior.net.in_dim) / prior.input_scales
    return prior.output_scale**2 * erf.diagonal(prior.net, X)


def log_evidence(K: Matrix, y: ArrayLike, noise_std: float) -> float:
    """log N(y | 0, K + noise_std^2 I), in nats, for a kernel matrix `K` (N, N); summed over the columns of `y`.

    Raises
    ------
    ValueError: The matrix is singular.
    """
    A = checks.array("K", K, len(K), len(K)).copy()
    Y = _columns(y, len(A))
    A.flat[:: len(A) + 1] += checks.non_negative("noise_std", noise_std) ** 2
    factor, failed = lapack.dpotrf(A, lower=1)
    if failed:
        raise ValueError(f"noise_std = {noise_std!r}: K + noise_std^2 I is singular: give a larger noise_std")
    half = solve_triangular(factor, Y, lower=True)
    return float(-0.5 * np.sum(half**2) - Y.shape[1] * np.log(factor.diagonal()).sum() - 0.5 * Y.size * log(2 * pi))


def _columns(y: ArrayLike, rows: int) -> Labels:
    return checks.array("y", y, rows, *[None] * (np.ndim(y) == 2)).reshape(rows, -1)
