"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.

Where several N x N matrices do not fit in memory but one does, and its factor takes less work than products, Theta is
factorised in place. Otherwise conjugate gradients solve for all columns of r at the same time, from products with Theta
alone. Their number of iterations grows with the root of the condition number, so the large eigenvalues are taken out
first, by a Nystroem approximation of Theta from some of its columns (Frangella, Tropp and Udell, 2023).
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf, log
from types import SimpleNamespace

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.any_network import Network
from rndlib.cores import slices
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

BLOCK = 1024
"""Rows of Theta that are computed at a time."""

EXPECTED = 40
"""Products that conjugate gradients may take, to which the work of factorising Theta is compared."""

RTOL, ITERATIONS = 1e-6, 1000
"""Residual of each column after training, relative to the one before, and most products."""

Rows = Float[np.ndarray, "columns n"]
Product = Callable[[Rows], Rows]
"""Theta times some vectors."""
Some = Callable[[np.ndarray], Rows]
"""The columns of Theta with these numbers, in rows."""


def weights(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    r: Columns,
    flow: GradientFlow,
    noise_std: float,
) -> tuple[Columns, float, str]:
    """v for each column of residuals r, with noise_std^2 on the diagonal of Theta.

    `point` has networks of one output. With v come the norm of the residual after training, relative to that of r, and
    in words how v was found: by matrices of Theta, or, if they do not fit in the memory of `flow`, by one matrix or by
    conjugate gradients. Raises a ValueError if Theta is singular and the training time is long enough for this to
    matter, or if matrices do not fit and the time is finite.
    """
    n, noise, size = len(X), noise_std**2, np.linalg.norm(r)
    by = f"matrices of {n:,} rows ({matrices.size(matrices.needed(n))} of {matrices.size(flow.memory)})"
    if matrices.needed(n) <= flow.memory:
        theta = np.add(*backend.tangent_kernels(net, point, X))[:, 0, 0] + noise * np.eye(n)
        v = np.stack([gain(A, residuals, flow.time, None) for A, residuals in zip(theta, r, strict=True)])
        left = r - theta @ v
    elif flow.time < inf:
        raise ValueError(f"{matrices.refusal(n, flow.memory)}, or time = inf, for which they are not formed")
    else:
        bodies = [mapped(lambda a, body=body: a[body : body + 1], point) for body in range(len(r))]
        one = 16 * n**2 <= flow.memory and isinstance(net, MLP) and _cheaper(net, n, r.shape[2])
        find = _by_one_matrix if one else partial(_by_products, rank=min(RANK, max(1, flow.memory // (16 * n))))
        v = np.stack([find(backend, net, own, X, each, noise) for own, each in zip(bodies, r, strict=True)])
        left = r - noise * v - transfer(backend, net, point, X, v, X).transpose(0, 2, 1)
        by = f"{'one matrix' if one else 'conjugate gradients'}: {by} do not fit"
    return v, float(np.linalg.norm(left) / size) if size else 0.0, by


def value_weights(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    following: tuple[Float[np.ndarray, "n *shape"], Float[np.ndarray, " n"]],
    r: Columns,
    gamma: float,
) -> Columns:
    """v at the fixed point of temporal differences, for each column r of the differences at the start.

    Raises a ValueError where training would not come to it.
    """
    (X_next, discount), n = following, len(X)
    theta = np.add(*backend.tangent_kernels(net, point, np.concatenate([X, X_next])))[:, 0, 0]
    A = theta[:, :n, :n] - discount[:, None] * theta[:, n:, :n]
    return np.stack([fixed_point(own.T, differences, gamma) for own, differences in zip(A, r, strict=True)])


def pulled_back(backend: Backend, net: Network, point: Params, X: Float[np.ndarray, "n *shape"], v: Columns) -> Changes:
    """J' v of networks of one output, for every column of v (bodies, N, columns), as many at a time as memory holds."""
    return mapped(lambda *parts: np.concatenate(parts, axis=1), *_pulled(backend, net, point, X, v))


def transfer(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    v: Columns,
    X_test: Float[np.ndarray, "t *shape"],
) -> Float[np.ndarray, "bodies columns t"]:
    """Theta(X_test, X) v of networks of one output, for every column of v (bodies, N, columns)."""
    pulled = _pulled(backend, net, point, X, v)
    return np.concatenate([backend.push_forward(net, point, each, X_test) for each in pulled], axis=1)


def _pulled(backend: Backend, net: Network, point: Params, X: np.ndarray, v: Columns) -> Iterator[Changes]:
    """J' v of some columns at a time."""
    groups = (v[:, :, some] for some in slices(v.shape[2], column_group(net, len(v))))
    return (backend.pull_back(net, point, X, group) for group in groups)


def _cheaper(net: MLP, n: int, columns: int) -> bool:
    """Whether forming and factorising Theta takes less arithmetic than its products with so many columns."""
    return n * (n / 3 + 4 * net.width * net.depth) <= EXPECTED * 4 * net.parameters(1) * columns


def _by_one_matrix(
    backend: Backend, net: Network, own: Params, X: np.ndarray, r: Float[np.ndarray, "n columns"], noise: float
) -> Float[np.ndarray, "n columns"]:
    """v for the columns of r, of one body, by the factor of Theta."""
    A = np.empty((len(X), len(X)))
    for rows in slices(len(X), BLOCK):
        A[rows] = backend.kernel_between(net, own, X[rows], X)[0]
    A.flat[:: len(X) + 1] += noise
    return gain(A, r, inf, None, overwrite=True)


def _by_products(
    backend: Backend,
    net: Network,
    own: Params,
    X: np.ndarray,
    r: Float[np.ndarray, "n columns"],
    noise: float,
    rank: int,
) -> Float[np.ndarray, "n columns"]:
    """The same by products with Theta."""

    def product(vectors: Rows) -> Rows:
        return transfer(backend, net, own, X, vectors.T[None], X)[0]

    def some(numbers: np.ndarray) -> Rows:
        blocks = slices(len(numbers), max(1, FORMED // net.parameters(1)))
        return np.concatenate([backend.kernel_between(net, own, X, X[numbers[block]])[0] for block in blocks], 1).T

    return solve(product, some, r.T, noise, rank).T


def solve(product: Product, some: Some, r: Rows, noise: float, rank: int) -> Rows:
    """v with (Theta + noise I) v = r, up to RTOL. The preconditioner is always of the same columns.

    Raises a ValueError if the vectors have not converged after ITERATIONS products, or only by a recurrence that has
    lost the residual to rounding.
    """
    values, precondition = _preconditioner(some, r.shape[1], noise, rank)
    v, unsolved = conjugate_gradients(lambda v: product(v) + noise * v, precondition, r, RTOL, ITERATIONS, _NUMPY, inf)
    residual = np.linalg.norm(r - product(v) - noise * v, axis=1)
    left = float((residual / np.maximum(np.linalg.norm(r, axis=1), np.finfo(float).tiny)).max())
    if not unsolved.any() and left <= 10 * RTOL:
        return v
    # With condition number c, k iterations leave 2 e^{-2 k / sqrt(c)} of the error. The preconditioner leaves about
    # four times the smallest eigenvalue that it takes out, and rounding eps times the largest, over the noise.
    n = r.shape[1]
    enough = max(4 * values[0] * (log(2 / RTOL) / (2 * ITERATIONS)) ** 2, n * np.finfo(float).eps * values[-1] / RTOL)
    raise ValueError(
        f"X: the tangent kernel of its {n} rows is too near to singular to train without forming it (conjugate "
        f"gradients leave a residual of {left:.0e}): give noise_std of about {enough**0.5:.2g} or more where it is "
        "offered, or more memory"
    )


def _preconditioner(
    some: Some, n: int, noise: float, rank: int
) -> tuple[Float[np.ndarray, " rank"], Callable[[Rows], Rows]]:
    """Ascending eigenvalues of B'B, which is near to Theta, and the inverse of B'B + s I up to a factor.

    B has `rank` rows. All other eigenvalues of Theta count as the smallest of B'B, so s is that and the noise.
    """
    numbers = np.random.default_rng(0).permutation(n)[:rank]
    C = some(numbers)
    inner = C[:, numbers]
    # A shift by rounding keeps it positive definite.
    inner.flat[:: len(inner) + 1] += len(inner) * np.finfo(float).eps * float(np.linalg.norm(inner))
    B = linalg.solve_triangular(linalg.cholesky(inner, lower=True), C, lower=True)
    square = B @ B.T
    values = linalg.eigvalsh(square)
    square.flat[:: len(square) + 1] += max(noise + max(values[0], 0.0), np.finfo(float).eps * values[-1])
    factor = linalg.cho_factor(square)
    return values, lambda v: v - linalg.cho_solve(factor, B @ v.T).T @ B


def _while(condition: Callable[..., bool], step: Callable[..., object], state: object) -> object:
    while condition(state):
        state = step(state)
    return state


_NUMPY = SimpleNamespace(xp=np, while_loop=_while, constant=lambda value, like: np.asarray(value))
