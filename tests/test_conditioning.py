"""Nearly singular kernels: said before training, with what brings the condition number down, and refused by nobody."""

import re
import warnings

import numpy as np
import pytest

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, DivergenceError, GradientDescent, GradientFlow
from rndlib import kernels as exact
from rndlib.training import conditioning
from rndlib.training.report import ConditionWarning

NET = MLP(1, width=64, sigma_b=1.0)
LINE = np.linspace(-1, 1, 8)[:, None]  # spread by a factor: the shorter the line, the nearer to singular its kernel
ALL = (DeepEnsemble, BayesianEnsemble, RND, BayesianRND)


def spectrum(net: MLP, X: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(exact.kernel(net, X).ntk)


@pytest.mark.parametrize("kind", ALL)
def test_said_before_training(kind, monkeypatch):
    monkeypatch.setattr("rndlib.training.solvers.flow.full_batch_blocks", lambda *_: pytest.fail("training has begun"))
    X = 0.4 * LINE
    assert np.ptp(np.log10(spectrum(NET, X))) > 9
    with (
        pytest.warns(
            ConditionWarning, match=r"X with noise_std = 0: .*\(condition number .*e\+\d+\): give noise_std of"
        ),
        pytest.raises(pytest.fail.Exception, match="training has begun"),
    ):
        kind(NET, 1).fit(X, np.sin(X[:, 0]))


def test_the_factor_is_the_condition_number_at_the_end_of_time():
    values = np.array([1e-4, 0.5, 20.0])
    assert conditioning.factor(values, np.inf) == pytest.approx(2e5)
    assert conditioning.factor(values, 1e9) == conditioning.factor(values, np.inf)
    # At t = 3 the slowest mode has not moved; that of 0.5 is at 1 - exp(-1.5).
    assert conditioning.factor(values, 3.0) == pytest.approx(60)
    assert conditioning.factor(np.array([-1e-17, 1.0]), np.inf) > 1e300
    assert conditioning.factor(np.array([-1e-17, 1.0]), 100.0) == pytest.approx(100)


def test_the_advice_removes_the_warning_and_the_fit_converges():
    X = 0.4 * LINE
    y = np.sin(5 * X[:, 0])
    said = conditioning.advice(spectrum(NET, X), np.inf)
    found = re.search(r"noise_std of about (\S+) or more.*time of about (\S+) or less", said)
    assert found
    noise_std, time = map(float, found.groups())
    # Warnings are errors here.
    assert BayesianEnsemble(NET, 2, noise_std=noise_std).fit(X, y).report.converged
    assert DeepEnsemble(NET, 2, solver=GradientFlow(time=time)).fit(X, y).report.converged


def test_no_warning_where_fits_take_seconds():
    X = 0.8 * LINE
    assert 1e6 < np.exp(np.ptp(np.log(spectrum(NET, X)))) < conditioning.TOLERATED
    assert DeepEnsemble(NET, 2).fit(X, np.sin(5 * X[:, 0])).report.converged


@pytest.mark.filterwarnings("ignore::rndlib.training.report.ConditionWarning")
def test_warned_of_but_not_refused():
    """A pair of close points whose labels agree: one slow mode, which nothing else depends on."""
    X = np.vstack([LINE[::3], LINE[0] + 1e-5])
    assert conditioning.factor(spectrum(NET, X), np.inf) > conditioning.TOLERATED
    assert DeepEnsemble(NET, 2).fit(X, np.sin(5 * X[:, 0])).report.converged


@pytest.mark.filterwarnings("ignore::rndlib.training.report.ConditionWarning")
def test_a_fit_that_fails_says_what_would_help():
    """The same pair, with labels that differ: the slope between them is beyond what the network has."""
    X = np.array([[0.0], [1e-4], [1.0]])
    with pytest.raises(DivergenceError, match=r"gradient flow: .*nearly singular \(condition number .*noise_std of"):
        DeepEnsemble(MLP(1, width=16), 1).fit(X, [1.0, 2.0, 3.0])


def test_an_error_of_another_cause_does_not_blame_the_kernel():
    assert conditioning.advice(spectrum(NET, LINE[::2]), np.inf) == ""


@pytest.mark.parametrize(
    ("net", "solver"), [(MLP(1, depth=1), GradientFlow()), (NET, GradientDescent(1e-3, 1)), (NET, GradientFlow(1.0))]
)
def test_only_where_curvature_meets_scales(net, solver):
    """Gradient descent steps as it is told; without a hidden layer the flow is exact; a short one meets few scales."""
    X = np.array([[0.5], [0.5 + 1e-4]]) if net.depth == 1 else 0.4 * LINE
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConditionWarning)
        DeepEnsemble(net, 1, solver=solver).fit(X, X[:, 0])
