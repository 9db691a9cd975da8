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
from rndlib.theory.dynamics import gain
from rndlib.training import matrices
from rndlib.training.iterative import solve
from rndlib.training.problem import column_group
from rndlib.training.protocols import Backend, Columns
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, draw_offsets


def weights(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    r: Columns,
    flow: GradientFlow,
    noise_std: float,
) -> tuple[Columns, float]:
    """v for each column of residuals r, with noise_std^2 on the diagonal of Theta.

    `point` has networks of one output. With v comes the norm of the residual after training, relative to that of r.
    If Theta does not fit in the memory of `flow`, products with it take its place. Raises a ValueError if Theta is
    singular and the training time is long enough for this to matter, or if it does not fit and the time is finite.
    """
    noise, size = noise_std**2, np.linalg.norm(r)
    if matrices.fit(len(X), flow.memory):
        theta = np.add(*backend.tangent_kernels(net, point, X))[:, 0, 0] + noise * np.eye(len(X))
        v = np.stack([gain(A, residuals, flow.time, None) for A, residuals in zip(theta, r, strict=True)])
        return v, float(np.linalg.norm(r - theta @ v) / size) if size else 0.0
    if flow.time < inf:
        raise ValueError(f"{matrices.refusal(len(X), flow.memory)}, or time = inf, for which they are not formed")

    def product(body: int, columns: np.ndarray) -> np.ndarray:
        own = mapped(lambda a: a[body : body + 1], point)
        return transfer(backend, net, own, X, columns[None], X)[0].T

    each = [partial(product, body) for body in range(len(r))]
    v = np.stack([solve(*both, noise) for both in zip(each, r, strict=True)])
    left = r - noise * v - np.stack([times(own) for times, own in zip(each, v, strict=True)])
    return v, float(np.linalg.norm(left) / size) if size else 0.0


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
