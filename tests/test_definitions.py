"""Each estimator rebuilt from its definition: weights by seed, targets by full Jacobians, training by Runge-Kutta."""

from math import inf

import numpy as np
import pytest
from networks import bayesian_target, body, relative, runge_kutta, values
from problems import AXES as X
from problems import NET

from rndlib import RND, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientFlow
from rndlib.training.weights import Role, draw, draw_directions, draw_offsets

SEED = 4
FLOW = GradientFlow(time=1.0)
RNG = np.random.default_rng(6)
Y = RNG.normal(size=len(X))
X_TEST = RNG.normal(size=(20, 3))
BODIES, HEADS = 2, 3


def trained(start, targets, noise_std=0.0, xi=0.0, time=FLOW.time):
    return runge_kutta(NET, start, X, targets.T, time, noise_std, xi)


def agrees(functions, expected):
    assert functions.shape == np.shape(expected)
    assert relative(functions, np.asarray(expected)) <= FLOW.rtol


def test_deep_ensemble():
    model = DeepEnsemble(NET, 3, seed=SEED, solver=FLOW).fit(X, Y)
    starts = [body(draw(NET, 1, SEED, Role.MEMBER, [i]), 0) for i in range(3)]
    agrees(model.functions(X_TEST), [values(NET, trained(s, Y[None]), X_TEST)[0] for s in starts])


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_bayesian_ensemble(noise_std):
    model = BayesianEnsemble(NET, 3, noise_std=noise_std, seed=SEED, solver=FLOW).fit(X, Y)
    expected = []
    for i in range(3):
        start = body(draw(NET, 1, SEED, Role.MEMBER, [i]), 0)
        psi = body(draw_directions(NET, SEED, [i], None), 0)
        xi = draw_offsets(SEED, [i], len(X), 1)[0]
        params = trained(start, Y - bayesian_target(NET, start, psi, X), noise_std, xi)
        expected.append((values(NET, params, X_TEST) + bayesian_target(NET, start, psi, X_TEST))[0])
    agrees(model.functions(X_TEST), expected)


def test_rnd():
    """Labels play no part."""
    model = RND(NET, HEADS, BODIES, seed=SEED, solver=FLOW).fit(X, Y)
    expected = []
    for i in range(BODIES):
        start, target = (body(draw(NET, HEADS, SEED, r, [i]), 0) for r in (Role.PREDICTOR, Role.TARGET))
        params = trained(start, values(NET, target, X))
        expected += [*(values(NET, params, X_TEST) - values(NET, target, X_TEST))]
    agrees(model.errors(X_TEST), expected)
    np.testing.assert_allclose(model.variance(X_TEST), np.mean(np.square(model.errors(X_TEST)), axis=0) / 2)


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
@pytest.mark.parametrize("directions", ["shared", "independent"])
@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
def test_bayesian_rnd(directions, noise_std):
    options = {"directions": directions, "noise_std": noise_std, "seed": SEED, "solver": FLOW}
    model = BayesianRND(NET, HEADS, BODIES, **options).fit(X)
    expected = []
    for i in range(BODIES):
        start = body(draw(NET, HEADS, SEED, Role.PREDICTOR, [i]), 0)

        def target(points, i=i, start=start):
            if directions == "shared":
                return bayesian_target(NET, start, body(draw_directions(NET, SEED, [i], None), 0), points)
            by_head = [body(draw_directions(NET, SEED, [i], [h]), 0) for h in range(HEADS)]
            return np.stack([bayesian_target(NET, start, psi, points)[h] for h, psi in enumerate(by_head)])

        params = trained(start, target(X), noise_std, draw_offsets(SEED, [i], len(X), HEADS)[0])
        expected += [*(values(NET, params, X_TEST) - target(X_TEST))]
    agrees(model.errors(X_TEST), expected)
    np.testing.assert_allclose(model.variance(X_TEST), np.mean(np.square(model.errors(X_TEST)), axis=0))


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_mean_of_bayesian_rnd(noise_std):
    """A network trained on y with its initial function subtracted, its offsets starting at zero."""
    model = BayesianRND(NET, 1, noise_std=noise_std, seed=SEED, solver=FLOW).fit(X, Y)
    start = body(draw(NET, 1, SEED, Role.MEAN, [0]), 0)
    params = trained(start, Y + values(NET, start, X), noise_std)
    agrees(model.predict(X_TEST), (values(NET, params, X_TEST) - values(NET, start, X_TEST))[0])


def test_labels_of_zero_leave_a_mean_of_zero():
    """What the mean network starts from meets its targets but for rounding, which must not count as a residual."""
    model = BayesianRND(NET, 1, seed=SEED, solver=GradientFlow(inf)).fit(X, 0 * Y)
    np.testing.assert_allclose(model.predict(X_TEST), 0, atol=1e-9)
