"""Bad input gets a ValueError that names the argument, the value and the remedy; nothing starts to train."""

import re
from math import inf
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    StochasticGradient,
    laws,
)

# The networks are tiny, which is not the bad input meant here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning"),
    pytest.mark.usefixtures("as_a_user"),
]

NET = MLP(3, width=8)
X = np.random.default_rng(0).standard_normal((5, 3))
Y = X[:, 0]
ENSEMBLES = (DeepEnsemble, BayesianEnsemble)
DISTILLATIONS = (RND, BayesianRND)
ALL = (*ENSEMBLES, *DISTILLATIONS)


@pytest.mark.parametrize(
    ("argument", "value", "remedy"),
    [
        ("in_dim", 0, "whole number of at least 1"),
        ("width", 2.5, "whole number of at least 1"),
        ("width", True, "whole number"),
        ("depth", 0, "whole number of at least 1"),
        ("activation", "swish", "choose one of 'silu'"),
        ("sigma_w", 0.0, "above 0"),
        ("sigma_w", float("nan"), "finite"),
        ("sigma_b", -0.1, "0 or more"),
        ("sigma_b", "0.1", "finite number"),
        ("sigma_b", None, "finite number"),
        ("sigma_b", 1j, "finite number"),
        ("sigma_w", 10**400, "finite number"),
    ],
)
def test_network(argument, value, remedy):
    with pytest.raises(ValueError, match=f"{argument} = {value!r}: .*{remedy}"):
        MLP(**{"in_dim": 3, argument: value})


@pytest.mark.parametrize(
    ("kind", "argument", "says"),
    [
        (MLP, "width", "one int or float$"),
        (MLP, "sigma_w", "one int or float$"),
        (GradientFlow, "time", "one int or float$"),
        (GradientDescent, "steps", "one int or float$"),
        (BayesianRND, "heads", "one int or float$"),
        (BayesianRND, "noise_std", "one int or float for all points: noise that differs from point to point is not"),
    ],
)
@pytest.mark.parametrize(
    ("value", "shape"),
    [(np.ones(3), r"\(3,\)"), ([1.0, 2.0], r"\(2,\)"), (np.array(1), r"\(\)"), (csr_array(X).todense(), r"\(5, 3\)")],
)
def test_one_number_and_not_an_array(kind, argument, says, value, shape):
    given: dict[str, Any] = {"in_dim": 3} if kind is MLP else {}
    with pytest.raises(ValueError, match=f"^{argument} is an array of shape {shape}: give {says}"):
        kind(**given, **{argument: value})


def test_linearised_heads_have_directions_of_their_own():
    with pytest.raises(ValueError, match="directions = 'shared': each head of a linearised"):
        BayesianRND(MLP(3), directions="shared", linearised=True)


def test_numbers_of_numpy_are_numbers():
    whole: Any = np.uint8(8)
    half: Any = np.float32(0.5)
    assert MLP(3, whole, sigma_w=half) == MLP(3, 8, sigma_w=0.5)
    assert GradientFlow(time=np.float64(np.inf)) == GradientFlow()
    assert BayesianRND(NET, whole, noise_std=half).fit(X).report.converged


@pytest.mark.parametrize(
    ("solver", "argument", "value", "remedy"),
    [
        (GradientFlow, "time", -1.0, "0 or more, or math.inf"),
        (GradientFlow, "time", float("nan"), "0 or more"),
        (GradientFlow, "rtol", 0.0, "above 0"),
        (GradientDescent, "learning_rate", 0.0, "above 0"),
        (GradientDescent, "learning_rate", float("inf"), "finite"),
        (GradientDescent, "steps", 0, "whole number of at least 1"),
        (GradientDescent, "steps", 1.5, "whole number"),
        (StochasticGradient, "optimizer", "lion", "choose one of 'adam', 'sgd'"),
        (StochasticGradient, "learning_rate", -0.1, "above 0"),
        (StochasticGradient, "batch_size", 0, "whole number of at least 1"),
        (StochasticGradient, "epochs", 2.5, "whole number of at least 1"),
        (StochasticGradient, "progress", 1, "True or False"),
    ],
)
def test_solvers(solver, argument, value, remedy):
    with pytest.raises(ValueError, match=f"{argument} = {value!r}: .*{remedy}"):
        solver(**{argument: value})


