"""A fitted model is self-contained: nothing that happens after the fit changes a number, in this process or another."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientFlow, datasets
from rndlib.estimators.exact import Exact
from rndlib.jax import Function
from rndlib.paper.fitted import tangent_kernels
from rndlib.training import weights

pytestmark = pytest.mark.torch
DATA = datasets.toy(seed=0, n_test=4)
FLOW = GradientFlow(rtol=0.05)


def init(key, outputs):
    first, last = jax.random.split(key)
    return [jax.random.normal(first, (3, 32)) / 3**0.5, jax.random.normal(last, (32, outputs)) / 32**0.5]


def apply(params, x):
    return jax.nn.silu(x @ params[0]) @ params[1]


MODELS = {
    "RND": lambda net: RND(net, 3, 2, solver=FLOW),
    "RND, linearised": lambda net: RND(net, 3, 2, linearised=True),
    "shared": lambda net: BayesianRND(net, 3, 2, noise_std=0.1, solver=FLOW),
    "independent": lambda net: BayesianRND(net, 3, 2, directions="independent", solver=FLOW),
    "linearised": lambda net: BayesianRND(net, 3, 2, linearised=True, noise_std=0.1),
    "ensemble": lambda net: DeepEnsemble(net, 3, solver=FLOW),
    "Bayesian ensemble": lambda net: BayesianEnsemble(net, 3, noise_std=0.1, solver=FLOW),
}
NET, FUNCTION = MLP(3, width=32), Function(init, apply)
# An MLP on PyTorch, which compiles nothing.
CASES = {f"{name} of an MLP": lambda make=make: make(NET).set_params(backend="torch") for name, make in MODELS.items()}
CASES |= {f"{name} of a function": partial(MODELS[name], FUNCTION) for name in ("shared", "linearised")}
CASES |= {f"{kind.__name__}, automatic": kind for kind in (RND, BayesianRND, DeepEnsemble, BayesianEnsemble)}


OTHER = {
    "net": MLP(3, width=48),
    "heads": 4,
    "bodies": 1,
    "members": 6,
    "seed": 5,
    "backend": "jax",
    "solver": GradientFlow(time=1.0),
    "linearised": False,
    "noise_std": 0.7,
    "mean": lambda X: np.ones(len(X)),
    "prior_mean": lambda X: np.ones(len(X)),
}


def told(model: Any) -> list[np.ndarray]:
    """All numbers that a fitted model has for new points."""
    found = [np.array(model.report.residual), model.variance(DATA.X_test), *np.atleast_2d(model.initial(DATA.X_test))]
    found.append(model.functions(DATA.X_test) if hasattr(model, "functions") else model.errors(DATA.X_test))
    if not isinstance(model, RND):
        found += model.predict(DATA.X_test, return_std=True)
    if isinstance(model, BayesianRND):
        found.append(model.sample_y(DATA.X_test, 3))
    return found if isinstance(model._fitted._fit, Exact) else [*found, tangent_kernels(model, DATA.X_test[:2])]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_drawn_after_the_fit(case, monkeypatch):
    model = CASES[case]().fit(DATA.X, DATA.y)
    before = told(model)

    def drawn(*_: Any, **__: Any) -> Any:
        raise AssertionError("random numbers are drawn again")

    monkeypatch.setattr(weights, "stream", drawn)
    monkeypatch.setattr(Function, "draw", drawn)
    monkeypatch.setattr(Function, "initial", drawn)
    for value, first in zip(told(model), before, strict=True):
        np.testing.assert_array_equal(value, first)
    for name, value in OTHER.items():  # counts from the next fit on
        if name in model.get_params():
            setattr(model, name, value)
    for value, first in zip(told(model), before, strict=True):
        np.testing.assert_array_equal(value, first)
    with pytest.raises(AssertionError, match="drawn again"):
        model.fit(DATA.X, DATA.y)


def test_a_setting_of_jax_changes_no_number():
    """It decides which numbers a key stands for."""
    model = MODELS["shared"](FUNCTION).fit(DATA.X, DATA.y)
    config: Any = jax.config
    before, setting = told(model), config.jax_threefry_partitionable
    try:
        jax.config.update("jax_threefry_partitionable", not setting)
        for value, first in zip(told(model), before, strict=True):
            np.testing.assert_array_equal(value, first)
    finally:
        jax.config.update("jax_threefry_partitionable", setting)


@pytest.mark.check
def test_another_process_says_the_same(tmp_path):
    model = BayesianRND(NET, 3, 2, noise_std=0.1, solver=FLOW).fit(DATA.X, DATA.y)
    path, found = tmp_path / "model.pickle", tmp_path / "found.npy"
    path.write_bytes(pickle.dumps((model, DATA.X_test)))
    program = (
        "import pickle, sys, numpy as np; from rndlib.training import weights; weights.stream = None; "
        "model, X = pickle.load(open(sys.argv[1], 'rb')); "
        "np.save(sys.argv[2], np.stack([model.variance(X), model.predict(X)]))"
    )
    subprocess.run([sys.executable, "-c", program, path, found], check=True, cwd=Path(__file__).parents[1])
    np.testing.assert_array_equal(np.load(found), [model.variance(DATA.X_test), model.predict(DATA.X_test)])


def test_a_linearised_prediction_does_not_pass_over_the_training_set(monkeypatch):
    from rndlib.training import linear

    model = BayesianRND(NET, 3, 2, linearised=True, backend="torch").fit(DATA.X, DATA.y)
    monkeypatch.setattr(linear, "pulled_back", lambda *_: pytest.fail("the training set is used"))
    model.predict(DATA.X_test, return_std=True)
    model.errors(DATA.X_test)
    with pytest.raises(pytest.fail.Exception, match="is used"):
        model.fit(DATA.X, DATA.y)
