"""Derivatives of the NTK of an infinitely wide erf network with respect to every hyperparameter.

They go back by hand through the recursion of `rndlib.theory.kernels`, in strips of rows that stay in cache. With
D = (1 + 2q)(1 + 2q') - 4c^2, the expectations over a pair of variances q, q' and covariance c are (Williams, 1997)

    E  = E[phi phi']  = 2/pi arctan(2c / sqrt D)        dE/dc  = S           dE/dq  = -S c / (1 + 2q)
    S  = E[slopes]    = 4/pi / sqrt D                   dS/dc  = 4 c S / D   dS/dq  = -S (1 + 2q') / D
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from rndlib.cores import slices
from rndlib.network import MLP

# Entries of a strip: some ten arrays of this size fit a core's L2 cache.
_STRIP = 2**15

Points = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " _"]
Strip = Float[np.ndarray, "rows cols"]


def pullback(
    net: MLP, X: Points, theta: Float[np.ndarray, "n n"], weights: Callable[[slice], Strip]
) -> tuple[float, Float[np.ndarray, " d"], float, float]:
    """The sum of W * Theta, and its derivatives by the logs of a factor of each column of X, of sigma_w and of sigma_b.

    The depth is 2 or more. `theta` is `kernels.ntk(net, X)`, of which the lower triangle is read. W is symmetric, and
    `weights(rows)` returns those rows of its lower triangle, up to the column `rows.stop`; they are overwritten.
    """
    Z = X * (net.sigma_w / net.in_dim**0.5)
    q = _variances(net, Z)
    w2, b2 = net.sigma_w**2, net.sigma_b**2
    total = by_w2 = by_b2 = 0.0
    columns = np.zeros(X.shape[1])
    by_q = [np.zeros(len(X)) for _ in q[:-1]]
    for rows in slices(len(X), max(1, _STRIP // len(X))):
        cols = slice(0, rows.stop)
        by_theta = weights(rows)
        by_theta *= 2  # for the upper triangle
        square = by_theta[:, rows]
        square[:] = np.tril(square)
        np.fill_diagonal(square, square.diagonal() / 2)
        part, alone = np.vdot(by_theta, theta[rows, cols]), by_theta.sum()
        total += part
        # The last layer is w2 (E + S Theta) + b2, so its derivatives need no E.
        by_w2 += (part - b2 * alone) / w2
        by_b2 += alone
        layers = _hidden(net, Z[rows] @ Z[cols].T, [p[rows] for p in q], [p[cols] for p in q])
        by_kappa = np.zeros_like(by_theta)
        for layer in reversed(range(net.depth - 1)):
            kappa, below, S, root = layers[layer]
            by_S = by_theta * below
            by_kappa += by_theta
            if layer < net.depth - 2:
                alone = by_kappa.sum()
                by_w2 += (np.vdot(by_kappa, layers[layer + 1][0]) - b2 * alone) / w2 + np.vdot(by_S, S)
                by_b2 += alone
            by_theta *= S
            by_theta *= w2
            by_kappa *= w2
            by_S *= w2
            by_kappa, left, right = _back(kappa, q[layer][rows], q[layer][cols], S, root, by_kappa, by_S)
            by_q[layer][rows] += left
            by_q[layer][cols] += right
        by_kappa += by_theta
        by_b2 += by_kappa.sum()
        columns += np.einsum("ij,ij->j", Z[rows], by_kappa @ Z[cols])
    for layer in reversed(range(1, net.depth - 1)):
        by_w2 += by_q[layer] @ (q[layer] - b2) / w2
        by_b2 += by_q[layer].sum()
        by_q[layer - 1] += by_q[layer] * w2 * _slope_with_itself(q[layer - 1]) / (1 + 2 * q[layer - 1])
    by_b2 += by_q[0].sum()
    columns += by_q[0] @ (Z * Z)
    # Every product of the first layer has sigma_w^2 as well.
    return float(total), 2 * columns, 2 * (w2 * by_w2 + columns.sum()), 2 * b2 * by_b2


def _variances(net: MLP, Z: Points) -> list[Vector]:
    """kappa^l(x, x) of each row, for l = 1 .. L."""
    q = [np.einsum("ij,ij->i", Z, Z) + net.sigma_b**2]
    for _ in range(net.depth - 1):
        q.append(net.sigma_w**2 * (2 / np.pi) * np.arcsin(2 * q[-1] / (1 + 2 * q[-1])) + net.sigma_b**2)
    return q


def _slope_with_itself(q: Vector) -> Vector:
    """S at c = q' = q; over 1 + 2q, it is the derivative of E along the diagonal."""
    return 4 / np.pi / np.sqrt(1 + 4 * q)


def _hidden(net: MLP, kappa: Strip, q1: Sequence[Vector], q2: Sequence[Vector]) -> list[tuple[Strip, ...]]:
    """kappa, Theta, S and 1 / sqrt D of each layer but the last, from the scalar products of the points."""
    kappa += net.sigma_b**2
    theta, layers = kappa, []
    for layer in range(net.depth - 1):
        root = np.outer(1 + 2 * q1[layer], 1 + 2 * q2[layer])
        root -= 4 * kappa * kappa
        np.sqrt(root, out=root)
        np.divide(1, root, out=root)
        S = 4 / np.pi * root
        layers.append((kappa, theta, S, root))
        if layer < net.depth - 2:
            kappa = net.sigma_w**2 * (2 / np.pi) * np.arctan(2 * kappa * root) + net.sigma_b**2
            theta = net.sigma_w**2 * theta * S + kappa
    return layers


def _back(
    kappa: Strip, q1: Vector, q2: Vector, S: Strip, root: Strip, by_E: Strip, by_S: Strip
) -> tuple[Strip, Vector, Vector]:
    """Derivatives by kappa and by both sides' variances, from those by E and S, which are overwritten."""
    by_E *= S
    by_S *= S
    by_S *= root
    by_S *= root
    by_kappa = kappa * by_S
    by_kappa *= 4
    by_kappa += by_E
    by_E *= kappa
    left = -by_E.sum(axis=1) / (1 + 2 * q1) - by_S @ (1 + 2 * q2)
    right = -by_E.sum(axis=0) / (1 + 2 * q2) - (1 + 2 * q1) @ by_S
    return by_kappa, left, right
