"""The negative controls of Bayesian RND rebuilt from their definitions, by full Jacobians and Runge-Kutta."""

from collections.abc import Callable

import numpy as np
import pytest
from networks import body, jacobian, relative, runge_kutta, values

from rndlib import MLP, BayesianRND, GradientFlow
from rndlib.paper.evidence.controls import MisbuiltTarget, NoiseWithoutPull
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw, draw_offsets

NET = MLP(3, width=32, depth=3, sigma_b=0.5)
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


@pytest.mark.parametrize(
    ("model", "keep_last", "jitter"),
    [
        (MisbuiltTarget(NET, BODIES, keep_last=True, seed=SEED, solver=FLOW), True, 0.0),
        (NoiseWithoutPull(NET, BODIES, jitter=0.5, seed=SEED, solver=FLOW), False, 0.5),
    ],
)
def test_predictors_are_trained_on_the_target_and_its_jitter_without_a_pull(model, keep_last, jitter):
    def error(i):
        start, psi = drawn(Role.PREDICTOR, i), drawn(Role.DIRECTION, i)
        jittered = target(start, psi, X, keep_last).T - jitter * draw_offsets(SEED, [i], len(X), 1)[0]
        params = runge_kutta(NET, start, X, jittered, FLOW.time)
        return values(NET, params, X_TEST) - target(start, psi, X_TEST, keep_last)

    agrees(model.fit(X).errors(X_TEST), error, FLOW.rtol)


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
