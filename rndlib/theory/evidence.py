"""Hyperparameters of the NTK-GP by its exact log evidence, log N(y | 0, s^2 (Theta_XX + phi phi') + noise_std^2 I).

Theta is the NTK of an erf network that reads X / input_scales, and phi are the features of a prior, if it has any. The
log evidence has analytic derivatives (`rndlib.theory.erf`), which L-BFGS follows from several starts. Arguments are
checked by the estimators.

Few rows leave many hyperparameters open, and the largest evidence then has no noise and a function of one column. So
the logs of input_scale / sigma_w, sigma_w, sigma_b, s and 2 noise_std have standard normal priors, in units in which
columns of X and y have deviation 1.
"""

from dataclasses import dataclass
from functools import partial
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import eigh, get_lapack_funcs
from scipy.optimize import minimize

from rndlib.cores import parallel
from rndlib.network import MLP
from rndlib.theory import erf, kernels

DEPTHS = (2, 3)
"""Depths of networks, of which that with the largest evidence is taken."""

MOST_ROWS = 1500
"""Rows on which the evidence is computed."""

# Points on which starts are tried and compared, and iterations there and on all points.
_FEW, _TRIAL, _SOME, _FULL = 200, 20, 500, 100
# (sigma_w, sigma_b) to start from: with small biases the network is a smooth function of scalar products, with large
# ones of differences of points. Evidence has optima of both kinds.
_STARTS = [(1.0, 0.5), (0.5, 8.0)]
_NOISE_GUESS = 0.5  # median of its prior
# Where each hyperparameter is sought, for columns of X and y of deviation 1.
_INPUT_SCALE, _WEIGHT, _BIAS, _OUTPUT, _NOISE = (1e-3, 1e4), (0.1, 10.0), (1e-2, 1e2), (1e-3, 1e3), (1e-3, 3.0)

_RATIOS = np.exp(np.linspace(-20, 10, 3001))  # that `of_kernel` tries
_EPS = 1e-13  # smallest eigenvalue over the largest, of a matrix that is not singular
_ENOUGH = 1e-5  # change of the loss in an iteration that ends L-BFGS, relative to it
_KEPT = 30  # iterations whose slopes it keeps: more than ten columns have hyperparameters, where 10 take twice as long
_LARGE = 1e3  # of features, whose weights have variance 1 in deviations of the labels
_REFUSED = 1e10  # in place of infinity, which L-BFGS cannot interpolate

Points = Float[np.ndarray, "n d"]
Labels = Float[np.ndarray, " n"]
Features = Float[np.ndarray, "n p"]
Vector = Float[np.ndarray, " _"]
Bounds = Float[np.ndarray, "_ 2"]
_factor, _solve, _invert = get_lapack_funcs(("potrf", "potrs", "potri"), dtype=np.float64)


@dataclass(frozen=True)
class Hyperparameters:
    """An NTK-GP: the prior is `output_scale`^2 times the NTK of `net` at X / `input_scales`, plus that of features.

    net: erf network; its width means nothing here.
    input_scales: length scales, one per column of X, in the units of X.
    output_scale, noise_std: in the units of y.
    log_evidence: of the rows that it was computed from, in nats.
    rows: number of these rows.
    """

    net: MLP
    input_scales: Float[np.ndarray, " d"]
    output_scale: float
    noise_std: float
    log_evidence: float
    rows: int


