"""Laws of K heads on one body of width n, in the limit of both at K / n = c, trained linearised and to convergence.

The theorems have a fixed number of heads, c = 0. With more, the N K training errors pin down the hidden parameters that
the heads share. Take one hidden layer, and let k_u(x, x') be what unit u adds to the tangent kernel of a head whose
output weight there is 1: Theta = kappa + E_u[k_u]. With s the standard deviation of the noise, let A be the covariance
with which one head sees a unit's features on the training points while all others are trained. It solves

    A = kappa + s^2 I + E_u[P_u],    P_u = k_u - c k_u W_u k_u,    W_u = (A + c k_u)^-1,

all on the training points: the parameters of a unit have their posterior covariance, given c heads per unit. P_u is
(k_u^-1 + c A^-1)^-1, which grows with A. So iterates that start from the A of c = 0 fall, and they stay above kappa.
Theta_c = kappa + E_u[P_u] for any two points has the outer factors k_u taken there. With G = A^-1 Theta_c,Xx and the
residual [D] = D_xx - G^T D_Xx - D_xX G + G^T D_XX G, the covariance of the error of one head is

    [kappa] + s^2 G^T G + E_u [k_u] - c E_u[v^T W_u v]    if the heads share psi, so that Theta_c is the prior;
    [D] + c E_u[v^T W_u dA W_u v]                         if each starts from a covariance D of its own,

with v = k_u,Xx - k_u,XX G and dA = D_XX + c E_u[k_u W_u dA W_u k_u]. The first is a posterior covariance, the second is
its derivative by kappa in the direction D. For standard RND, D is 2 kappa. With one psi per head, it is Theta, with
s^2 I more on the training points.
"""

from collections.abc import Callable
from math import inf, sqrt

import numpy as np
from jaxtyping import Float
from scipy.stats import qmc

from rndlib.cores import slices
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.theory.dynamics import gain

Square = Float[np.ndarray, "n n"]

_UNITS = 2**14  # draws for the mean over units, which leave an error of some 0.2 % of a variance
_NUMBERS = 2**22  # of one array over units
_TOLERANCE = 1e-9
_ITERATIONS = 1000


def covariance(
    net: MLP,
    X: Float[np.ndarray, "n d"],
    X_test: Float[np.ndarray, "T d"],
    heads_per_width: float,
    noise_std: float,
    start: str,
    full_cov: bool,
) -> Float[np.ndarray, "..."]:
    """Covariance (T, T) of the error of one head at `X_test`, or its variances (T,), for a network of depth 2.

    `start` is how errors start: "standard" for RND, and for Bayesian RND how psi is shared between the heads of a body.
    The mean over units is that over fixed quasi-random draws.
    """
    c, noise = heads_per_width, noise_std**2 * np.eye(len(X))
    test = kernels.kernel(net, X_test) if full_cov else kernels.diagonal(net, X_test)
    across, train = kernels.kernel(net, X, X_test), kernels.kernel(net, X)
    units = _Units(net, X, X_test)
    A = _limit(
        lambda A: train.nngp + noise + units.mean(lambda k: np.sum(k @ _solve(A + c * k, A), axis=0)),
        train.ntk + noise,
    )
    G = gain(A, across.nngp + A @ units.mean_across(lambda k, r: np.sum(_solve(A + c * k, r), axis=0)), inf, None)

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.einsum("...na,...nb->ab" if full_cov else "...na,...na->a", left, right, optimize=True)

    def residual(xx: np.ndarray, Xx: np.ndarray, XX: np.ndarray) -> np.ndarray:
        half = product(G, XX @ G / 2 - Xx)
        return xx + half + half.T

    def learned(k: np.ndarray, r: np.ndarray) -> np.ndarray:
        v = r - k @ G
        return product(v, _solve(A + c * k, v))

    if start == "shared":
        of_heads = residual(test.nngp, across.nngp, train.nngp + noise)
        return _symmetric(of_heads + residual(*units.moments(full_cov)) - c * units.mean_across(learned))
    if start == "standard":
        D = 2 * test.nngp, 2 * across.nngp, 2 * train.nngp
    else:
        D = test.ntk, across.ntk, train.ntk + noise

    def others(k: np.ndarray, dA: np.ndarray) -> np.ndarray:
        left = _solve(A + c * k, k)
        return np.sum(np.swapaxes(left, 1, 2) @ dA @ left, axis=0)

    dA = _limit(lambda dA: D[2] + c * units.mean(lambda k: others(k, dA)), D[2])

    def moved(k: np.ndarray, r: np.ndarray) -> np.ndarray:
        left = _solve(A + c * k, r - k @ G)
        return product(left, dA @ left)

    return _symmetric(residual(*D) + c * units.mean_across(moved))


class _Units:
    """Units of the hidden layer, with what each adds to the tangent kernel between the points: k_u."""

    def __init__(self, net: MLP, X: np.ndarray, X_test: np.ndarray):
        points = np.concatenate([X, X_test])
        features = np.hstack(
            [net.sigma_w / sqrt(net.in_dim) * points, np.full((len(points), 1), net.sigma_b)]
        )  # slopes of a pre-activation by the weights and the bias of its unit
        weights = qmc.MultivariateNormalQMC(np.zeros(net.in_dim + 1), rng=0).random(_UNITS)
        slopes = net.sigma_w * net.phi.value_and_slope(weights @ features.T)[1]
        self.train, self.test = slopes[:, : len(X)], slopes[:, len(X) :]
        self.products, self.n = features @ features.T, len(X)

    def mean(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Mean over units of `of`, a sum over a block of them, from k_u (units, n, n) at the training points."""
        parts = (of(self._between(block, self.train)) for block in self._blocks(self.n))
        return sum(parts, start=np.zeros(())) / _UNITS

    def mean_across(self, of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """As `mean`, from k_u (units, n, n) and k_u,Xx (units, n, T)."""
        parts = (
            of(self._between(block, self.train), self._between(block, self.test))
            for block in self._blocks(len(self.products))
        )
        return sum(parts, start=np.zeros(())) / _UNITS

    def _blocks(self, points: int) -> list[slice]:
        return slices(_UNITS, max(1, _NUMBERS // (self.n * points)))

    def _between(self, block: slice, other: np.ndarray) -> np.ndarray:
        products = self.products[: self.n, : self.n] if other is self.train else self.products[: self.n, self.n :]
        return self.train[block, :, None] * other[block, None] * products

    def moments(self, full_cov: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means of k_u at test points, across, and at training points."""
        n, products = self.n, self.products
        across, train = (self.train.T @ part / _UNITS for part in (self.test, self.train))
        if full_cov:
            test = self.test.T @ self.test / _UNITS * products[n:, n:]
        else:
            test = np.mean(self.test**2, axis=0) * products.diagonal()[n:]
        return test, across * products[:n, n:], train * products[:n, :n]


def _symmetric(found: np.ndarray) -> np.ndarray:
    return (found + found.T) / 2


def _solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.broadcast_to(B, (len(A), *B.shape[-2:])))


def _limit(step: Callable[[Square], Square], start: Square) -> Square:
    """The fixed point of `step`, by iteration."""
    for _ in range(_ITERATIONS):
        new = _symmetric(step(start))
        if np.abs(new - start).max() <= _TOLERANCE * np.abs(new).max():
            return new
        start = new
    raise ValueError(
        f"X: the law of many heads did not converge in {_ITERATIONS} steps: drop points that nearly repeat others, or "
        "give noise_std > 0 where it is offered"
    )
