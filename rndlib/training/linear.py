"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.

Where several N x N matrices do not fit in memory, conjugate gradients solve for all columns of r at the same time, from
products with Theta alone. Their number of iterations grows with the root of the condition number, so the large
eigenvalues are taken out first, by a Nystroem approximation of Theta from some of its columns (Frangella, Tropp and
Udell, 2023). It also tells about how many products are left to do: where one matrix fits in memory and its factor takes
less work, Theta is factorised in place.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import inf, log, sqrt
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.any_network import Network
from rndlib.cores import one_thread_each, slices
from rndlib.network import MLP
from rndlib.theory.dynamics import fixed_point, gain
from rndlib.training import matrices
from rndlib.training.backends import Backend, Changes, Columns
from rndlib.training.backends.linearised import FORMED
from rndlib.training.exponential import conjugate_gradients
from rndlib.training.problem import column_group
from rndlib.training.solvers.flow import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

RANK = 800
"""Most columns of Theta of which the preconditioner is made."""

BLOCK = 2048
"""Rows and columns of Theta that are computed at a time."""

RTOL, ITERATIONS = 1e-6, 1000
"""Residual of each column after training, relative to the one before, and most products."""

Rows = Float[np.ndarray, "columns n"]
Some = Callable[[np.ndarray], Rows]
"""The columns of Theta with these numbers, in rows."""


class Nystroem(NamedTuple):
    """B'B, which is near to Theta: its smallest and largest eigenvalue, and the inverse of B'B + s I up to a factor.

    All other eigenvalues of Theta count as the smallest of B'B, so s is that and the noise.
    """

    smallest: float
    largest: float
    precondition: Callable[[Rows], Rows]

    @classmethod
    def of(cls, some: Some, n: int, noise: float, rank: int) -> "Nystroem":
        """That of `rank` columns, always the same."""
        numbers = np.random.default_rng(0).permutation(n)[:rank]
        C = some(numbers)
        inner = C[:, numbers]
        # A shift by rounding keeps it positive definite.
        inner.flat[:: len(inner) + 1] += len(inner) * np.finfo(float).eps * float(np.linalg.norm(inner))
        lower = linalg.cholesky(inner, lower=True)
        B = linalg.solve_triangular(lower, C, lower=True, overwrite_b=True, check_finite=False)
        square = B @ B.T
        values = linalg.eigvalsh(square)
        square.flat[:: len(square) + 1] += max(noise + max(values[0], 0.0), np.finfo(float).eps * values[-1])
        factor = linalg.cho_factor(square)
        return cls(float(values[0]), float(values[-1]), lambda v: v - linalg.cho_solve(factor, B @ v.T).T @ B)

    def products(self, noise: float) -> float:
        """About how many products with Theta conjugate gradients take.

        With condition number c, k of them leave 2 e^{-2 k / sqrt(c)} of the error, and the preconditioner leaves about
        four times the smallest eigenvalue that it takes out.
        """
        return log(2 / RTOL) / 2 * sqrt(1 + 4 * max(self.smallest, 0.0) / noise) if noise else inf


def trained(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    r: Columns,
    flow: GradientFlow,
    noise_std: float,
) -> tuple[Changes, float, str]:
    """J' v for each column of residuals r, with noise_std^2 on the diagonal of Theta.

    `point` has networks of one output. With J' v come the norm of the residual after training, relative to that of r,
    and in words how v was found: by matrices of Theta, or, if they do not fit in the memory of `flow`, by one matrix or
    by conjugate gradients. Raises a ValueError if Theta is singular and the training time is long enough for this to
    matter, or if matrices do not fit and the time is finite.
    """
    n, noise, size = len(X), noise_std**2, float(np.linalg.norm(r))
    by = f"matrices of {n:,} rows ({matrices.size(matrices.needed(n))} of {matrices.size(flow.memory)})"
    if matrices.needed(n) <= flow.memory:
        theta = np.add(*backend.tangent_kernels(net, point, X))[:, 0, 0] + noise * np.eye(n)
        v = np.stack([gain(A, residuals, flow.time, None) for A, residuals in zip(theta, r, strict=True)])
        changes, left = pulled_back(backend, net, point, X, v), r - theta @ v
    elif flow.time < inf:
        raise ValueError(f"{matrices.refusal(n, flow.memory)}, or time = inf, for which they are not formed")
    else:
        bodies = [mapped(lambda a, body=body: a[body : body + 1], point) for body in range(len(r))]
        found = [_without(backend, net, own, X, each.T, flow, noise) for own, each in zip(bodies, r, strict=True)]
        each, left, ways = zip(*found, strict=True)
        changes = mapped(lambda *parts: np.concatenate(parts), *each)
        by = f"{' and '.join(dict.fromkeys(ways))}: {by} do not fit"  # which way is cheaper, each body decides
    return changes, float(np.linalg.norm(left)) / (size or 1.0), by


