"""Gradient flow against an independent integrator, closed forms, and itself at finer steps."""

import warnings
from copy import copy
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import BACKENDS, body, jacobian
from problems import AXES, NET, X_TEST, Problem, worst
from sklearn.datasets import load_diabetes

from rndlib import MLP, BayesianRND, DeepEnsemble, DivergenceError, GradientFlow, kernels
from rndlib.theory.dynamics import gain
from rndlib.training import integration
from rndlib.training.backends.jax import JaxBackend, in_float64
from rndlib.training.clock import clock
from rndlib.training.integration import Hint, Integration
from rndlib.training.report import SlowWarning

pytestmark = pytest.mark.usefixtures("many_heads_by_products")

RTOL = GradientFlow().rtol
CONVERGED = 15.0  # where every mode has trained
# Enough heads on five points for the path that never forms the kernel.
MANY = JaxBackend.dense_many // len(AXES) + 2


def residual(problem, params):
    """Largest training residual over the bodies, relative to the first."""
    left = problem.functions(params, problem.X) - problem.y
    first = problem.functions(problem.start, problem.X) - problem.y
    return np.max(np.linalg.norm(left, axis=(1, 2)) / np.linalg.norm(first, axis=(1, 2)))


# -------------------------------------------------------------------------------------- an independent integrator


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(scope="module", params=[(1, 3), (MANY, 1)], ids=["one head", "many heads"])
def problem(request, backend):
    heads, bodies = request.param
    return Problem(NET, AXES, heads, bodies, backend=backend)


@pytest.mark.parametrize("time", [1.0, inf, 1e9, 1e300])
def test_flow(problem, time):
    """At a time, in the limit, and at times so long that they are the limit."""
    params, report = problem.train(GradientFlow(time))
    assert worst(problem.functions(params), problem.reference(min(time, CONVERGED))) <= RTOL
    assert report.time == time
    assert report.converged
    assert 0 < report.error <= RTOL / 2
    assert report.residual == pytest.approx(residual(problem, params), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("heads", "bodies"), [(1, 3), (MANY, 1)], ids=["one head", "many heads"])
@pytest.mark.parametrize("time", [1.0, inf])
def test_flow_with_noise(heads, bodies, time, backend):
    problem = Problem(NET, AXES, heads, bodies, noise_std=0.5, backend=backend)
    params, _ = problem.train(GradientFlow(time))
    assert worst(problem.functions(params), problem.reference(min(time, CONVERGED))) <= RTOL


@pytest.mark.torch
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_other_networks(activation):
    """On PyTorch, with which JAX agrees on such networks (tests/test_backends.py)."""
    net = MLP(3, width=128, depth=3, activation=activation, sigma_b=0.5)
    problem = Problem(net, AXES, bodies=3, backend="torch")
    params, _ = problem.train(GradientFlow(1.0))
    assert worst(problem.functions(params), problem.reference(1.0)) <= RTOL


# --------------------------------------------------------------------------------------------------- finer steps


@pytest.mark.parametrize("time", [5.0, inf])
def test_the_accuracy_asked_for(time):
    """On the paper's data, each network on its own: the error estimate must be right for every one of them."""
    for seed in range(6):
        problem = Problem(MLP(3, width=128), np.random.default_rng(seed).normal(size=(10, 3)), seed=seed)
        fine = problem.functions(problem.train(GradientFlow(time, rtol=1e-5))[0])
        for rtol in (1e-2, 1e-3, 1e-4):
            params, report = problem.train(GradientFlow(time, rtol))
            assert worst(problem.functions(params), fine) <= rtol
            assert report.error <= rtol / 2


@pytest.mark.parametrize("time", [5.0, inf])
def test_the_accuracy_asked_for_with_many_heads(time):
    problem = Problem(MLP(3, width=256), np.random.default_rng(0).normal(size=(10, 3)), heads=16)
    # The linear systems of many heads are solved to four digits; what that leaves in the function is near 1e-5.
    fine, _ = problem.train(GradientFlow(time, rtol=5e-5))
    for rtol in (1e-2, 1e-3):
        params, report = problem.train(GradientFlow(time, rtol))
        assert worst(problem.functions(params), problem.functions(fine)) <= rtol
        assert report.error <= rtol / 2


