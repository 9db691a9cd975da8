"""Quantities of networks that only the notebooks need: variances group by group, tangent kernels, regressions."""

from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.theory.dynamics import gain
from rndlib.training import initial
from rndlib.training.problem import Drawn
from rndlib.training.weights import Params


def variances(model: Any, X: ArrayLike, groups: int) -> Float[np.ndarray, "groups t *outputs"]:
    """`model.variance(X)` of each of `groups` equal groups of independent members or networks: (groups, T).

    >>> from rndlib import MLP, RND, datasets
    >>> from rndlib.paper.fitted import variances
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> variances(RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X), data.X_test, groups=2).shape
    (2, 5)
    """
    values, (_, bodies) = model._values(X), model._fitted._sizes
    if bodies % checks.whole("groups", groups, at_least=1):
        raise ValueError(f"groups = {groups}: give a divisor of the {bodies} members or bodies")
    return np.stack([model._variance_of(group) for group in np.split(values, groups)])


def tangent_kernels(model: Any, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
    """Empirical tangent kernels of the networks of a fitted model, Theta_t of Eq. 5, at X (T, in_dim).

    Entry [b, i, j, p, q] is the product of the gradients of head i at point p and head j at point q of network b,
    with respect to all parameters. `rndlib.initial.tangent_kernels` has the tangent kernels before training.

    >>> from rndlib import MLP, RND, datasets
    >>> from rndlib.paper.fitted import tangent_kernels
    >>> model = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X)
    >>> tangent_kernels(model, [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).shape
    (1, 4, 4, 2, 2)
    """
    fitted, (_, inputs) = model._fitted, model._points(X)

    def own(drawn: Drawn, params: Params) -> np.ndarray:
        if not fitted._linear:
            return np.add(*fitted._loaded.tangent_kernels(fitted.net_, params, inputs))
        kernel = np.add(*fitted._loaded.tangent_kernels(fitted.net_, drawn.tangent, inputs))
        return np.eye(fitted._sizes[0])[:, :, None, None] * kernel  # linearised heads share no parameters

    return fitted._trained.per_body(own)


def own_regressions(
    net: MLP,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    X_test: Float[np.ndarray, "t d"],
    networks: int,
    seed: int = 0,
    of_limit: bool = False,
) -> Float[np.ndarray, "networks t"]:
    """Untrained networks after linearised training, each with its own initial tangent kernel.

    With `of_limit`, all have the kernel of infinite width instead.
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
