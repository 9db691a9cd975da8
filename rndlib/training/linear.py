"""Training of networks that are linear in their parameters, exactly.

A network linearised at theta_0 keeps its tangent kernel Theta, and each head has parameters of its own: the change of
its function is Theta_xX v, with v = Theta^-1 (I - e^{-t Theta}) r for the residual r at the start. All heads of a body
share one N x N system, at any width and number of heads, where training on shared parameters would have one of
N K x N K.
"""

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.theory.dynamics import gain
from rndlib.training.protocols import Backend, Columns
from rndlib.training.weights import Params, draw_offsets


def weights(
    backend: Backend,
    net: Network,
    point: Params,
    X: Float[np.ndarray, "n *shape"],
    r: Columns,
    time: float,
    noise_std: float,
) -> tuple[Columns, float]:
    """v for each column of residuals r, with noise_std^2 on the diagonal of Theta.

    `point` has networks of one output. With v comes the norm of the residual after training, relative to that of r.

    Raises
    ------
    ValueError: Theta is singular, and `time` is long enough for this to matter.
    """
    theta = np.add(*backend.tangent_kernels(net, point, X))[:, 0, 0] + noise_std**2 * np.eye(len(X))
    v = np.stack([gain(A, residuals, time, None) for A, residuals in zip(theta, r, strict=True)])
    size = np.linalg.norm(r)
    return v, float(np.linalg.norm(r - theta @ v) / size) if size else 0.0


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
