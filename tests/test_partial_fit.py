"""`partial_fit` against the map of training written out for each network; tests/test_streams.py has its law."""

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pytest
from networks import BACKENDS, bayesian_target, body, jacobian, relative, runge_kutta, values
from scipy import linalg

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientDescent, GradientFlow, Prior
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw, draw_directions

NET = MLP(3, width=64, sigma_b=0.5)
RNG = np.random.default_rng(6)
X, X_TEST = RNG.normal(size=(9, 3)), RNG.normal(size=(12, 3))
Y = RNG.normal(size=9)
WINDOWS = [slice(0, 4), slice(3, 7), slice(5, 9)]  # of one size, so that they share their programs
SEED, HEADS, BODIES = 4, 3, 2
pytestmark = pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")


def in_turn(model, labels=Y):
    for window in WINDOWS:
        model.partial_fit(X[window], labels[window])
    return model


# ------------------------------------------------------------------------------ linearised: the map, body by body


def map_of(index, time):
    """Theta of the body whose head 0 is the common tangent, at X and then X_TEST, and the change of e in each stage."""
    params = body(draw(NET, HEADS + 1, SEED, Role.PREDICTOR, [index]), 0)
    one = [*params[:-1], tuple(a[:1] for a in params[-1])]
    J = in_float64(jacobian)(NET, one, np.vstack([X, X_TEST]))
    theta = J @ J.T

    def trained(e, targets):
        for window in WINDOWS:
            own = theta[:9, :9][window, window]
            left = 0 if time == inf else linalg.expm(-time * own)
            step = np.linalg.solve(own, np.eye(len(own)) - left)
            e = e - (e[:, :9][:, window] - targets[window]) @ step @ theta[:9][window]
        return e[:, 9:]

    return params, J, trained


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("time", [0.3, inf])
def test_linearised_heads_are_the_map_in_turn(backend, time):
    places, solver = np.vstack([X, X_TEST]), GradientFlow(time)
    options = {"linearised": True, "seed": SEED, "solver": solver, "backend": backend}
    rnd, bayesian = in_turn(RND(NET, HEADS, BODIES, **options)), in_turn(BayesianRND(NET, HEADS, BODIES, **options))
    errors, of_bayesian, means = [], [], []
    for index in range(BODIES):
        params, J, trained = map_of(index, time)
        own = values(NET, [*params[:-1], tuple(a[1:] for a in params[-1])], places)
        target = values(NET, body(draw(NET, HEADS, SEED, Role.TARGET, [index]), 0), places)
        psi = [draw_directions(NET, SEED, [index], [head]) for head in range(HEADS)]
        flat = np.stack([np.concatenate([a[0].ravel() for layer in each for a in layer]) for each in psi])
        errors += [*trained(own - target, 0 * Y)]
        of_bayesian += [*trained(own - flat @ J[:, : flat.shape[1]].T, 0 * Y)]
        means += [*trained(np.zeros((1, len(places))), Y)]
    assert relative(rnd.errors(X_TEST), np.array(errors)) < 1e-9
    assert relative(bayesian.errors(X_TEST), np.array(of_bayesian)) < 1e-9
    assert relative(bayesian.predict(X_TEST), np.mean(means, axis=0)) < 1e-9
    u, g = rnd.initial(X_TEST)
    before = RND(NET, HEADS, BODIES, **options).fit(X[:1]).initial(X_TEST)
    assert relative(u, before[0]) == 0
    assert relative(g, before[1]) < 1e-9


# ----------------------------------------------------------------------------------------- trained: gradients in turn


def by_gradients(start, targets, time=1.0):
    """Parameters after each window in turn, by Runge-Kutta; targets (heads, N)."""
    for window in WINDOWS:
        start = runge_kutta(NET, start, X[window], targets[:, window].T, time)
    return start


@pytest.mark.parametrize("backend", BACKENDS)
def test_trained_networks_go_on_from_their_weights(backend):
    options = {"seed": SEED, "solver": GradientFlow(1.0), "backend": backend}
    rnd, ensemble = in_turn(RND(NET, HEADS, BODIES, **options)), in_turn(DeepEnsemble(NET, 3, **options))
    errors = []
    for index in range(BODIES):
        start, g = (body(draw(NET, HEADS, SEED, role, [index]), 0) for role in (Role.PREDICTOR, Role.TARGET))
        errors += [*(values(NET, by_gradients(start, values(NET, g, X)), X_TEST) - values(NET, g, X_TEST))]
    assert relative(rnd.errors(X_TEST), np.array(errors)) < 3e-3
    starts = [body(draw(NET, 1, SEED, Role.MEMBER, [index]), 0) for index in range(3)]
    functions = [values(NET, by_gradients(start, Y[None]), X_TEST)[0] for start in starts]
    assert relative(ensemble.functions(X_TEST), np.array(functions)) < 3e-3
    before = RND(NET, HEADS, BODIES, **options)
    np.testing.assert_array_equal(rnd.initial(X_TEST), before.initial(X_TEST))


