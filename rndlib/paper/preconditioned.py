"""Adam on one stage of data after the other, and the map of Adam if its preconditioner were fixed.

Adam divides the mean gradient of each parameter by the root of its mean square: it multiplies the gradient by a
diagonal matrix P. If P and the Jacobian J of the network by its parameters did not change, training on the points S to
the end would change an error e at every z by

    e(z) <- e(z) - K_zS K_SS^-1 e(S),    K = J P J^T.

`stage` trains networks by Adam, and applies this map with J at the start of the stage. Each network has a P of its own:
the mean over the steps of the stage, weighted by rate and norm of the error at S. The map is then exact where J is
constant and the errors at S shrink in proportion.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.estimators import RND, DeepEnsemble
from rndlib.network import MLP
from rndlib.training import backends
from rndlib.training.solvers.stochastic import ADAM, adam
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role, draw


class Networks(NamedTuple):
    """Networks of one output between stages.

    start, params: Parameters before the first stage, and now.
    errors: Predictors minus targets, or functions minus labels, at all places (networks, places).
    mapped: The same errors, had each stage been the map above.
    """

    start: Params
    params: Params
    errors: Float[np.ndarray, "networks places"]
    mapped: Float[np.ndarray, "networks places"]


def begun(
    model: RND | DeepEnsemble, places: Float[np.ndarray, "places d"], y: Float[np.ndarray, " places"]
) -> Networks:
    """The networks of a model, of one head each, before training. `y` are the labels of an ensemble at all places."""
    net: Any = model.net
    if isinstance(model, RND):
        errors, role = np.subtract(*model.initial(places)), Role.PREDICTOR
    else:
        errors, role = model.initial(places) - y, Role.MEMBER
    params = draw(net, 1, model.seed, role, range(len(errors)))
    return Networks(params, params, errors, errors)


def stage(
    net: MLP,
    networks: Networks,
    places: Float[np.ndarray, "places d"],
    own: slice,
    learning_rate: float,
    steps: int,
    linearised: bool = False,
) -> Networks:
    """Train on the places `own` by full-batch Adam, on the mean of half the squared errors.

    The rate falls from `learning_rate` to 0 along a cosine.
    With `linearised`, networks are linearised at initialisation, so that J never changes.

    >>> import numpy as np
    >>> from rndlib import MLP, RND
    >>> from rndlib.paper import preconditioned
    >>> net, places = MLP(2, width=32), np.eye(2)
    >>> before = preconditioned.begun(RND(net, heads=1, bodies=3), places, np.zeros(2))
    >>> after = preconditioned.stage(net, before, places, slice(0, 1), 0.05, 200)
    >>> bool(abs(after.errors[:, 0]).max() < 1e-3), bool(abs(after.mapped[:, 0]).max() < 1e-9)
    (True, True)
    """
    rates = learning_rate * (0.5 + 0.5 * np.cos(np.pi * np.arange(steps) / steps))
    backend, (start, params, errors, followed) = backends.load("jax"), networks
    shared = places[own], places, rates, np.asarray(float(linearised))
    with backend.settings():
        rows = start, params, errors[:, own, None], errors, followed, followed[:, own]
        return Networks(start, *backend.arrays(backend.each(_stage, net, shared, rows)))


def _stage(lib: Any, net: Network, shared: Any, own: Any) -> Any:
    """One network: its parameters after the stage, its errors, and those of the map."""
    X, places, rates, linearised = shared
    start, before, error, errors, followed, followed_own = own
    xp = lib.xp

    def at(params: Any, X: Any) -> tuple[Any, Any]:
        """The tangent, of a linearised network at initialisation and else at its current weights, and the function."""
        moved = mapped(lambda s, p: linearised * (p - s), start, params)
        tangent = lib.linearise(net, mapped(lambda p, m: p - m, params, moved), X)
        return tangent, tangent.value + tangent.jvp(moved)

    y = at(before, X)[1] - error

    def step(i: Any, state: Any) -> Any:
        params, memory, P, total = state
        tangent, f = at(params, X)
        memory, change = adam(memory, tangent.vjp((f - y) / X.shape[0]), i + 1.0, xp)
        weight = rates[i] * xp.sqrt(((f - y) ** 2).sum())
        unbiased = 1 - ADAM[1] ** (i + 1.0)
        P = mapped(lambda p, s: p + weight / (xp.sqrt(s / unbiased) + ADAM[2]), P, memory[1])
        return mapped(lambda p, u: p - rates[i] * u, params, change), memory, P, total + weight

    nothing = mapped(xp.zeros_like, before)
    params, _, P, _ = lib.loop(rates.shape[0], step, (before, (nothing, nothing), nothing, 0.0))
    (near, _), (far, f) = (at(before, points) for points in (X, places))

    def row(one: Any) -> Any:
        change = mapped(lambda p, slope: p * slope, P, near.vjp(one))
        return near.jvp(change)[:, 0], far.jvp(change)[:, 0]

    K, K_places = lib.map(row, lib.constant(np.eye(X.shape[0])[:, :, None], y))
    after = errors + (at(params, places)[1] - f)[:, 0]
    return params, after, followed - xp.linalg.solve(K, followed_own) @ K_places
