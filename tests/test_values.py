"""Values trained by temporal differences, against their definition for each network and against their laws."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from networks import BACKENDS, body, forward, jacobian, relative, values

from rndlib import MLP, RND, DeepEnsemble, GradientDescent, laws
from rndlib.activations import ACTIVATIONS
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw

NET = MLP(3, width=64, sigma_b=0.5)
RNG = np.random.default_rng(6)
X, X_TEST = RNG.normal(size=(6, 3)), RNG.normal(size=(12, 3))
X_NEXT = np.vstack([X[1:5], RNG.normal(size=(2, 3))])
REWARDS, TERMINAL, GAMMA, SEED = RNG.normal(size=6), np.array([0, 0, 1, 0, 0, 0], bool), 0.5, 4
DISCOUNT = GAMMA * (1 - TERMINAL)
TRANSITIONS = {"X_next": X_NEXT, "terminal": TERMINAL}
pytestmark = pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")


def at_fixed_point(params, start, rewards):
    """What the linearised body makes of functions `start` (functions, points) at X, X_NEXT and X_TEST."""
    J = in_float64(jacobian)(NET, params, np.vstack([X, X_NEXT, X_TEST]))
    theta = J @ J[:6].T
    off = start[:, :6] - DISCOUNT * start[:, 6:12] - rewards
    return start[:, 12:] - np.linalg.solve(theta[:6] - DISCOUNT[:, None] * theta[6:12], off.T).T @ theta[12:].T


@pytest.mark.parametrize("backend", BACKENDS)
def test_linearised_values_are_at_the_fixed_point(backend):
    options: dict[str, Any] = {"gamma": GAMMA, "linearised": True, "seed": SEED, "backend": backend}
    errors = RND(NET, 3, 2, **options).fit(X, **TRANSITIONS).errors(X_TEST)
    functions = DeepEnsemble(NET, 3, **options).fit(X, REWARDS, **TRANSITIONS).functions(X_TEST)
    places, expected = np.vstack([X, X_NEXT, X_TEST]), []
    for index in range(2):
        *hidden, last = body(draw(NET, 4, SEED, Role.PREDICTOR, [index]), 0)
        u = values(NET, [*hidden, tuple(a[1:] for a in last)], places)
        g = values(NET, body(draw(NET, 3, SEED, Role.TARGET, [index]), 0), places)
        expected += [*at_fixed_point([*hidden, tuple(a[:1] for a in last)], u - g, 0.0)]
    assert relative(errors, np.array(expected)) < 1e-9
    members = [body(draw(NET, 1, SEED, Role.MEMBER, [index]), 0) for index in range(3)]
    expected = [at_fixed_point(member, values(NET, member, places), REWARDS)[0] for member in members]
    assert relative(functions, np.array(expected)) < 1e-9


@in_float64
def descended(start, rewards, rate=0.01, steps=40):
    """Semi-gradient descent of one network, with the value of what follows held fixed in each gradient."""

    def loss(params, held):
        target = rewards + DISCOUNT[:, None] * forward(NET, held, X_NEXT)
        return 0.5 * ((forward(NET, params, X) - target) ** 2).sum()

    params = jax.tree.map(jax.numpy.asarray, start)
    for _ in range(steps):
        slopes = jax.grad(loss)(params, params)
        params = jax.tree.map(lambda a, slope: a - rate * slope, params, slopes)
    return jax.tree.map(np.asarray, params)


@pytest.mark.parametrize("backend", BACKENDS)
def test_trained_values_descend_by_semi_gradients(backend):
    options: dict[str, Any] = {"gamma": GAMMA, "solver": GradientDescent(0.01, 40), "seed": SEED, "backend": backend}
    errors = RND(NET, 3, 2, **options).fit(X, **TRANSITIONS).errors(X_TEST)
    functions = DeepEnsemble(NET, 2, **options).fit(X, REWARDS, **TRANSITIONS).functions(X_TEST)
    expected = []
    for index in range(2):
        start, g = (body(draw(NET, 3, SEED, role, [index]), 0) for role in (Role.PREDICTOR, Role.TARGET))
        rewards = (values(NET, g, X) - DISCOUNT * values(NET, g, X_NEXT)).T
        expected += [*(values(NET, descended(start, rewards), X_TEST) - values(NET, g, X_TEST))]
    assert relative(errors, np.array(expected)) < 1e-9
    members = [body(draw(NET, 1, SEED, Role.MEMBER, [index]), 0) for index in range(2)]
    expected = [values(NET, descended(member, REWARDS[:, None]), X_TEST)[0] for member in members]
    assert relative(functions, np.array(expected)) < 1e-9


@pytest.mark.torch
@pytest.mark.parametrize("how", [{"linearised": True}, {"solver": GradientDescent(0.01, 40)}], ids=list)
def test_without_discount_values_are_functions(how):
    options: dict[str, Any] = {"backend": "torch", **how}
    plain, discounted = RND(NET, 3, **options).fit(X), RND(NET, 3, gamma=0.0, **options).fit(X, **TRANSITIONS)
    np.testing.assert_allclose(discounted.errors(X_TEST), plain.errors(X_TEST), rtol=0, atol=1e-9)
    plain = DeepEnsemble(NET, 3, **options).fit(X, REWARDS)
    discounted = DeepEnsemble(NET, 3, gamma=0.0, **options).fit(X, REWARDS, **TRANSITIONS)
    np.testing.assert_allclose(discounted.functions(X_TEST), plain.functions(X_TEST), rtol=0, atol=1e-9)


@pytest.mark.torch
def test_a_prior_mean_is_of_values():
    """Not of rewards: trained values obey Bellman's equation whatever the mean, and are those of the rest plus it."""
    ends, options = np.arange(6) % 3 == 0, {"gamma": 0.5, "linearised": True, "backend": "torch"}
    model = DeepEnsemble(NET, 3, prior_mean=lambda x: 10 + x[:, 0], **options)
    model.fit(X, REWARDS, X_next=X_NEXT, terminal=ends)
    ahead = 0.5 * ~ends * model.functions(X_NEXT)
    np.testing.assert_allclose(model.functions(X), REWARDS + ahead, rtol=0, atol=1e-8)


