"""Networks before training: their functions and their tangent kernels, split into last layer and layers below.

Network i with one head is the initial member i of a `DeepEnsemble` with the same network and seed.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.any_network import Network
from rndlib.cores import blockwise
from rndlib.network import MLP
from rndlib.training import backends
from rndlib.training.problem import block_size
from rndlib.training.weights import Params, Role, draw

Kernels = Float[np.ndarray, "bodies heads heads n n"]


def functions(
    net: Network, X: ArrayLike, bodies: int, heads: int = 1, seed: int = 0, backend: str | None = None
) -> Float[np.ndarray, "bodies heads n"]:
    """f(X; theta_0) of Eq. 1 for `bodies` networks of `heads` outputs with initial weights.

    `backend` is that of the estimators.

    >>> from rndlib import MLP, initial
    >>> initial.functions(MLP(2, width=64), [[1.0, 0.0], [0.0, 1.0]], bodies=4, heads=3).shape
    (4, 3, 2)
    """
    X, loaded = _points(net, X), backends.of(net, backend)
    return _blockwise(lambda params: loaded.functions(net, params, X), net, len(X), bodies, heads, seed)


def tangent_kernels(
    net: Network, X: ArrayLike, bodies: int, heads: int = 1, seed: int = 0, backend: str | None = None
) -> tuple[Kernels, Kernels]:
    """Tangent kernels of networks as in `functions`, in two parts: the last layer, and the layers below.

    Their sum is Theta_0. Entry [b, i, j, p, q] belongs to network b, heads i and j, points p and q. In the limit of
    width the parts are kappa and Theta - kappa if i = j, and 0 otherwise (Propositions B.2 and B.3).

    >>> from rndlib import MLP, initial
    >>> last, below = initial.tangent_kernels(MLP(2, width=64), [[1.0, 0.0], [0.0, 1.0]], bodies=4, heads=3)
    >>> last.shape, below.shape
    ((4, 3, 3, 2, 2), (4, 3, 3, 2, 2))
    """
    X, loaded = _points(net, X), backends.of(net, backend)

    def both(params: Params) -> np.ndarray:
        return np.stack(loaded.tangent_kernels(net, params, X), axis=1)

    parts = _blockwise(both, net, len(X), bodies, heads, seed)
    return parts[:, 0], parts[:, 1]


def _points(net: Network, X: ArrayLike) -> np.ndarray:
    return checks.points("X", X, (net.in_dim,) if isinstance(net, MLP) else None)


def _blockwise(
    values: Callable[[Params], np.ndarray], net: Network, n: int, bodies: int, heads: int, seed: int
) -> np.ndarray:
    """`values` of the initial weights of every body."""
    bodies, heads = checks.whole("bodies", bodies, at_least=1), checks.whole("heads", heads, at_least=1)
    seed = checks.whole("seed", seed, at_least=0)

    def one(block: list[int]) -> np.ndarray:
        return values(draw(net, heads, seed, Role.MEMBER, block))

    return blockwise(one, bodies, block_size(net, heads, n))
