"""The PyTorch backend against the JAX one: the same weights, steps, numbers and errors, estimator by estimator."""

import re

import numpy as np
import pytest
from problems import AXES as X
from problems import NET

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    DivergenceError,
    GradientDescent,
    GradientFlow,
    cores,
    initial,
)
from rndlib.paper.fitted import tangent_kernels
from rndlib.training import integration
from rndlib.training.backends.jax import JaxBackend

# The networks are tiny, which the warning about heads is right to notice.
pytestmark = [
    pytest.mark.usefixtures("many_heads_by_products"),
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning"),
    pytest.mark.filterwarnings("ignore::rndlib.checks.ScaleWarning"),  # labels that make training diverge
]

X_TEST = np.random.default_rng(7).normal(size=(20, 3))
Y = np.sin(X.sum(axis=1))

# At depth 1 there is no activation. Of the others, one with a kink and one that is smooth; `NET` has another.
NETWORKS = [("silu", 1), ("relu", 2), ("softplus", 3)]

# What is asked of the two: the same steps, each with the rounding of sums of a few thousand numbers in float64, leave
# some 1e-14 in practice. What is not the same algorithm differs by the rtol of gradient flow, 1e-3.
AGREE = 1e-5


def differ(make, of):
    """Relative distance of what `of` says of two fitted estimators, that of `make("torch")` and of `make("jax")`."""
    found, expected = (of(make(name)) for name in ("torch", "jax"))
    assert found.dtype == expected.dtype == np.float64
    assert np.linalg.norm(expected) > 0
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# ---------------------------------------------------------------------------------------------------- after training


@pytest.mark.parametrize(("activation", "depth"), NETWORKS)
def test_training(activation, depth):
    """To convergence, but for relu on a coarse path: its kinks ask for thousands of steps.

    Without a hidden layer there are four parameters a head, for as many points.
    """
    net = MLP(3, width=24, depth=depth, activation=activation, sigma_b=0.5)
    solver = GradientFlow(rtol=0.1 if activation == "relu" else 1e-2)

    fits = {name: DeepEnsemble(net, 3, backend=name, solver=solver).fit(X[:4], Y[:4]) for name in ("torch", "jax")}
    assert differ(fits.get, lambda model: model.functions(X_TEST)) <= AGREE
    assert fits["torch"].report.evaluations == fits["jax"].report.evaluations


ESTIMATORS = {
    "bayesian ensemble": lambda **to: BayesianEnsemble(NET, 3, **to),
    "with noise": lambda **to: BayesianEnsemble(NET, 3, noise_std=0.3, **to),
    "rnd": lambda **to: RND(NET, heads=3, bodies=2, **to),
    "shared": lambda **to: BayesianRND(NET, heads=3, bodies=2, **to),
    "independent": lambda **to: BayesianRND(NET, heads=3, bodies=2, directions="independent", **to),
    "shared with noise": lambda **to: BayesianRND(NET, heads=3, bodies=2, noise_std=0.3, **to),
    "one head": lambda **to: BayesianRND(NET, heads=1, bodies=3, directions="independent", noise_std=0.3, **to),
}
SOLVERS = [GradientFlow(rtol=1e-2), GradientFlow(0.7, rtol=1e-2), GradientDescent(0.02, 30)]


# Estimators differ in what networks are trained to, solvers in how: noise is what both know of.
@pytest.mark.parametrize(
    ("kind", "solver"),
    [*((kind, SOLVERS[0]) for kind in ESTIMATORS), *(("shared with noise", solver) for solver in SOLVERS[1:])],
)
def test_every_estimator(kind, solver):
    def everything(model):
        errors = model.functions(X_TEST) if hasattr(model, "functions") else model.errors(X_TEST)
        mean = [] if isinstance(model, RND) else model.predict(X_TEST)
        return np.concatenate([errors.ravel(), np.ravel(mean), tangent_kernels(model, X_TEST).ravel()])

    assert differ(lambda name: ESTIMATORS[kind](backend=name, solver=solver).fit(X, Y), everything) <= AGREE


