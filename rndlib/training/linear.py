"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.

Where the N x N matrices do not fit in memory, conjugate gradients solve for all columns of r at the same time, from
products with Theta alone. Their number of iterations grows with the root of the condition number, so the large
eigenvalues are taken out first, by a randomised Nystroem approximation of Theta of low rank (Frangella, Tropp and
Udell, 2023).
"""

from collections.abc import Callable, Iterator
from math import inf, log
from types import SimpleNamespace

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.any_network import Network
from rndlib.cores import slices
from rndlib.theory.dynamics import fixed_point, gain
from rndlib.training import matrices
from rndlib.training.backends import Backend, Changes, Columns
from rndlib.training.exponential import conjugate_gradients
from rndlib.training.problem import column_group
from rndlib.training.solvers.flow import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

RANK = 256
"""Eigenvalues that the preconditioner takes out. Above some hundred, finding them takes longer than it saves."""

TOGETHER = 32
"""Columns of which the preconditioner takes products at the same time."""

RTOL, ITERATIONS = 1e-6, 1000
"""Residual of each column after training, relative to the one before, and most products."""

Rows = Float[np.ndarray, "columns n"]
Product = Callable[[Rows], Rows]
"""Theta times some vectors."""


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
    in words how v was found: by matrices of Theta, or, if they do not fit in the memory of `flow`, by conjugate
    gradients. Raises a ValueError if Theta is singular and the training time is long enough for this to matter, or if
    matrices do not fit and the time is finite.
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

        def product(body: int) -> Product:
            own = mapped(lambda a: a[body : body + 1], point)
            return lambda vectors: transfer(backend, net, own, X, vectors.T[None], X)[0]

        products = [product(body) for body in range(len(r))]
        v = np.stack([solve(theta, own.T, noise).T for theta, own in zip(products, r, strict=True)])
        left = r - noise * v - np.stack([theta(own.T).T for theta, own in zip(products, v, strict=True)])
        by = f"conjugate gradients: {by} do not fit"
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
    return np.concatenate([backend.push_forward(net, point, each, X_test, "float64") for each in pulled], axis=1)


def _pulled(backend: Backend, net: Network, point: Params, X: np.ndarray, v: Columns) -> Iterator[Changes]:
    """J' v of some columns at a time."""
    groups = (v[:, :, some] for some in slices(v.shape[2], column_group(net, len(v))))
    return (backend.pull_back(net, point, X, group) for group in groups)


def solve(product: Product, r: Rows, noise: float) -> Rows:
    """v with (Theta + noise I) v = r, up to RTOL. The random sketch of the preconditioner is always the same.

    Raises a ValueError if the vectors have not converged after ITERATIONS products.
    """
    values, vectors = _preconditioner(product, r.shape[1], noise)
    v, unsolved = conjugate_gradients(
        lambda v: product(v) + noise * v,
        lambda v: v + ((v @ vectors.T) * (values[-1] / values - 1)) @ vectors,
        *(r, RTOL, ITERATIONS, _NUMPY, inf),
    )
    if not unsolved.any():
        return v
    residual = np.linalg.norm(r - product(v) - noise * v, axis=1)
    left = float((residual / np.maximum(np.linalg.norm(r, axis=1), np.finfo(float).tiny)).max())
    # With condition number c, k iterations leave 2 e^{-2 k / sqrt(c)} of the error. The preconditioner leaves about
    # four times the smallest eigenvalue that it takes out, and rounding eps times the largest, over the noise.
    n = r.shape[1]
    enough = max(4 * values[-1] * (log(2 / RTOL) / (2 * ITERATIONS)) ** 2, n * np.finfo(float).eps * values[0] / RTOL)
    raise ValueError(
        f"X: the tangent kernel of its {n} rows is too near to singular to train without forming it (a residual "
        f"of {left:.0e} after {ITERATIONS} iterations): give noise_std of about {enough**0.5:.2g} or more where it is "
        "offered, or more memory"
    )


def _preconditioner(product: Product, n: int, noise: float) -> tuple[Float[np.ndarray, " rank"], Rows]:
    """The largest eigenvalues of Theta + noise I, from the largest on, and their vectors, in rows.

    All other eigenvalues count as the smallest of these.
    """
    rank = min(n, RANK)
    sketch = np.linalg.qr(np.random.default_rng(0).standard_normal((n, rank)))[0].T
    image = np.concatenate([product(sketch[some]) for some in slices(rank, TOGETHER)])
    # A shift by rounding keeps the small matrix positive definite; it is taken off the eigenvalues again.
    shift = np.finfo(float).eps * float(np.linalg.norm(image))
    image = image + shift * sketch
    square = image @ sketch.T
    lower = linalg.cholesky((square + square.T) / 2, lower=True)
    _, roots, vectors = linalg.svd(linalg.solve_triangular(lower, image, lower=True), full_matrices=False)
    return np.maximum(np.maximum(roots**2 - shift, 0.0) + noise, shift), vectors


def _while(condition: Callable[..., bool], step: Callable[..., object], state: object) -> object:
    while condition(state):
        state = step(state)
    return state


_NUMPY = SimpleNamespace(xp=np, while_loop=_while, constant=lambda value, like: np.asarray(value))
