"""What steps in float32 leave in a trained function, and that none are taken where they would not do."""

from math import inf

import numpy as np
import pytest
from networks import BACKENDS
from problems import Problem, worst

from rndlib import MLP, GradientFlow
from rndlib.training.flow import precision


def close_pair(gap):
    X = np.random.default_rng(0).normal(size=(10, 3))
    X[1] = X[0] + [gap, 0, 0]
    return X


def allowed(problem, solver):
    return precision.single(solver.time, solver.rtol, np.linalg.eigvalsh(problem.theta))


@pytest.fixture
def train(monkeypatch):
    def train(problem, solver, single):
        monkeypatch.setattr(precision, "single", lambda *_: single)
        params, report = problem.train(solver)
        monkeypatch.undo()
        return problem.functions(params), report

    return train


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("time", [1e3, inf])
@pytest.mark.parametrize("gap", [1.0, 0.06])
@pytest.mark.parametrize(("width", "heads", "bodies"), [(32, 1, 8), (512, 2, 4), (512, 16, 1)])
def test_what_float32_leaves(width, heads, bodies, gap, time, backend, train):
    problem = Problem(MLP(3, width=width), close_pair(gap), heads, bodies, backend=backend)
    solver = GradientFlow(time, rtol=3e-3)
    assert allowed(problem, solver)
    (single, report), (double, exact) = (train(problem, solver, choice) for choice in (True, False))
    assert report.evaluations == exact.evaluations  # the same steps, so that nothing else differs
    assert 1e-9 < worst(single, double) <= precision.LEFT
    # How exactly training points are fitted does not depend on it.
    assert report.residual <= 1e-9 or time < inf


def test_where_float32_would_not_do_it_is_not_used(train):
    problem = Problem(MLP(3, width=512, sigma_b=1.0), close_pair(0.003), bodies=8)
    solver = GradientFlow(1e6)
    assert not allowed(problem, solver)
    single, double = (train(problem, solver, choice)[0] for choice in (True, False))
    assert worst(single, double) > precision.LEFT


def test_where_float32_fails_float64_takes_over(train):
    """A singular kernel says so beforehand; the kernel of a narrow network may be worse than its limit."""
    problem = Problem(MLP(3, width=128), close_pair(1e-3), bodies=4)
    (tried, report), (double, exact) = (train(problem, GradientFlow(rtol=1e-2), choice) for choice in (True, False))
    np.testing.assert_array_equal(tried, double)
    assert report == exact


def test_nor_where_it_takes_many_steps(train):
    """Here rounding turns some units of relu on that stay off in float64, and some off that stay on."""
    problem = Problem(MLP(3, width=64, activation="relu"), close_pair(1.0), bodies=4)
    assert allowed(problem, GradientFlow(30.0))
    (tried, _), (double, _) = (train(problem, GradientFlow(30.0), choice) for choice in (True, False))
    np.testing.assert_array_equal(tried, double)
    *_, pilot = problem.advised(GradientFlow(30.0))
    assert pilot
    assert pilot.steps > precision.MOST_STEPS
    assert not precision.single(30.0, 1e-3, np.linalg.eigvalsh(problem.theta), pilot.steps)


@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_functions_that_float32_has_no_room_for(scale):
    net = MLP(3, width=64, activation="relu", sigma_b=0.0)
    assert allowed(Problem(net, close_pair(1.0)), GradientFlow())
    assert not allowed(Problem(net, scale * close_pair(1.0)), GradientFlow())


def test_labels_that_float32_has_no_room_for(train):
    problem = Problem(MLP(3, depth=1), close_pair(1.0))
    problem.y = 1e45 * problem.y
    tried, double = (train(problem, GradientFlow(1.0), choice)[0] for choice in (True, False))
    np.testing.assert_array_equal(tried, double)