@pytest.mark.parametrize(
    ("width", "time"),
    [(32, inf), (512, 5.0), *(pytest.param(*other, marks=pytest.mark.check) for other in ((32, 5.0), (512, inf)))],
)
def test_the_accuracy_asked_for_by_all_that_follow_a_pilot(width, time):
    """Most bodies of a fit are stepped as finely as the first few needed; the error must be right for every one."""
    X, x_test = (np.random.default_rng(seed).normal(size=(size, 3)) for seed, size in ((0, 10), (1, 50)))

    def fit(rtol):
        y = 3 * np.sin(X.sum(1))
        model = DeepEnsemble(MLP(3, width=width), members=100, seed=1, solver=GradientFlow(time, rtol)).fit(X, y)
        return model.functions(x_test)[:, None], model.report

    fine, _ = fit(1e-4)  # What is left of it is at most a twentieth of the finest accuracy below.
    for rtol in (1e-1, 1e-2, 1e-3):
        trained, report = fit(rtol)
        assert worst(trained, fine) <= rtol
        assert report.error is not None
        assert report.error <= rtol / 2


@pytest.mark.parametrize(("heads", "backend"), [(1, "jax"), pytest.param(MANY, "torch", marks=pytest.mark.torch)])
def test_a_hint_saves_evaluations_and_only_bodies_that_are_unlike_it_go_on(heads, backend):
    problem = Problem(MLP(3, width=128), AXES, heads=heads, bodies=4, backend=backend)
    _, report, hint = problem.advised(GradientFlow(5.0, rtol=1e-2))
    assert hint

    def led(bodies, rtol):
        some = copy(problem)
        some.start, some.y = [(w[bodies], b[bodies]) for w, b in problem.start], problem.y[bodies]
        params, led, _ = some.advised(GradientFlow(5.0, rtol), hint)
        assert led.error is not None
        assert led.error <= rtol / 2
        return problem.functions(params, AXES) if len(bodies) == 4 else some.functions(params, AXES), led

    errors = [led([i], 1e9)[1].error or 0.0 for i in range(4)]
    assert led([0, 1, 2, 3], 1e9)[1].evaluations < 0.6 * report.evaluations
    rtol = 2 * float(np.median(errors))  # so that two of them are not there
    each = [led([i], rtol) for i in range(4)]
    assert len({alone.evaluations for _, alone in each}) == 2
    functions, together = led([0, 1, 2, 3], rtol)
    assert together.evaluations == max(alone.evaluations for _, alone in each)
    assert together.error == pytest.approx(max(alone.error or 0.0 for _, alone in each))
    np.testing.assert_allclose(functions, np.concatenate([own for own, _ in each]), rtol=1e-8, atol=1e-8)


def test_the_error_that_is_expected_grows_faster_beyond_the_known_reach():
    hint = Hint(4, reach=0.2, error=0.03, weight=1 / 3)
    near, at, far = hint.estimate(np.array([0.1, 0.2, 0.4]))
    assert (near, far) == pytest.approx((at / 2, 4 * at))
    assert at > 0.03
    assert Hint(4, 0.0, 0.0, 0.0).estimate(np.zeros(1)) == 0


# --------------------------------------------------------------------------------------------------- convergence


def ill_conditioned(sigma_b):
    """Ten points, two pairs of them close."""
    X = np.random.default_rng(0).normal(size=(10, 3))
    X[1] = X[0] + [0.1 if sigma_b < 1 else 0.06, 0, 0]
    X[3] = X[2] + [0, 0.1 if sigma_b < 1 else 0.06, 0]
    return X


@pytest.mark.parametrize(("width", "sigma_b", "heads"), [(128, 0.1, 1), (128, 1.0, 1), (256, 0.1, 16), (128, 1.0, 128)])
def test_training_points_are_fitted(width, sigma_b, heads):
    problem = Problem(MLP(3, width=width, sigma_b=sigma_b), ill_conditioned(sigma_b), heads)
    assert 1e5 < np.linalg.cond(problem.theta) < 2.5e5
    # A coarse path to it will do: how exactly the training points are fitted does not depend on the path.
    params, report = problem.train(GradientFlow(rtol=0.3))
    assert residual(problem, params) <= 1e-6
    assert report.residual <= 1e-6
    assert report.converged


def test_no_time_is_the_start(problem):
    params, report = problem.train(GradientFlow(0.0))
    assert worst(problem.functions(params), problem.functions(problem.start)) == 0
    assert report.residual == pytest.approx(1.0)
    for time in (1e-300, 1e-12):
        params, _ = problem.train(GradientFlow(time))
        assert worst(problem.functions(params), problem.functions(problem.start)) <= 1e-9


