"""Tangent kernels of a network that the user wrote, averaged over draws of its initial weights."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.any_network import AnyNetwork, Tensor, Weights, spawned
from rndlib.factors import at_once, least, product

Points = Float[np.ndarray, "n *shape"]
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
    other = X if X_test is None else checks.points_of_any_shape("X_test", X_test, X.shape[1:])
    net.examine(X)
    tensors = net.tensors(1)
    count, seed = checks.whole("draws", draws, at_least=1), checks.whole("seed", seed, at_least=0)
    weights = net.initial(1, spawned(seed, 0))
    one = net.sizes(weights, X[:1])
    rows = at_once(one, checks.whole("memory", memory, at_least=1) // 8)
    if not rows:
        raise ValueError(f"memory = {memory}: give at least {8 * least(one)} bytes, for the derivatives of two points")
    head, body = np.zeros((len(X), len(other))), np.zeros((len(X), len(other)))
    for draw in range(count):
        weights = net.initial(1, spawned(seed, draw)) if draw else weights
        for i, j, in_head, in_body in _blocks(net, weights, tensors, X, None if X_test is None else other, rows):
            head[i, j] += in_head / count
            body[i, j] += in_body / count
            if X_test is None and i != j:
                head[j, i] += in_head.T / count
                body[j, i] += in_body.T / count
    return head, body


def _blocks(
    net: AnyNetwork,
    weights: Weights,
    tensors: dict[str, Tensor],
    X: Points,
    other: Float[np.ndarray, "m *shape"] | None,
    rows: int,
) -> Iterator[tuple[slice, slice, Matrix, Matrix]]:
    """Blocks of one network's tangent kernel: rows, columns, the head's part, the rest. Of X alone, the upper half."""
    for i in _slices(len(X), rows):
        left = net.factors(weights, X[i])
        for j in _slices(len(X if other is None else other), rows):
            if other is not None or j.start > i.start:
                right = net.factors(weights, (X if other is None else other)[j])
            elif i == j:
                right = left
            else:
                continue
            both = np.zeros((2, len(X[i]), len(X[j] if other is None else other[j])))
            for name, tensor in tensors.items():
                if tensor.scale:
                    part = product(left[name], right[name])[:, 0, :, 0]
                    both[int(tensor.outputs_axis is None)] += tensor.scale**2 * part
            yield i, j, both[0], both[1]


def _slices(n: int, rows: int) -> list[slice]:
    return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]
