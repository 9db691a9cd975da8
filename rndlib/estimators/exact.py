"""Networks of infinite width, trained exactly on up to some ten thousand points.

Training is a linear map of the initial error (Eq. 24 in the proof of Theorem B.1):

    e(x) = e_0(x) - Theta_xX A^-1 (e_0(X) - y + noise xi),    A = Theta_XX + noise^2 I,

with xi the jitter of noisy targets. If the initial error has covariance Theta, as in Bayesian RND (Proposition 4.1),
the result is a draw from the centred posterior, A^-1 y giving the mean (Theorem 4.2). If it has covariance kappa, the
result is a draw of an ensemble, trained with L2 regularisation towards its initial weights if there is noise. Mean,
variance and posterior samples are those of infinite width. Errors and members start from the initial functions of
networks of finite width, so their covariance is only approximately that of the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.cores import slices, split
from rndlib.estimators.functions import PerHead
from rndlib.theory import kernels, reference
from rndlib.theory.dynamics import covariance
from rndlib.training.problem import Block, Drawn, Trained, block_size
from rndlib.training.report import Report

REPORT = Report(inf, 0.0, 0.0, 1, True, ("Mean and variance are exact, those of infinite width, by one N x N matrix.",))

MEMORY, HELD = 2**32, 4
"""Bytes for the N x N matrices of an exact fit, and how many there are at the same time."""

_ENTRIES = 2**24
"""Entries of a block of kernels between training and test points."""

(_pivoted,) = linalg.get_lapack_funcs(("pstrf",), dtype=np.float64)

Columns = Float[np.ndarray, "n columns"]
Points = Float[np.ndarray, "t d"]


def fits(n: int) -> bool:
    """Whether an exact fit of n points stays within MEMORY."""
    return 8 * HELD * n**2 <= MEMORY


@dataclass(frozen=True)
class Exact:
    """The map of training, for points in the network's units, and labels of one output.

    factor: The lower Cholesky factor of A, (N, N).
    weights: A^-1 y, (N,).
    kappa: kappa_XX where errors start with this covariance, and None where they start with Theta.
    trained: The networks whose initial functions become draws. In place of parameters, a block has the solution v of
        its errors at the start, (bodies, N, heads), from the first prediction on that needs it.
    """

    net: reference.Network
    X: Float[np.ndarray, "n d"]
    factor: Float[np.ndarray, "n n"]
    weights: Float[np.ndarray, " n"]
    kappa: Float[np.ndarray, "n n"] | None
    trained: Trained

    @classmethod
    def fit(cls, model: Any, X: Float[np.ndarray, "n d"]) -> "Exact":
        """The map of an estimator, with labels 0 if it has none. Raises a ValueError if A is singular or X too long."""
        if not fits(len(X)):
            raise ValueError(
                f"X has {len(X)} rows, whose matrices take more than {MEMORY / 2**30:.0f} GiB: give BayesianRND, which "
                "needs none, a part of the rows, or a network with solver=StochasticGradient(...)"
            )
        kernel = reference.between(model.net_, X, X)
        A = kernel.ntk
        A.flat[:: len(A) + 1] += model._noise**2
        try:
            factor = linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError as error:
            raise ValueError(
                f"X: the tangent kernel of its {len(X)} rows is singular in float64 with noise_std = "
                f"{model._noise:.3g} (in standard deviations of y): drop rows that nearly repeat others, or give a "
                "larger noise_std"
            ) from error
        y = np.zeros(len(X)) if model._labels is None else model._labels[:, 0]
        weights = linalg.cho_solve((factor, True), y, check_finite=False)
        heads, bodies = model._sizes
        groups = split(bodies, block_size(model.net_, heads, len(X)))
        blocks = [Block(group, model._draw(group, len(X)), []) for group in groups]
        kappa = None if model._bayesian else kernel.nngp
        return cls(model.net_, X, factor, weights, kappa, Trained(bodies, blocks, REPORT))

    def values(self, model: Any, X: Points, drawn: Drawn, params: list) -> PerHead:
        """e after training, of a block of networks at X."""
        if not params:
            r = model._residual(drawn, lambda points: model._start(drawn, points), self.X)
            params.append((np.stack([self.solve(each) for each in r]),))
        v, before = np.concatenate(params[0][0], axis=1), model._start(drawn, X)
        return before - self._blockwise(lambda across, _: v.T @ across.ntk, X).reshape(before.shape)

    def means(self, model: Any, X: Points) -> Float[np.ndarray, "1 1 t"]:
        """The mean estimate at X."""
        return self._blockwise(lambda across, _: self.weights @ across.ntk, X)[None, None]

    def moments(self, X: Points) -> Float[np.ndarray, "2 t"]:
        """The mean estimate at X, and the variance of errors that start with covariance Theta, or of an ensemble."""

        def block(across: kernels.Kernel, points: Points) -> Float[np.ndarray, "2 t"]:
            return np.stack([self.weights @ across.ntk, self._variance(across, points)])

        return self._blockwise(block, X)

    def draws(self, X: Points, count: int, rng: np.random.Generator) -> Float[np.ndarray, "count t"]:
        """Errors drawn jointly over X from the centred posterior, which a T x T matrix takes."""
        if not fits(len(X)):
            raise ValueError(
                f"X has {len(X)} rows, whose matrices take more than {MEMORY / 2**30:.0f} GiB: ask for joint samples "
                "at fewer points, or give a network and linearised=True, whose heads are functions"
            )
        half = self._half(reference.between(self.net, self.X, X))
        left = reference.between(self.net, X, X).ntk - half.T @ half
        # Points that repeat others, or are known, make it singular: the pivoted factor ends where rounding is left.
        lower, order, rank, _ = _pivoted(left, lower=True)
        root = np.empty((len(X), rank))
        root[order - 1] = np.tril(lower)[:, :rank]
        return rng.normal(size=(count, len(X)))[:, :rank] @ root.T

    def solve(self, r: Columns) -> Columns:
        """A^-1 r."""
        return linalg.cho_solve((self.factor, True), r, check_finite=False)

    def _half(self, across: kernels.Kernel) -> Float[np.ndarray, "n t"]:
        """L^-1 Theta_Xx, whose squares are what the training points have taken off the prior's covariance."""
        return linalg.solve_triangular(self.factor, across.ntk, lower=True, check_finite=False)

    def _variance(self, across: kernels.Kernel, X: Points) -> Float[np.ndarray, " t"]:
        at = reference.diagonal(self.net, X)
        if self.kappa is None:  # one triangular solve, where the gain takes two
            half = self._half(across)
            return np.maximum(at.ntk - np.einsum("nt,nt->t", half, half), 0.0)
        return np.maximum(covariance(self.solve(across.ntk), self.kappa, across.nngp, at.nngp), 0.0)

    def held_out(self) -> Float[np.ndarray, " n"]:
        """The variance of an ensemble at each training point, by a fit that leaves it out.

        The error of a kernel regression at a point that is left out is (A^-1 e_0(X))_i / (A^-1)_ii.
        """
        inverse = self.solve(np.eye(len(self.X)))
        square = np.einsum("ij,ij->i", inverse @ self.kappa, inverse)
        return np.maximum(square, 0.0) / inverse.diagonal() ** 2

    def _blockwise(self, block: Callable[[kernels.Kernel, Points], np.ndarray], X: Points) -> np.ndarray:
        size = max(1, _ENTRIES // len(self.X))
        parts = [block(reference.between(self.net, self.X, X[some]), X[some]) for some in slices(len(X), size)]
        return np.concatenate(parts, axis=-1)