def _cases():
    for kind in ALL:
        yield kind, "seed", -1, "at least 0"
        yield kind, "seed", 0.5, "whole number"
        yield kind, "backend", "numpy", "choose one of 'jax'"
        yield kind, "solver", "adam", "GradientFlow"
    for kind in ENSEMBLES:
        yield kind, "members", 0, "at least 1"
    for kind in DISTILLATIONS:
        yield kind, "heads", 0, "at least 1"
        yield kind, "bodies", -2, "at least 1"
    for kind in (BayesianEnsemble, BayesianRND):
        yield kind, "noise_std", -0.1, "0 or more"
    yield RND, "net", 512, r"an rndlib\.MLP"
    yield BayesianRND, "directions", "both", "'shared', 'independent'"
    yield BayesianRND, "mean", 3.0, "a function of X"


@pytest.mark.parametrize(("kind", "argument", "value", "remedy"), list(_cases()))
def test_estimators(kind, argument, value, remedy):
    with pytest.raises(ValueError, match=f"{argument} = {value!r}: .*{remedy}"):
        kind(**{"net": NET, argument: value})


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (X[:, :2], r"X has 2 columns: give the 3 of net = MLP\(in_dim=3"),
        (np.vstack([X, X[3:4]]), r"X has 1 repeated rows \(row 3 .*noise_std > 0"),
    ],
)
def test_training_points(kind, bad, says):
    """Those of wrong types, shapes and values are scikit-learn's own checks (tests/test_sklearn.py)."""
    with pytest.raises(ValueError, match=says):
        kind(NET).fit(bad, np.zeros(len(bad)))


def test_a_singular_kernel_without_repeats_is_named():
    """A linear model has four parameters; five points leave its kernel singular, and only time or noise helps."""
    linear = MLP(3, depth=1)
    with pytest.raises(ValueError, match=r"X: the tangent kernel of its rows is singular") as refused:
        RND(linear, 1).fit(X)
    found = re.search(r"noise_std of about (\S+) or more .* time of about (\S+) or less", str(refused.value))
    assert found
    noise_std, time = map(float, found.groups())
    assert np.isfinite(RND(linear, 1, solver=GradientFlow(time=time)).fit(X).variance(X)).all()
    assert np.isfinite(BayesianRND(linear, 1, noise_std=noise_std).fit(X).variance(X)).all()


@pytest.mark.parametrize("noise_std", [0.0, 1e-8])
def test_the_noise_and_the_time_that_are_advised_do(noise_std):
    """Of exact laws and of linearised networks, whose training is exact too; they need less than steps do."""
    close = np.vstack([X, X + 1e-9])
    for fit in (
        lambda noise_std, time: laws.bayesian_rnd_error(NET, close, X, time, noise_std).var,
        lambda noise_std, time: (
            BayesianRND(NET, 2, noise_std=noise_std, linearised=True, solver=GradientFlow(time=time))
            .fit(close)
            .variance(X)
        ),
    ):
        with pytest.raises(ValueError, match=r"X: the tangent kernel of its rows is singular in float64") as refused:
            fit(noise_std, inf)
        found = re.search(r"noise_std of about (\S+) or more .* time of about (\S+) or less", str(refused.value))
        assert found
        enough, time = map(float, found.groups())
        assert noise_std < enough < 1e-3
        assert np.isfinite(fit(enough, inf)).all()
        assert np.isfinite(fit(noise_std, time)).all()


def test_repeats_are_fine_with_noise():
    repeated = np.vstack([X, X[3:4]])
    assert np.isfinite(BayesianRND(NET, 2, noise_std=0.1).fit(repeated).variance(X)).all()


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_a_variance_needs_two_members(kind):
    model = kind(NET, 1, solver=GradientFlow(time=0.1)).fit(X, Y)
    with pytest.raises(ValueError, match="members = 1: a sample variance needs at least 2"):
        model.variance(X)
