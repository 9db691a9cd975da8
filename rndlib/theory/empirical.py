"""Tangent kernels of a network that the user wrote, averaged over draws of its initial weights."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.any_network import AnyNetwork, spawned
from rndlib.cores import slices

Matrix = Float[np.ndarray, "n1 n2"]


def parts(
    net: AnyNetwork, X: ArrayLike, X_test: ArrayLike | None, draws: int, seed: int, memory: int
) -> tuple[Matrix, Matrix]:
    """The head's part of the mean tangent kernel, and the rest: `rndlib.kernels.empirical` describes both.

    Derivatives are taken for as many points at once as `memory` holds, so the N x P Jacobian is never stored.
    """
    if not isinstance(net, AnyNetwork):
        raise ValueError(
            f"net = {net!r}: give a rndlib.torch.Module or a rndlib.jax.Function; an MLP has kernels.kernel"
        )
    X = checks.points_of_any_shape("X", X)
    mirrored = X_test is None
    other = X if X_test is None else checks.points_of_any_shape("X_test", X_test, X.shape[1:])
    net.examine(X)
    count, seed = checks.whole("draws", draws, at_least=1), checks.whole("seed", seed, at_least=0)
    least, below = 16 * net.parameters(1), net.hidden_parameters  # bytes, for the derivatives of two points
    rows = checks.whole("memory", memory, at_least=1) // least
    checks.require(rows > 0, f"memory = {memory}: give at least {least} bytes, for the derivatives of two points")
    found = np.zeros((2, len(X), len(other)))
    for draw in range(count):
        omega = net.draw(1, spawned(seed, draw))
        for i in slices(len(X), rows):
            left = net.jacobian(omega, X[i])[:, 0]
            for j in slices(len(other), rows, start=i.start if mirrored else 0):
                right = left if mirrored and i == j else net.jacobian(omega, other[j])[:, 0]
                for part, of in zip(found, (slice(below, None), slice(below)), strict=True):
                    block = left[:, of] @ right[:, of].T / count
                    part[i, j] += block
                    if mirrored and i != j:
                        part[j, i] += block.T
    return found[0], found[1]