def values(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    following: tuple[Float[np.ndarray, "n *shape"], Float[np.ndarray, " n"]],
    r: Columns,
    gamma: float,
) -> Changes:
    """J' v at the fixed point of temporal differences, for each column r of the differences at the start.

    Raises a ValueError where training would not come to it.
    """
    (X_next, discount), n = following, len(X)
    theta = np.add(*backend.tangent_kernels(net, point, np.concatenate([X, X_next])))[:, 0, 0]
    A = theta[:, :n, :n] - discount[:, None] * theta[:, n:, :n]
    v = np.stack([fixed_point(own.T, differences, gamma) for own, differences in zip(A, r, strict=True)])
    return pulled_back(backend, net, point, X, v)


def pulled_back(backend: Backend, net: Network, point: Params, X: Float[np.ndarray, "n *shape"], v: Columns) -> Changes:
    """J' v of networks of one output, for every column of v (bodies, N, columns), as many at a time as memory holds."""
    groups = (v[:, :, some] for some in slices(v.shape[2], column_group(net, len(v))))
    parts = [backend.pull_back(net, point, X, group) for group in groups]
    return mapped(lambda *parts: np.concatenate(parts, axis=1), *parts)


def _without(
    backend: Backend, net: Network, own: Params, X: np.ndarray, r: Rows, flow: GradientFlow, noise: float
) -> tuple[Changes, Rows, str]:
    """J' v and the residuals after training, of one body and from its r, without room for all matrices, and how."""
    n, columns = len(X), len(r)

    def pull(v: Rows) -> Changes:
        return pulled_back(backend, net, own, X, v.T[None])

    def push(changes: Changes) -> Rows:
        return backend.push_forward(net, own, changes, X)[0]

    def some(numbers: np.ndarray) -> Rows:
        blocks = slices(len(numbers), max(1, FORMED // net.parameters(1)))
        return np.concatenate([backend.kernel_between(net, own, X, X[numbers[block]])[0] for block in blocks], 1).T

    nystroem = Nystroem.of(some, n, noise, min(RANK, max(1, flow.memory // (16 * n))))
    # Arithmetic per point. That of a Cholesky factorisation, n^2 / 3, takes half as long as the same of products.
    formed = n * (n / 6 + net.width * net.depth) if isinstance(net, MLP) else inf
    instead = formed < 4 * net.parameters(1) * columns * nystroem.products(noise)
    if instead and matrices.needed(n, matrices.FACTORISED) <= flow.memory:
        v = gain(_theta(backend, net, own, X, noise), r.T, inf, None, overwrite=True).T
        changes = pull(v)
        return changes, r - noise * v - push(changes), "one matrix"
    return *solve(pull, push, nystroem, r, noise), "conjugate gradients"


def _theta(backend: Backend, net: Network, own: Params, X: np.ndarray, noise: float) -> Float[np.ndarray, "n n"]:
    """Theta of one body, with noise on the diagonal."""
    n, size = len(X), min(BLOCK, len(X))
    A = np.empty((n, n))
    # The last block reaches back, so that all have one shape and share a program.
    blocks = [slice(start, start + size) for start in (min(start, n - size) for start in range(0, n, size))]
    for left, right in combinations_with_replacement(blocks, 2):
        A[left, right] = backend.kernel_between(net, own, X[left], X[right])[0]
        A[right, left] = A[left, right].T
    A.flat[:: n + 1] += noise
    return A


def solve(
    pull: Callable[[Rows], Any], push: Callable[[Any], Rows], nystroem: Nystroem, r: Rows, noise: float
) -> tuple[Any, Rows]:
    """J' v with (Theta + noise I) v = r, up to RTOL, and the residuals of v. `pull` multiplies by J', `push` by J.

    Raises a ValueError if the vectors have not converged after ITERATIONS products, or only by a recurrence that has
    lost the residual to rounding.
    """
    with one_thread_each():  # its threads would wait, by spinning, on the cores that the products need
        v, unsolved = conjugate_gradients(
            lambda v: push(pull(v)) + noise * v, nystroem.precondition, r, RTOL, ITERATIONS, _NUMPY, inf
        )
    changes, n = pull(v), r.shape[1]
    residual = r - noise * v - push(changes)
    before = np.maximum(np.linalg.norm(r, axis=1), np.finfo(float).tiny)
    left = float((np.linalg.norm(residual, axis=1) / before).max())
    if not unsolved.any() and left <= 10 * RTOL:
        return changes, residual
    # The inverse of `products`; and rounding leaves eps times the largest eigenvalue, over the noise.
    enough = max(
        4 * nystroem.smallest * (log(2 / RTOL) / (2 * ITERATIONS)) ** 2,
        n * np.finfo(float).eps * nystroem.largest / RTOL,
    )
    raise ValueError(
        f"X: the tangent kernel of its {n} rows is too near to singular to train without forming it (conjugate "
        f"gradients leave a residual of {left:.0e}): give noise_std of about {enough**0.5:.2g} or more where it is "
        "offered, or more memory"
    )


def _while(condition: Callable[..., bool], step: Callable[..., object], state: object) -> object:
    while condition(state):
        state = step(state)
    return state


_NUMPY = SimpleNamespace(xp=np, while_loop=_while, constant=lambda value, like: np.asarray(value))
