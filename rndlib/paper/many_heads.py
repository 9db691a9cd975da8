"""Laws of K heads on one network of width n, in the limit of both at K / n = c, linearised and trained to convergence.

The theorems have a fixed number of heads, c = 0. With more, the N K training errors pin down the hidden parameters that
the heads share. Take one hidden layer, and let k_u(x, x') be what unit u adds to the tangent kernel of a head whose
output weight there is 1: Theta = kappa + E_u[k_u]. Let A be the covariance with which one head sees a unit's features
on the training points while all others are trained. It solves

    A = kappa + E_u[P_u],    P_u = k_u - c k_u W_u k_u,    W_u = (A + c k_u)^-1,

all on the training points: the parameters of a unit have their posterior covariance, given c heads per unit. P_u is
(k_u^-1 + c A^-1)^-1, which grows with A. So iterates that start from the A of c = 0 fall, and they stay above kappa.
Theta_c = kappa + E_u[P_u] for any two points has the outer factors k_u taken there. With G = A^-1 Theta_c,Xx and the
residual [D] = D_xx - G^T D_Xx - D_xX G + G^T D_XX G, the covariance of the error of one head is

    [kappa] + E_u [k_u] - c E_u[v^T W_u v]    for Bayesian RND, whose heads share psi, so that Theta_c is the prior;
    [D] + c E_u[v^T W_u dA W_u v]             for standard RND, whose errors start from the covariance D = 2 kappa,

with v = k_u,Xx - k_u,XX G and dA = D_XX + c E_u[k_u W_u dA W_u k_u]. The first is a posterior covariance, the second is
its derivative by kappa in the direction D.

A unit has few parameters: one per input, and a bias. So k_u = U U^T, where U has the slopes of what the unit adds by
each of them, with a row per training point; V has a row per test point. With M = U^T A^-1 U, Z = V^T - U^T G, and
the posterior covariance S = (I + c M)^-1 of the unit's parameters,

    P_u = U S U^T,    W_u k_u = A^-1 U S U^T,    v = U Z,    U^T W_u U = M S.

The matrix to invert per unit then has one row per parameter, not one per training point.
"""

from collections.abc import Callable
from math import inf, sqrt

import numpy as np
from jaxtyping import Float
from scipy.stats import qmc

from rndlib import checks
from rndlib.network import MLP
from rndlib.theory import kernels, reference
from rndlib.theory.dynamics import gain

Square = Float[np.ndarray, "n n"]
Slopes = Float[np.ndarray, "units _points parameters"]
Variances = Float[np.ndarray, " T"]

_UNITS = 2**14  # draws for the mean over units, which leave an error of some 0.2 % of a variance
_TOLERANCE = 1e-9
_ITERATIONS = 1000
_REMEDY = "drop points that nearly repeat others"


def head_variance(
    net: MLP, X: Float[np.ndarray, "n d"], X_test: Float[np.ndarray, "T d"], heads_per_width: float, start: str
) -> Variances:
    """Variances (T,) of the error of one head at `X_test`, for a network of depth 2.

    `heads_per_width` is K / n. `start` is how errors start: "standard" for RND, "shared" for Bayesian RND whose heads
    share psi. The mean over units is that over fixed quasi-random draws.

    Raises
    ------
    ValueError: `net` has not one hidden layer, X repeats points, or the iteration does not converge.

    >>> from rndlib import MLP, datasets
    >>> from rndlib.paper import many_heads
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> many_heads.head_variance(net, data.X, data.X_test, 0.5, "shared").round(2)
    array([10.7 ,  0.05])
    """
    if not isinstance(net, MLP) or net.depth != 2:
        raise ValueError(f"net = {net!r}: give an MLP of depth 2")
    checks.choice("start", start, ("standard", "shared"))
    X, X_test = reference.points(net, X, X_test)
    checks.distinct(X)
    c = checks.positive("heads_per_width", heads_per_width)
    test, across, train = kernels.diagonal(net, X_test), kernels.kernel(net, X, X_test), kernels.kernel(net, X)
    U, V, own = _units(net, X, X_test)

    def residual(xx: Variances, Xx: np.ndarray, XX: Square) -> Variances:
        return xx + np.sum(G * (XX @ G - 2 * Xx), axis=0)

    def posterior(root: Square) -> tuple[Slopes, Slopes]:
        """L^-1 U and S, with A = L L^T and `root` L^-1."""
        white = root @ U
        return white, np.linalg.inv(np.eye(U.shape[2]) + c * white.mT @ white)

    A = _limit(lambda A: train.nngp + _mean(U @ posterior(_inverse_root(A))[1], U), train.ntk)
    root = _inverse_root(A)
    white, S = posterior(root)
    G = gain(A, across.nngp + _mean(U @ S, V), inf, None)
    Z = V.mT - U.mT @ G
    if start == "shared":
        learned = np.sum(Z * (white.mT @ white @ S @ Z), axis=(0, 1)) / _UNITS
        prior = residual(test.nngp, across.nngp, train.nngp) + residual(own, _mean(U, V), _mean(U, U))
        return prior - c * learned

    left = U @ S

    def others(dA: Square) -> Square:
        return 2 * train.nngp + c * _mean(left @ (white.mT @ (root @ dA @ root.T @ white)), left)

    dA = _limit(others, 2 * train.nngp)
    moved = white @ S @ Z
    added = np.sum(moved * (root @ dA @ root.T @ moved), axis=(0, 1)) / _UNITS
    return 2 * residual(test.nngp, across.nngp, train.nngp) + c * added


def _units(net: MLP, X: np.ndarray, X_test: np.ndarray) -> tuple[Slopes, Slopes, Variances]:
    """U and V of each unit, and the mean of k_u(x, x) at test points."""
    points, n = np.concatenate([X, X_test]), len(X)
    # Slopes of a pre-activation by the weights and the bias of its unit.
    features = np.hstack([net.sigma_w / sqrt(net.in_dim) * points, np.full((len(points), 1), net.sigma_b)])
    weights = qmc.MultivariateNormalQMC(np.zeros(net.in_dim + 1), rng=0).random(_UNITS)
    slopes = net.sigma_w * net.phi.value_and_slope(weights @ features.T)[1]
    own = np.mean(slopes[:, n:] ** 2, axis=0) * np.sum(features[n:] ** 2, axis=1)
    # Where there are fewer training points than parameters, only as many directions of them matter.
    U, V = np.split(slopes[:, :, None] * (features @ np.linalg.qr(features[:n].T)[0]), [n], 1)
    return U, V, own


def _mean(left: Slopes, right: Slopes) -> np.ndarray:
    """The mean over units of left right^T."""
    return np.tensordot(left, right, ([0, 2], [0, 2])) / _UNITS


def _inverse_root(A: Square) -> Square:
    """L^-1, with A = L L^T."""
    try:
        return np.linalg.inv(np.linalg.cholesky(A))
    except np.linalg.LinAlgError as error:
        raise ValueError(f"X: the theory of many heads meets a singular matrix: {_REMEDY}") from error


def _limit(step: Callable[[Square], Square], start: Square) -> Square:
    """The fixed point of `step`, by iteration."""
    for _ in range(_ITERATIONS):
        new = step(start)
        new = (new + new.T) / 2
        if np.abs(new - start).max() <= _TOLERANCE * np.abs(new).max():
            return new
        start = new
    raise ValueError(f"X: the theory of many heads did not converge in {_ITERATIONS} steps: {_REMEDY}")