def test_targets_met_from_the_start(problem):
    bodies, heads, _ = problem.y.shape
    problem = Problem(NET, AXES, heads, bodies, backend=problem.name)
    problem.y = problem.functions(problem.start, AXES)
    params, report = problem.train(GradientFlow())
    assert worst(problem.functions(params), problem.functions(problem.start)) <= 1e-9
    assert report.residual <= 1e-9
    assert report.converged


# ------------------------------------------------------------------------------------------------- the linear limit


LINEAR = MLP(3, depth=1, sigma_b=0.5)


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
@pytest.mark.parametrize("time", [1e-3, 0.5, 40.0])
@pytest.mark.parametrize("heads", [1, MANY])
def test_a_linear_model_is_solved_exactly(time, noise_std, heads, backend):
    """Its tangent kernel is the exact one, here singular, and so is the closed form, offsets included."""
    problem = Problem(LINEAR, AXES, heads, bodies=2, noise_std=noise_std, backend=backend)
    G = gain(problem.theta, kernels.kernel(LINEAR, AXES, X_TEST).ntk, time, None)
    residual = problem.y - problem.functions(problem.start, AXES)
    if problem.xi is not None:
        residual = residual - noise_std * np.swapaxes(problem.xi, 1, 2)
    exact = problem.functions(problem.start) + residual @ G
    params, _ = problem.train(GradientFlow(time))
    # For many heads in the accuracy of the exponential and of its linear systems.
    assert worst(problem.functions(params), exact) <= (1e-11 if heads == 1 else 2e-4)


# ---------------------------------------------------------------------------------------------------- the time grid


@given(
    st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8),
    st.one_of(st.floats(1e-12, 1e12), st.just(inf)),
    st.sampled_from([2, 4, 32]),
)
def test_clock(eigenvalues, time, steps):
    halves, durations = clock(np.array(sorted(eigenvalues)), time)(steps)
    assert durations.shape == halves.shape == (steps,)
    assert (halves > 0).all()
    assert (halves < durations).all()
    assert np.isfinite(halves).all()
    assert durations.sum() == pytest.approx(time)


# -------------------------------------------------------------------------------------------------------- divergence


@pytest.mark.torch
def test_more_equations_than_parameters(monkeypatch):
    monkeypatch.setattr(integration, "MOST_STEPS", 64)
    net = MLP(3, width=2)
    problem = Problem(net, AXES, heads=8, backend="torch")
    problem.y = np.random.default_rng(0).normal(size=problem.y.shape)  # not values of such a network
    J = in_float64(jacobian)(net, body(problem.start, 0), AXES)
    assert J.shape[0] > J.shape[1]
    with pytest.raises(DivergenceError, match=r"gradient flow: .*widen the network, use fewer heads per network"):
        problem.train(GradientFlow(rtol=1e-4))


@pytest.mark.torch
def test_an_accuracy_out_of_reach(monkeypatch):
    monkeypatch.setattr(integration, "MOST_STEPS", 64)
    problem = Problem(MLP(3, width=4), AXES, backend="torch")
    problem.y = 100 * problem.y
    with pytest.raises(DivergenceError, match="asked for rtol = 1e-14"):
        problem.train(GradientFlow(1.0, rtol=1e-14))


def test_a_training_that_takes_minutes_says_so_before_it_starts(monkeypatch):
    """354 patients with 16 heads took ten minutes; to 0.1 they take seconds, and so do 200 rows with one head."""
    monkeypatch.setattr(Integration, "run", lambda *_: pytest.fail("it has started"))
    patients: Any = load_diabetes(return_X_y=True)[0]
    many, few = patients[:354] / patients.std(), np.random.default_rng(0).standard_normal((200, 10))
    with (
        pytest.warns(SlowWarning, match=r"354 rows .* minutes of CPU.*linearised=True"),
        pytest.raises(pytest.fail.Exception),
    ):
        BayesianRND(MLP(10), heads=16).fit(many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pytest.fail.Exception, match="it has started"):
            BayesianRND(MLP(10), heads=1, noise_std=0.7).fit(few)
        with pytest.raises(pytest.fail.Exception, match="it has started"):
            BayesianRND(MLP(10), heads=16, solver=GradientFlow(rtol=0.1)).fit(many)


@pytest.mark.torch
def test_a_bar_counts_evaluations(monkeypatch):
    counted = []
    monkeypatch.setattr("tqdm.tqdm.update", lambda _, count: counted.append(count))
    report = BayesianRND(MLP(3, width=32), heads=1, backend="torch").fit(np.eye(3)).report
    assert sum(counted) >= report.evaluations - 10  # but for Newton's last steps
