"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.
"""

from functools import partial
from math import inf

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.cores import slices
from rndlib.network import MLP
from rndlib.theory.dynamics import gain
from rndlib.training import iterative, matrices
from rndlib.training.iterative import solve
from rndlib.training.problem import column_group
from rndlib.training.protocols import Backend, Columns
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, draw_offsets

SOME = 1000
"""Points whose tangent kernel stands for that of all where the work of conjugate gradients is estimated; up to as many,
matrices take less than a second."""

WORTH_SAYING = 2
"""Factor by which products have to be more work than matrices for the report to say so. Estimates are no closer."""


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
    in words how v was found and why: by matrices of Theta, or by conjugate gradients, from products with it. Products
    take the place of matrices that do not fit in the memory of `flow`, or that are estimated to be more work. Raises a
    ValueError if Theta is singular and the training time is long enough for this to matter, or if matrices do not fit
    and the time is finite.
    """
    n, noise, size = len(X), noise_std**2, np.linalg.norm(r)
    needed = f"matrices of {n:,} rows ({matrices.size(matrices.needed(n))} of {matrices.size(flow.memory)})"
    fit = matrices.fit(n, flow.memory)
    if fit:
        why = _less_work(backend, net, point, X, r, flow, noise)
        if why is not None:
            theta = np.add(*backend.tangent_kernels(net, point, X))[:, 0, 0] + noise * np.eye(n)
            v = np.stack([gain(A, residuals, flow.time, None) for A, residuals in zip(theta, r, strict=True)])
            return v, float(np.linalg.norm(r - theta @ v) / size) if size else 0.0, f"{needed}: {why}"
    elif flow.time < inf:
        raise ValueError(f"{matrices.refusal(n, flow.memory)}, or time = inf, for which they are not formed")
    multiplied = 0

    def product(body: int, columns: np.ndarray) -> np.ndarray:
        nonlocal multiplied
        multiplied += columns.shape[1]
        own = mapped(lambda a: a[body : body + 1], point)
        return transfer(backend, net, own, X, columns[None], X)[0].T

    each = [partial(product, body) for body in range(len(r))]
    v = np.stack([solve(*both, noise) for both in zip(each, r, strict=True)])
    left = r - noise * v - np.stack([times(own) for times, own in zip(each, v, strict=True)])
    by = f"conjugate gradients: {f'less work than {needed}' if fit else f'{needed} do not fit'}"
    if not fit and isinstance(net, MLP):
        factor = iterative.work(net, n, multiplied / len(r)) / matrices.work(net, n)
        if factor > WORTH_SAYING:
            by += f", but GradientFlow(memory={matrices.needed(n)}) is about {factor:.0f} times less work"
    return v, float(np.linalg.norm(left) / size) if size else 0.0, by


def _less_work(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    r: Columns,
    flow: GradientFlow,
    noise: float,
) -> str | None:
    """Why matrices that fit in memory are formed, or None where conjugate gradients are estimated to be less work."""
    if flow.time < inf:
        return "the training time is finite"
    if not isinstance(net, MLP):
        return "they fit"  # The work of products with a network of the user's own is not known.
    n, by_matrices = len(X), matrices.work(net, len(X))

    def by_products(eigenvalue: float) -> float:
        return iterative.work(net, n, iterative.columns(n, r.shape[2], eigenvalue, noise))

    if n > SOME and by_products(0.0) < by_matrices:
        first = mapped(lambda a: a[:1], point)
        some = X[np.linspace(0, n - 1, SOME).astype(int)]
        values = np.linalg.eigvalsh(np.add(*backend.tangent_kernels(net, first, some))[0, 0, 0])[::-1]
        if by_products(max(0.0, float(values[iterative.RANK])) * n / SOME) < by_matrices:
            return None
    return "less work than conjugate gradients"


def transfer(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    v: Columns,
    X_test: Float[np.ndarray, "t *shape"],
) -> Float[np.ndarray, "bodies columns t"]:
    """Theta(X_test, X) v of networks of one output, for every column of v (bodies, N, columns)."""
    groups = (v[:, :, some] for some in slices(v.shape[2], column_group(net, len(v))))
    parts = (
        backend.push_forward(net, point, backend.pull_back(net, point, X, group), X_test, "float64") for group in groups
    )
    return np.concatenate(list(parts), axis=1)


def partners(
    start: Float[np.ndarray, "bodies heads places"],
    y: Float[np.ndarray, " n"],
    G: Float[np.ndarray, "n T"],
    noise_std: float,
    seed: int,
) -> Float[np.ndarray, "bodies heads T"]:
    """What training on `y` makes of initial functions if all heads have the kernel that the gain G is of.

    `start` is at the training points and then at the test points. The noise of the targets is that of an estimator with
    this seed.
    """
    residual = start[:, :, : len(y)] - y
    if noise_std:
        xi = draw_offsets(seed, range(len(start)), len(y), start.shape[1])
        residual = residual + noise_std * np.swapaxes(xi, 1, 2)
    return start[:, :, len(y) :] - residual @ G