def maximise(
    X: Points,
    y: Labels,
    *,
    features: Features | None = None,
    noise_std: float | None = None,
    input_scales: Vector | None = None,
) -> Hyperparameters:
    """The hyperparameters of largest log evidence for `X` (N, D) and `y` (N,).

    X and y are standardised: columns of deviation 1, or constant. A `noise_std` or `input_scales` (D,) that is given is
    kept, and so are the `features` (N, p). Beyond MOST_ROWS points, that many are drawn at random. Raises ValueError if
    no start has a positive definite kernel, as for repeated points with `noise_std=0`.
    """
    phi = np.empty((len(X), 0)) if features is None else features
    order = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
    bounds = _bounds(X.shape[1], noise_std, input_scales)
    few = order[:_FEW]
    starts = [(depth, _start(depth, X[few], *sigmas, bounds)) for depth in DEPTHS for sigmas in _STARTS]
    if features is not None:  # also from the optimum without them, so that a comparison does not depend on the starts
        alone = maximise(X, y, noise_std=noise_std, input_scales=input_scales)
        found = [*alone.input_scales, alone.net.sigma_w, alone.net.sigma_b, alone.output_scale, alone.noise_std or 1.0]
        starts.append((alone.net.depth, np.clip(np.log(found), *bounds.T)))
    # A few points take each start near its optimum, some tell which is best of a depth, and all which depth is.
    for rows, iterations in ((few, _TRIAL), (order[:_SOME], _TRIAL // 2), (order, _FULL)):
        climb = partial(_climb, (X[rows], y[rows], phi[rows]), bounds, noise_std, iterations)
        ends = sorted(parallel(climb, starts), key=lambda end: end[2])
        starts = [(depth, at) for depth, at, _ in ends]
        if rows is not few:
            starts = list({depth: (depth, at) for depth, at in reversed(starts)}.values())
    depth, at, loss = ends[0]
    if loss >= _REFUSED:
        most = float(np.abs(phi).max(initial=0.0))
        if most > _LARGE:
            text = "give numbers of about 1, such as (t - mean) / std with fixed mean and std"
            raise ValueError(f"features(X) are as large as {most:.2g}: {text}")
        raise _singular("of X", "None" if noise_std is None else f"{noise_std:.3g} standard deviations of y")
    return Hyperparameters(*_read(at, depth, noise_std), _prior(at, bounds)[0] - loss, len(order))


def _bounds(in_dim: int, noise_std: float | None, input_scales: Vector | None) -> Bounds:
    """Logs between which each hyperparameter is sought: input scales, sigma_w, sigma_b, output scale and noise.

    What is fixed has equal bounds; a fixed noise is read elsewhere, as it may be 0.
    """
    scales = np.tile(_INPUT_SCALE, (in_dim, 1)) if input_scales is None else np.stack([input_scales] * 2, axis=1)
    return np.log(np.vstack([scales, _WEIGHT, _BIAS, _OUTPUT, _NOISE if noise_std is None else (1.0, 1.0)]))


def _start(depth: int, X: Points, sigma_w: float, sigma_b: float, bounds: Bounds) -> Vector:
    """Input scales that undo sigma_w, a mean prior variance of 1 and a noise of a half, within bounds."""
    start = np.log([*[sigma_w] * X.shape[1], sigma_w, sigma_b, 1.0, _NOISE_GUESS])
    net, scales, _, _ = _read(np.clip(start, *bounds.T), depth, None)
    start[-2] = -np.log(np.mean(kernels.diagonal(net, X / scales).ntk)) / 2
    return np.clip(start, *bounds.T)


def _prior(at: Vector, bounds: Bounds) -> tuple[float, Vector]:
    """Minus the log density of `at`, up to a constant, and its derivatives. What is fixed has none."""
    in_dim = len(at) - 4
    deviations = at.copy()
    deviations[:in_dim] -= at[in_dim]
    deviations[-1] -= log(_NOISE_GUESS)
    deviations[bounds[:, 0] == bounds[:, 1]] = 0
    slope = deviations.copy()
    slope[in_dim] -= deviations[:in_dim].sum()
    return float(deviations @ deviations / 2), slope


def _read(at: Vector, depth: int, noise_std: float | None) -> tuple[MLP, Vector, float, float]:
    """Network, input scales, output scale and noise from their logs."""
    scales = np.exp(at[:-4])
    sigma_w, sigma_b, output_scale, noise = np.exp(at[-4:]).tolist()
    net = MLP(len(scales), depth=depth, activation="erf", sigma_w=sigma_w, sigma_b=sigma_b)
    return net, scales, output_scale, noise if noise_std is None else noise_std


def _climb(
    data: tuple[Points, Labels, Features], bounds: Bounds, noise_std: Any, iterations: int, start: tuple[int, Vector]
) -> tuple[int, Vector, float]:
    """Depth, where L-BFGS ends from a start at that depth, and its loss there; _REFUSED if no kernel was definite."""
    depth, at = start

    def loss(at: Vector) -> tuple[float, Vector]:
        value, slope = negative_log_evidence(*data, *_read(at, depth, noise_std))
        improbable, back = _prior(at, bounds)
        return min(value + improbable, _REFUSED), slope + back

    options = {"maxiter": iterations, "ftol": _ENOUGH, "maxcor": _KEPT}
    end: Any = minimize(loss, at, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return depth, end.x, float(end.fun)


def negative_log_evidence(
    X: Points, y: Labels, phi: Features, net: MLP, scales: Vector, output_scale: float, noise_std: float
) -> tuple[float, Vector]:
    """Minus the log evidence of `y` (N,), and its derivatives by the logs of all hyperparameters.

    They are the input scales, sigma_w, sigma_b, output scale and noise. A kernel that is not positive definite in
    float64 gives infinity and zeros.
    """
    Z, s2 = X / scales, output_scale**2
    theta = kernels.ntk(net, Z)
    K = s2 * (theta + phi @ phi.T)
    K.flat[:: len(K) + 1] += noise_std**2
    smallest = len(K) * np.finfo(float).eps * K.max()
    factor, failed = _factor(K.T, lower=0, overwrite_a=1, clean=0)
    if failed or factor.diagonal().min() ** 2 <= smallest:
        return np.inf, np.zeros(X.shape[1] + 4)
    solved = _solve(factor, np.column_stack([y, phi]), lower=0)[0]
    a, P = solved[:, 0], solved[:, 1:]
    value = 0.5 * np.sum(y * a) + np.log(factor.diagonal()).sum() + 0.5 * len(y) * log(2 * pi)
    inverse = _invert(factor, lower=0, overwrite_c=1)[0].T  # its lower triangle
    by_noise = noise_std**2 * (np.trace(inverse) - np.sum(a * a))

    def by_theta(rows: slice) -> np.ndarray:
        return s2 / 2 * (inverse[rows, : rows.stop] - np.outer(a[rows], a[: rows.stop]))

    along, columns, by_w, by_b = erf.pullback(net, Z, theta, by_theta)
    along += s2 / 2 * (np.sum(phi * P) - np.sum((phi.T @ a) ** 2))
    return float(value), np.concatenate([-columns, [by_w, by_b, 2 * along, by_noise]])


def of_kernel(K: Float[np.ndarray, "n n"], y: ArrayLike, noise_std: float | None = None) -> tuple[float, float, float]:
    """Output scale s and noise of largest log N(y | 0, s^2 K + noise_std^2 I), and that log evidence in nats.

    `K` (N, N) is any kernel matrix, and `y` (N,) or (N, outputs). A `noise_std` that is given is kept. After one
    eigendecomposition, ratios of variances that differ by one in a hundred are tried. Raises ValueError if K or y is 0,
    or if K is singular and `noise_std=0` is given.
    """
    values, vectors = eigh(K)
    Y = np.reshape(y, (len(values), -1))
    squares = np.sum((vectors.T @ Y) ** 2, axis=1) / Y.shape[1]
    values = np.maximum(values, 0)
    mean, power = float(values.mean()), float(squares.mean())
    if not (mean > 0 and power > 0):
        raise ValueError(f"{'K' if power > 0 else 'y'} is 0: no scale has the largest evidence: give values that vary")
    if noise_std == 0 and values[0] <= _EPS * values[-1]:
        raise _singular("K", repr(noise_std))
    if noise_std is None:  # of noise over signal, given which s^2 is known
        s2 = np.array([np.mean(squares / (values + ratio * mean)) for ratio in _RATIOS])
        noise2 = _RATIOS * mean * s2
    else:  # of signal over labels
        s2, noise2 = _RATIOS * power / mean, np.full_like(_RATIOS, noise_std**2)
    total = np.outer(s2, values) + noise2[:, None]
    losses = Y.shape[1] / 2 * np.sum(squares / total + np.log(total) + log(2 * pi), axis=1)
    best = int(losses.argmin())
    return float(s2[best] ** 0.5), float(noise2[best] ** 0.5) if noise_std is None else noise_std, -float(losses[best])


def _singular(name: str, noise_std: str) -> ValueError:
    text = "drop rows that repeat others, or give a larger noise_std"
    return ValueError(f"noise_std = {noise_std}: the kernel matrix {name} is singular: {text}")
