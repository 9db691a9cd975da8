"""Kernel regressions that start from untrained networks: what training would do if no tangent kernel moved."""

from math import inf

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.theory.dynamics import gain
from rndlib.training import initial


def own_regressions(
    net: MLP,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    X_test: Float[np.ndarray, "t d"],
    networks: int,
    seed: int = 0,
    of_limit: bool = False,
) -> Float[np.ndarray, "networks t"]:
    """What training would make of untrained networks if each kept the tangent kernel that it starts with.

    With `of_limit`, each has the kernel of infinite width in place of its own.
    """
    places = np.concatenate([X, X_test])
    start = initial.functions(net, places, networks, seed=seed)[:, 0]
    if of_limit:
        own = [kernels.kernel(net, places).ntk] * networks
    else:
        own = np.add(*initial.tangent_kernels(net, places, networks, seed=seed))[:, 0, 0]
    n, trained = len(y), []
    for kernel, f in zip(own, start, strict=True):
        G = gain(kernel[:n, :n], kernel[:n, n:], inf, None)
        trained.append(f[n:] - G.T @ (f[:n] - y))
    return np.stack(trained)
