"""What RND estimates with a target that is not a draw of the predictor's law: the exact factor, and trained networks.

The margin is that of `tests/test_estimators.py` with all points taken as one: of M independent networks, four standard
deviations of the mean of M squares, sqrt(2 / M) each, and 10 / width for finite width.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from rndlib import MLP, GradientFlow, datasets, kernels, laws
from rndlib.theory.mismatch import factor
from rndlib.training import backends
from rndlib.training.problem import Drawn, Task
from rndlib.training.weights import Params, Role, draw

DATA = datasets.toy(2, n_train=5, n_test=6)
X, X_TEST = DATA.X, DATA.X_test
NET = MLP(3, width=512)
OTHER = MLP(3, width=512, activation="erf", sigma_w=3.0, sigma_b=1.0)


@pytest.mark.parametrize("time", [0.0, 0.7, inf])
def test_alike_but_for_the_width_is_one(time):
    np.testing.assert_allclose(factor(NET, replace(NET, width=3), X, X_TEST, time=time), 1, rtol=1e-12)


@pytest.mark.parametrize("time", [0.0, 0.7, inf])
@pytest.mark.parametrize("depth", [2, 3])
def test_an_output_scale_is_one_number_at_all_points_and_times(depth, time):
    """ReLU without biases: c times sigma_w is c^depth times the function. Errors of the kernel, 3e-8, may grow."""
    net = MLP(3, depth=depth, activation="relu", sigma_w=1.2, sigma_b=0.0)
    louder = replace(net, sigma_w=1.2 * 1.5)
    expected = (1 + 1.5 ** (2 * depth)) / 2
    np.testing.assert_allclose(factor(net, louder, X, X_TEST, time=time), expected, rtol=1e-6)
    # With biases it is no such case.
    biased = factor(replace(net, sigma_b=1.0), replace(louder, sigma_b=1.0), X, X_TEST, time=time)
    assert np.ptp(biased) > 0.01 * expected


def test_a_linear_model_is_in_closed_form():
    """Depth 1: kappa = Theta, so the predictor's own part is the posterior variance, and scales of both are one."""
    net = MLP(3, depth=1, sigma_w=1.0, sigma_b=0.5)
    found = factor(net, replace(net, sigma_w=3.0, sigma_b=1.5), X[:2], X_TEST)
    np.testing.assert_allclose(found, 5.0, rtol=1e-10)


def test_before_training_it_compares_the_priors():
    u, g = (kernels.diagonal(net, X_TEST).nngp for net in (NET, OTHER))
    np.testing.assert_allclose(factor(NET, OTHER, X, X_TEST, time=0.0), (1 + g / u) / 2, rtol=1e-12)


@pytest.mark.torch
def test_trained_networks_follow_it():
    members, backend = 400, backends.load("torch")
    law, expected = laws.ensemble(NET, X, np.zeros(5), X_TEST).var, factor(NET, OTHER, X, X_TEST)

    def drawn(bodies: list[int]) -> tuple[Drawn, Params]:
        start = draw(NET, 1, 0, Role.PREDICTOR, bodies)
        return Drawn(start, start, draw(OTHER, 1, 0, Role.TARGET, bodies)), start

    def target(drawn: Drawn, points: np.ndarray) -> np.ndarray:
        return backend.functions(OTHER, drawn.target or [], points)

    def error(drawn: Drawn, params: Params) -> np.ndarray:
        return backend.functions(NET, params, X_TEST) - target(drawn, X_TEST)

    solver = GradientFlow(rtol=1e-2)
    task = Task(NET, 1, members, Role.PREDICTOR, 0, X, drawn, lambda drawn: target(drawn, X))
    trained = solver.train(task, backend)
    measured = np.mean(np.concatenate(trained.per_body(error)) ** 2, axis=0) / 2
    margin = 4 * np.sqrt(2 / members) + 10 / NET.width + 2 * solver.rtol
    assert abs(np.mean(measured / (law * expected)) - 1) < margin
    # Neither no factor nor that of the priors would do.
    priors = factor(NET, OTHER, X, X_TEST, time=0.0)
    assert abs(np.mean(measured / law) - 1) > margin
    assert abs(np.mean(measured / (law * priors)) - 1) > margin


def test_bad_input_says_what_to_do():
    with pytest.raises(ValueError, match="give the predictor's in_dim = 3"):
        factor(NET, MLP(2), X, X_TEST)
    with pytest.raises(ValueError, match=r"X_test: at row 1 the ensemble has no variance.*leave out known points"):
        factor(NET, OTHER, X, np.stack([X_TEST[0], X[2]]))
    with pytest.raises(ValueError, match="X_test has a NaN"):
        factor(NET, OTHER, X, X_TEST * np.nan)
    with pytest.raises(ValueError, match="time = -1"):
        factor(NET, OTHER, X, X_TEST, time=-1)
