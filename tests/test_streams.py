"""Laws of streams and values against training written out point by point, with matrix exponentials."""

from math import inf

import numpy as np
import pytest
from scipy import linalg

from rndlib import MLP, kernels, laws

NET = MLP(3, depth=2, activation="silu", sigma_w=1.5, sigma_b=0.5)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(9, 3))
Y = X.sum(1) - 2 * X.prod(1)
X_TEST = np.vstack([X[:2], RNG.normal(size=(4, 3))])
GROWING = [laws.Stage(X[:n], Y[:n], t) for n, t in ((3, 0.4), (6, inf), (9, inf))]
SLIDING = [laws.Stage(X[i : i + 4], Y[i : i + 4]) for i in range(0, 6, 2)]
BATCHES = [laws.Stage(X[k::3], Y[k::3] + again, t) for again in (0, 1) for k, t in ((0, 0.1), (1, inf), (2, 3.0))]
SCHEDULES = {"one": [laws.Stage(X, Y, 0.5)], "growing": GROWING, "sliding": SLIDING, "batches": BATCHES}
KINDS = {"ensemble": (1, "nngp"), "rnd": (2, "nngp"), "bayesian_rnd": (1, "ntk")}


def agrees(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def trained_in_turn(stages, kind):
    """Mean and covariance at X_TEST: each stage changes the functions at all points, repeats included."""
    places = np.vstack([*(stage.X for stage in stages), X_TEST])
    theta = kernels.kernel(NET, places, places.copy()).ntk
    scale, prior = KINDS[kind]
    cov, mean, begin = scale * getattr(kernels.kernel(NET, places), prior), np.zeros(len(places)), 0
    for stage in stages:
        own = slice(begin, begin := begin + len(stage.X))
        left = np.zeros((len(stage.X),) * 2) if stage.time == inf else linalg.expm(-stage.time * theta[own, own])
        change = np.zeros_like(cov)
        change[:, own] = theta[:, own] @ np.linalg.solve(theta[own, own], np.eye(len(stage.X)) - left)
        cov = (np.eye(len(cov)) - change) @ cov @ (np.eye(len(cov)) - change).T
        mean = mean - change[:, own] @ (mean[own] - (stage.y if kind == "ensemble" else 0))
    return mean[begin:], cov[begin:, begin:]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_training_in_turn(schedule, kind):
    stages = SCHEDULES[schedule]
    law, (mean, cov) = laws.stream(NET, stages, X_TEST, kind, full_cov=True), trained_in_turn(stages, kind)
    agrees(law.mean, mean)
    agrees(law.cov, cov)
    agrees(laws.stream(NET, stages, X_TEST, kind).var, cov.diagonal())


@pytest.mark.parametrize(
    ("stages", "kind", "message"),
    [
        ([], "rnd", "stages is empty"),
        (GROWING, "posterior", "kind = 'posterior': choose one of"),
        ([laws.Stage(X), laws.Stage(X[[0, 0]])], "rnd", "X has 1 repeated rows"),
        ([laws.Stage(X, Y[:3])], "ensemble", r"y has shape \(3,\)"),
        ([laws.Stage(X, time=-1.0)], "rnd", "time = -1.0"),
    ],
)
def test_what_is_refused_of_streams(stages, kind, message):
    with pytest.raises(ValueError, match=message):
        laws.stream(NET, stages, X_TEST, kind)


GAMMA = 0.8
NEXT = np.vstack([X[1:5], RNG.normal(size=(1, 3)), X[:1]])
STATES, REWARDS, TERMINAL = X[:6], Y[:6], [False, False, True, False, False, False]


@pytest.mark.parametrize("terminal", [None, TERMINAL])
def test_values_are_the_end_of_temporal_differences(terminal):
    """The flow as one linear equation for the functions at all points, the constant 1 among them, by exponentials."""
    places, n = np.vstack([STATES, NEXT, X_TEST]), len(STATES)
    keep = GAMMA * (1 - np.zeros(n) if terminal is None else 1 - np.array(terminal, float))
    differences = np.hstack([np.eye(n), -np.diag(keep), np.zeros((n, len(X_TEST))), -REWARDS[:, None]])
    slope = -kernels.kernel(NET, places, STATES).ntk @ differences
    step = linalg.expm(np.vstack([slope, np.zeros(len(places) + 1)]))
    end = np.linalg.matrix_power(step, 2**20)[2 * n : -1]
    cov = end[:, :-1] @ kernels.kernel(NET, places).nngp @ end[:, :-1].T
    law = laws.value_ensemble(NET, STATES, NEXT, REWARDS, GAMMA, X_TEST, terminal, full_cov=True)
    error = laws.value_rnd_error(NET, STATES, NEXT, GAMMA, X_TEST, terminal, full_cov=True)
    agrees(law.mean, end[:, -1], 1e-7)
    agrees(law.cov, cov, 1e-7)
    agrees(error.cov, 2 * cov, 1e-7)
    assert np.abs(error.mean).max() == 0
    # Of visited states, the value is known where the way leads to an end. Plain RND has no error at any of them.
    assert error.var[:2].min() > 1e-3 if terminal is None else error.var[:2].max() < 1e-9
    assert laws.rnd_error(NET, STATES, X_TEST).var[:2].max() < 1e-9


def test_without_discount_values_are_functions():
    law, function = laws.value_ensemble(NET, X, X_TEST[[0] * 9], Y, 0.0, X_TEST), laws.ensemble(NET, X, Y, X_TEST)
    agrees(law.mean, function.mean)
    agrees(law.var, function.var)
    agrees(laws.value_rnd_error(NET, X, X, 0.9, X_TEST, [True] * 9).var, 2 * function.var)


def test_what_is_refused_of_values():
    with pytest.raises(ValueError, match=r"gamma = 0.95: .* has the eigenvalue -.*, whose real part must be above"):
        laws.value_rnd_error(NET, STATES, 2 * STATES, 0.95, X_TEST)
    for given, message in (
        ({"X_next": NEXT[:3]}, "X_next has 3 rows: give 6"),
        ({"gamma": -0.1}, "gamma = -0.1"),
        ({"terminal": [0.5] * 6}, "terminal has other entries than 0 and 1"),
        ({"rewards": Y[:2]}, r"rewards has shape \(2,\)"),
    ):
        arguments = {"X_next": NEXT, "gamma": GAMMA, "rewards": REWARDS} | given
        with pytest.raises(ValueError, match=message):
            laws.value_ensemble(NET, STATES, X_test=X_TEST, **arguments)