def test_what_is_refused():
    def refused(message, make, **fit):
        with pytest.raises(ValueError, match=message):
            make().fit(X, REWARDS, **fit)

    linear: dict[str, Any] = {"linearised": True}
    refused("gamma = 0.5 with net = None", lambda: RND(gamma=0.5))
    refused("gamma = -1", lambda: RND(NET, gamma=-1, **linear))
    refused("solver = None with gamma = 0.5", lambda: RND(NET, gamma=0.5))
    refused("X_next = None with gamma = 0.5", lambda: RND(NET, gamma=0.5, **linear))
    refused("gamma = None", lambda: DeepEnsemble(NET, **linear), X_next=X_NEXT)
    refused("X_next has 2 rows: give 6", lambda: RND(NET, gamma=0.5, **linear), X_next=X_NEXT[:2])
    refused("X_next has shape", lambda: RND(NET, gamma=0.5, **linear), X_next=X_NEXT[:, :2])
    refused("has the eigenvalue -", lambda: RND(NET, gamma=1.0, **linear), X_next=2 * X)
    refused("takes GradientFlow", lambda: DeepEnsemble(NET, solver=GradientDescent(), **linear))
    for activation in ACTIVATIONS:  # a state that leads to itself for ever: of A, rounding alone is left
        net = replace(NET, activation=activation)
        for x in X[:3]:
            with pytest.raises(ValueError, match=r"does not converge.*a smaller gamma"):
                laws.value_ensemble(net, [x], [x + 1 - 1], [1.0], 1.0, X_TEST)
    model = RND(NET, gamma=0.5, **linear).fit(X, X_next=X_NEXT)
    with pytest.raises(ValueError, match="value functions have no partial_fit"):
        model.partial_fit(X)
    with pytest.raises(ValueError, match="a linearised ensemble has one"):
        DeepEnsemble(NET, **linear).fit(X, np.ones((6, 2)))
