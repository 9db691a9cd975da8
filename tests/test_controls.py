"""The negative controls of Bayesian RND rebuilt from their definitions, by full Jacobians and Runge-Kutta."""

from collections.abc import Callable

import numpy as np
import pytest
from networks import body, jacobian, relative, runge_kutta, values

from rndlib import MLP, BayesianRND, GradientFlow
from rndlib.paper.evidence.controls import MisbuiltTarget, NoiseWithoutPull
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw, draw_offsets

NET = MLP(3, width=64, depth=3, sigma_b=0.5)
SEED = 4
BODIES = 2
FLOW = GradientFlow(time=1.0)
X = 1.5 * np.vstack([np.eye(3), -np.eye(3)[:2]])
X_TEST = np.random.default_rng(6).normal(size=(20, 3))


def drawn(role: Role, index: int):
    return body(draw(NET, 1, SEED, role, [index]), 0)


def target(theta, psi, points, keep_last: bool = False) -> np.ndarray:
    """J_theta f(points) psi by the whole Jacobian: (1, points)."""
    if not keep_last:
        psi = [*psi[:-1], tuple(0 * part for part in psi[-1])]
    flat = np.concatenate([array.ravel() for layer in psi for array in layer])
    return (in_float64(jacobian)(NET, theta, points) @ flat)[None]


def agrees(functions: np.ndarray, one: Callable[[int], np.ndarray], rtol: float = 1e-10) -> None:
    """Each row of `functions` is that of a body, within rounding unless training had a part in it."""
    expected = np.concatenate([one(index) for index in range(BODIES)])
    assert functions.shape == expected.shape
    assert relative(functions, expected) <= rtol


@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
@pytest.mark.parametrize("directions", ["shared", "independent"])
def test_before_training_is_training_for_no_time(directions):
    model = BayesianRND(NET, 3, BODIES, directions=directions, seed=SEED, solver=GradientFlow(0.0)).fit(X)
    predictors, targets = model.initial(X_TEST)
    assert relative(predictors - targets, model.errors(X_TEST)) < 1e-12


@pytest.mark.parametrize(
    ("at", "keep_last"), [(Role.PREDICTOR, False), (Role.PREDICTOR, True), (Role.DIRECTION, False)]
)
def test_misbuilt_target(at, keep_last):
    predictors, targets = MisbuiltTarget(NET, BODIES, at=at, keep_last=keep_last, seed=SEED).initial(X_TEST)
    agrees(predictors, lambda i: values(NET, drawn(Role.PREDICTOR, i), X_TEST))
    agrees(targets, lambda i: target(drawn(at, i), drawn(Role.DIRECTION, i), X_TEST, keep_last))


def test_predictors_are_trained_on_the_misbuilt_target():
    model = MisbuiltTarget(NET, BODIES, keep_last=True, seed=SEED, solver=FLOW).fit(X)

    def error(i):
        start, psi = drawn(Role.PREDICTOR, i), drawn(Role.DIRECTION, i)
        params = runge_kutta(NET, start, X, target(start, psi, X, True).T, FLOW.time)
        return values(NET, params, X_TEST) - target(start, psi, X_TEST, True)

    agrees(model.errors(X_TEST), error, FLOW.rtol)


def test_noise_without_pull():
    jitter = 0.5
    model = NoiseWithoutPull(NET, BODIES, jitter=jitter, seed=SEED, solver=FLOW).fit(X)

    def error(i):
        start, psi = drawn(Role.PREDICTOR, i), drawn(Role.DIRECTION, i)
        jittered = target(start, psi, X).T - jitter * draw_offsets(SEED, [i], len(X), 1)[0]
        params = runge_kutta(NET, start, X, jittered, FLOW.time)
        return values(NET, params, X_TEST) - target(start, psi, X_TEST)

    agrees(model.errors(X_TEST), error, FLOW.rtol)


def test_without_jitter_there_is_nothing_to_be_pulled_back_from():
    plain = BayesianRND(NET, 1, BODIES, seed=SEED, solver=FLOW).fit(X).errors(X_TEST)
    np.testing.assert_array_equal(
        NoiseWithoutPull(NET, BODIES, jitter=0.0, seed=SEED, solver=FLOW).fit(X).errors(X_TEST), plain
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NoiseWithoutPull(NET, 2, jitter=-1.0), "jitter = -1.0"),
        (lambda: MisbuiltTarget(NET, 0), "bodies = 0"),
        (lambda: BayesianRND(NET).initial(X[:, :2]), "X has 2 columns"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
