"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.

Where several N x N matrices do not fit in memory, v comes from products with Theta alone (`iterative`), or, where one
matrix fits and its factor takes less work, from Theta factorised in place.
"""

from itertools import combinations_with_replacement
from math import inf

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.cores import slices
from rndlib.network import MLP
from rndlib.theory.dynamics import fixed_point, gain
from rndlib.training import matrices
from rndlib.training.backends import Backend, Changes, Columns
from rndlib.training.backends.linearised import FORMED
from rndlib.training.iterative import Nystroem, Rows, solve
from rndlib.training.problem import Following, column_group
from rndlib.training.solvers.flow import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

RANK = 800
"""Most columns of Theta of which the preconditioner is made."""

BLOCK = 2048
"""Rows and columns of Theta that are computed at a time."""


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
    following: Following,
    r: Columns,
    gamma: float,
) -> Changes:
    """J' v at the fixed point of temporal differences, for each column r of the differences at the start.

    Raises a ValueError where training would not come to it.
    """
    n = len(X)
    theta = np.add(*backend.tangent_kernels(net, point, np.concatenate([X, following.X])))[:, 0, 0]
    A = theta[:, :n, :n] - following.discount[:, None] * theta[:, n:, :n]
    sizes = np.abs(theta).max((1, 2))
    v = np.stack([fixed_point(own.T, r, gamma, size) for own, r, size in zip(A, r, sizes, strict=True)])
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
    instead = formed < 4 * net.parameters(1) * columns * nystroem.products
    if instead and matrices.needed(n, matrices.FACTORISED) <= flow.memory:
        v = gain(_theta(backend, net, own, X, noise), r.T, inf, None, overwrite=True).T
        changes = pull(v)
        return changes, r - noise * v - push(changes), "one matrix"
    return *solve(pull, push, nystroem, r), "conjugate gradients"


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