@pytest.mark.parametrize("solver", SOLVERS, ids=["limit", "finite", "descent"])
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
def test_many_heads(solver, noise_std):
    """Linear systems are solved in float32 to four digits, by the same iteration: both stop at the same one unless a
    residual comes within rounding, some 1e-6 of it, of what is allowed, which a few hundred solves rarely see."""
    heads = JaxBackend.dense_many // len(X) + 2
    net = MLP(3, width=256, sigma_b=0.5)

    def make(name):
        return BayesianRND(net, heads, 2, noise_std=noise_std, backend=name, solver=solver).fit(X)

    assert differ(make, lambda model: model.errors(X_TEST)) <= AGREE


def test_many_bodies_learn_from_the_same_pilots():
    """Which bodies are trained first decides how finely all are stepped: it must not depend on the backend."""

    def make(name):
        return DeepEnsemble(NET, 70, backend=name).fit(X, Y)

    one, other = make("torch"), make("jax")
    assert len(one._fitted._trained.blocks) == len(other._fitted._trained.blocks) > 8
    assert one.report.evaluations == other.report.evaluations
    assert differ({"torch": one, "jax": other}.get, lambda model: model.functions(X_TEST)) <= AGREE


def test_threads_change_nothing(monkeypatch):
    def fit():
        return DeepEnsemble(NET, 12, backend="torch", solver=SOLVERS[1]).fit(X, Y).functions(X_TEST)

    monkeypatch.setattr(cores, "count", lambda: 4)
    threads = fit()
    monkeypatch.setattr(cores, "count", lambda: 1)
    np.testing.assert_allclose(threads, fit(), rtol=1e-12)


# ----------------------------------------------------------------------------------------------------- in both alike


def raised(name, error, what):
    with pytest.raises(error) as caught:
        what(name)
    return re.sub(r"[\d.]+e[-+]\d+|\d+\.\d+", "number", str(caught.value))


def far(name):
    DeepEnsemble(MLP(3, width=8), 2, backend=name, solver=GradientDescent(0.1, 200)).fit(X, 1e4 * Y)


def demanding(name):
    DeepEnsemble(NET, 2, backend=name, solver=GradientFlow(rtol=1e-12)).fit(X, Y)


@pytest.mark.parametrize(
    ("error", "what", "says"),
    [
        (ValueError, lambda b: DeepEnsemble(NET, 2, backend=b, solver=GradientDescent(9.0)).fit(X, Y), "learning_rate"),
        (DivergenceError, far, "gradient descent: training residual"),
        (DivergenceError, demanding, "after 4 steps, asked for rtol = .*widen the network"),
        (ValueError, lambda b: RND(MLP(3, depth=1), 1, backend=b).fit(X_TEST), "singular"),
        (ValueError, lambda b: initial.functions(NET, X[:, :2], 2, backend=b), "X has shape"),
    ],
)
def test_errors(monkeypatch, error, what, says):
    monkeypatch.setattr(integration, "MOST_STEPS", 4)
    messages = [raised(name, error, what) for name in ("torch", "jax")]
    assert re.search(says, messages[0])
    assert messages[0] == messages[1]


def test_a_gpu_that_is_not_there_or_one_that_agrees():
    import torch

    if torch.cuda.is_available():
        names = iter(("torch:cuda", "torch"))

        def make(_):
            return DeepEnsemble(NET, 3, backend=next(names)).fit(X, Y)

        assert differ(make, lambda model: model.functions(X_TEST)) <= AGREE
    else:
        with pytest.raises(ImportError, match=r"'torch:cuda' finds no CUDA device.*give backend='torch'"):
            DeepEnsemble(NET, 3, backend="torch:cuda").fit(X, Y)