@pytest.mark.torch
@pytest.mark.parametrize("directions", ["shared", "independent"])
def test_bayesian_targets_stay_those_of_the_start(directions):
    options = {"directions": directions, "seed": SEED, "solver": GradientFlow(1.0), "backend": "torch"}
    model = in_turn(BayesianRND(NET, HEADS, BODIES, **options))
    errors = []
    for index in range(BODIES):
        start = body(draw(NET, HEADS, SEED, Role.PREDICTOR, [index]), 0)
        heads = None if directions == "shared" else range(HEADS)
        psi = draw_directions(NET, SEED, [index], heads)
        each = [
            bayesian_target(NET, start, body(psi, h if directions == "independent" else 0), np.vstack([X, X_TEST]))[h]
            for h in range(HEADS)
        ]
        g = np.stack(each)
        errors += [*(values(NET, by_gradients(start, g), X_TEST) - g[:, 9:])]
    assert relative(model.errors(X_TEST), np.array(errors)) < 3e-3
    start = body(draw(NET, 1, SEED, Role.MEAN, [0]), 0)
    shift = values(NET, start, np.vstack([X, X_TEST]))
    mean = values(NET, by_gradients(start, Y + shift[:, :9]), X_TEST) - shift[:, 9:]
    assert relative(model.predict(X_TEST), mean[0]) < 3e-3


@pytest.mark.torch
@pytest.mark.parametrize(
    ("kind", "depth", "options"), [(BayesianEnsemble, 1, {}), (DeepEnsemble, 2, {"linearised": True})]
)
def test_nested_stages_of_linear_networks_are_one_fit(kind, depth, options):
    """To convergence, on all points."""
    make = partial(kind, replace(NET, depth=depth), 3, seed=SEED, backend="torch", **options)
    model, once = make().partial_fit(X[:2], Y[:2]).partial_fit(X[:4], Y[:4]), make().fit(X[:4], Y[:4])
    np.testing.assert_allclose(model.functions(X_TEST), once.functions(X_TEST), atol=1e-8)


@pytest.mark.torch
@pytest.mark.parametrize(
    "options", [{"solver": GradientDescent(1e-3, 5)}, {"linearised": True, "solver": GradientFlow(1.0)}]
)
def test_blocks_of_other_sizes_keep_each_body_its_weights(options):
    """How bodies are trained together depends on the number of points: 9 bodies, of few points and then of many."""
    many, make = RNG.normal(size=(300, 3)), partial(RND, MLP(3, width=1000), heads=8, backend="torch", **options)
    model, alone = (make(bodies=bodies).partial_fit(X).partial_fit(many) for bodies in (9, 2))
    np.testing.assert_allclose(model.errors(X_TEST)[:16], alone.errors(X_TEST), rtol=1e-7, atol=1e-9)
    assert {len(block.bodies) for block in model._fitted._trained.blocks} == {1}


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.torch
def test_what_is_refused():
    quick: dict[str, Any] = {"solver": GradientFlow(0.1, rtol=0.1), "backend": "torch"}  # which compiles nothing
    assert not hasattr(RND(), "partial_fit")
    for model, more, message in (
        (DeepEnsemble(NET, 2, **quick), (X,), "y = None: the first call had labels"),
        (DeepEnsemble(NET, 2, **quick), (X, np.ones((9, 2))), r"y has outputs \(2,\): give \(\)"),
        (BayesianRND(NET, 2, noise_std=0.1, **quick), (X, Y), "noise_std = 0.1: a stream has no noise"),
        (RND(NET, 2, **quick, false_alarms=0.5), (X,), "false_alarms: partial_fit has no threshold"),
        (RND(NET, 2, linearised=True, backend="torch"), (X[[0, 0]],), "X has 1 repeated rows"),
        (RND(NET, 2, **quick), (X[:, :2],), "X has 2 features"),
    ):
        before = model.partial_fit(X, Y).variance(X_TEST)
        with pytest.raises(ValueError, match=message):
            model.partial_fit(*more)
        np.testing.assert_array_equal(model.variance(X_TEST), before)


@pytest.mark.torch
def test_the_first_call_is_fit_and_fit_begins_anew():
    make = partial(RND, NET, HEADS, linearised=True, backend="torch")
    model = in_turn(make())
    assert "laws.stream" in model.report.notes[-1]
    np.testing.assert_array_equal(model.fit(X).errors(X_TEST), make().partial_fit(X).errors(X_TEST))


@pytest.mark.torch
@pytest.mark.parametrize("linearised", [True, False])
def test_a_prior_without_features_is_kept(linearised):
    """The last stage is fitted, and where all labels are the prior mean, nothing else is learnt."""
    last, options = X[WINDOWS[-1]], {"linearised": linearised, "backend": "torch"}
    scaled = in_turn(BayesianRND(NET, 2, prior=Prior(scales=[0.5, 1.0], output_scale=2.0), **options))
    np.testing.assert_allclose(scaled.predict(last), Y[WINDOWS[-1]], rtol=0, atol=1e-5)
    moved = in_turn(BayesianRND(NET, 2, prior=Prior(mean=lambda x: 10 + x[:, 0]), **options), 10 + X[:, 0])
    np.testing.assert_allclose(moved.predict(X_TEST), 10 + X_TEST[:, 0], rtol=0, atol=1e-8)


def test_an_automatic_fit_does_not_go_on():
    model: Any = RND().fit(X).set_params(net=NET)
    with pytest.raises(ValueError, match="the previous fit was automatic"):
        model.partial_fit(X)
