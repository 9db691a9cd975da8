"""The estimators in scikit-learn's hands: its own checks, pipelines, searches, clones, data frames, other processes."""

import os
import time
from dataclasses import replace
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor
from networks import BACKENDS
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientFlow
from rndlib.estimators import NotFittedError

# The networks are tiny, which the warning about heads is right to notice.
pytestmark = [
    pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning"),
    pytest.mark.usefixtures("as_a_user"),
]

# For speed: all shapes of a test file compile once. What is tested here does not depend on how long a network trains.
FLOW = GradientFlow(time=0.1, rtol=0.1)
NET = MLP(3, width=32)
ALL = (DeepEnsemble, BayesianEnsemble, RND, BayesianRND)
ENSEMBLES = (DeepEnsemble, BayesianEnsemble)
REGRESSORS = (DeepEnsemble, BayesianEnsemble, BayesianRND)
RNG = np.random.default_rng(0)
X, X_TEST = RNG.standard_normal((12, 3)), RNG.standard_normal((5, 3))
Y = X[:, 0] - X[:, 1]
FRAME, FRAME_TEST = (pd.DataFrame(points, columns=["age", "bmi", "bp"]) for points in (X, X_TEST))


KNOWN_BY_HEART = dict.fromkeys(
    ("check_outliers_fit_predict", "check_outliers_train"),
    "it asks `predict` for outliers among the training points, where the RND error is 0; `fit_predict` judges each "
    "by a fit without it",
)
REFUSED = {
    "check_do_not_raise_errors_in_init_or_set_params": "bad input is refused as early as possible, by the constructor",
}


def quick(kind):
    """Models without a hidden layer, linear in their parameters: gradient flow takes them to any time in one step,
    whatever the scale of the data, some of which lies around 100. What the checks look at is the same at any depth."""
    size: dict[str, Any] = {"members": 2} if kind in ENSEMBLES else {"heads": 1, "bodies": 2}
    return kind(partial(MLP, depth=1), **size, backend="torch", solver=GradientFlow(time=1.0))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ValueError occurred during set_params")  # it would rather have it from fit
@pytest.mark.filterwarnings("ignore::rndlib.checks.ScaleWarning")  # data around 100
@parametrize_with_checks(
    [quick(kind) for kind in (DeepEnsemble, BayesianRND)] + [kind() for kind in ALL],
    expected_failed_checks=lambda model: REFUSED | (KNOWN_BY_HEART if isinstance(model, RND) else {}),
    xfail_strict=True,
)
def test_the_checks_of_scikit_learn(estimator, check):
    """All four as they are by default, and two that train, on PyTorch, which compiles nothing: they train hundreds of
    times, on data of many shapes."""
    check(estimator)


def fitted(kind, backend="jax", **options):
    return kind(NET, 2, backend=backend, solver=FLOW, **options).fit(X, Y)


def values(model: Any, points: Any = X_TEST) -> np.ndarray:
    """The functions of an ensemble or the errors of a distillation."""
    return model.functions(points) if hasattr(model, "functions") else model.errors(points)


@pytest.mark.parametrize("kind", ALL)
def test_a_clone_is_the_same_and_not_fitted(kind):
    model = fitted(kind, seed=3)
    twin: Any = clone(model)
    assert twin.get_params() == model.get_params()
    assert eval(repr(twin)).get_params() == model.get_params()
    assert "seed" not in repr(clone(kind(NET, 2)))  # parameters at their defaults are left out
    np.testing.assert_array_equal(values(twin.fit(X, Y)), values(model))


@pytest.mark.parametrize("kind", ALL)
def test_parameters_that_are_set_count_from_the_next_fit(kind):
    model = fitted(kind)
    before = values(model)
    assert model.set_params() is model.set_params(net=replace(NET, width=64), seed=5)
    np.testing.assert_array_equal(values(model), before)
    assert not np.allclose(values(model.fit(X, Y)), before)
    assert model.net_.width == 64
    with pytest.raises(ValueError, match="seed = -1: give a whole number of at least 0"):
        model.set_params(seed=-1).fit(X, Y)
    with pytest.raises(NotFittedError):  # a fit that fails leaves none
        values(model)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_pipelines_scores_and_searches(kind):
    model: Any = make_pipeline(StandardScaler(), kind(NET, 2, solver=FLOW))
    name = kind.__name__.lower()
    mean, std = model.fit(X, Y).predict(X_TEST, return_std=True)
    alone = kind(NET, 2, solver=FLOW).fit(model[0].transform(X), Y)
    np.testing.assert_array_equal(mean, alone.predict(model[0].transform(X_TEST)))
    np.testing.assert_allclose(std**2, alone.variance(model[0].transform(X_TEST)), rtol=1e-12)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)), rel=1e-12)

    assert np.isfinite(cross_validate(model, X, Y, cv=3)["test_score"]).all()
    assert np.asarray(cross_val_predict(model, X, Y, cv=3)).shape == Y.shape
    # Next to no training, some, and some of a narrower network: no training fits worst, and the best one is trained.
    grid = [{f"{name}__solver": [GradientFlow(1e-6, 0.1), FLOW]}, {f"{name}__net": [replace(NET, width=16)]}]
    search: Any = GridSearchCV(model, grid, cv=3).fit(X, Y)
    untrained, trained, narrow = search.cv_results_["mean_test_score"]
    assert untrained < min(trained, narrow)
    assert search.best_estimator_[1].get_params() == model.set_params(**search.best_params_)[1].get_params()
    assert search.predict(X_TEST).shape == (5,)


def test_rnd_in_a_pipeline():
    """It predicts no labels, so it is no regressor: a last step with scores, which a pipeline passes on."""
    assert not is_regressor(RND(NET))
    assert is_outlier_detector(RND(NET))
    model: Any = make_pipeline(StandardScaler(), RND(NET, 2, solver=FLOW)).fit(X)
    np.testing.assert_array_equal(model.score_samples(X_TEST), -model[-1].variance(model[0].transform(X_TEST)))
    with pytest.raises(ValueError, match=r"false_alarms = None: .*give a rate"):
        model.predict(X_TEST)


def several(model: Any, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of a model fitted to two outputs, whose shapes follow those of the labels."""
    model.fit(X, both)
    mean, std = model.predict(X_TEST, return_std=True)
    assert mean.shape == std.shape == model.variance(X_TEST).shape == (5, 2)
    if isinstance(model, BayesianRND):
        assert model.errors(X_TEST).shape == (8, 5, 2)
        assert model.sample_y(X_TEST, 3).shape == (5, 2, 3)
    else:
        assert model.functions(X_TEST).shape == (8, 5, 2)
    return mean, std


@pytest.mark.parametrize("kind", REGRESSORS)
def test_several_outputs_of_the_automatic_estimator(kind):
    """One kernel, several right-hand sides. One output is the other times a number, so the evidence has one optimum."""
    sizes: dict[str, Any] = {"members": 8} if kind in ENSEMBLES else {"heads": 4, "bodies": 2}
    model = kind(**sizes)
    mean, std = several(model, np.stack([Y, 100 - 20 * Y], axis=1))
    np.testing.assert_allclose(mean[:, 1], 100 - 20 * mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(std[:, 1], 20 * std[:, 0], rtol=1e-6)
    noise: Any = model.noise_std_
    np.testing.assert_allclose(noise[1], 20 * noise[0], rtol=1e-6)
    low, high = model.interval(X_TEST, level=0.9)
    half = 1.6448536269514722 * np.sqrt(std**2 + noise**2)
    np.testing.assert_allclose([low, high], [mean - half, mean + half])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BayesianRND, {"heads": 4, "bodies": 2}),
        (BayesianRND, {"heads": 4, "bodies": 2, "linearised": True}),
        *((kind, {"members": 8}) for kind in ENSEMBLES),
    ],
)
def test_several_outputs_of_networks(kind, options):
    model, both = kind(MLP(3, width=256), **options), np.stack([Y, -2 * Y], axis=1)
    _, std = several(model, both)
    np.testing.assert_allclose(model.predict(X), both, atol=1e-4)
    if kind is BayesianRND:  # without a unit, errors are the same for every output
        np.testing.assert_array_equal(std[:, 0], std[:, 1])


@pytest.mark.parametrize("kind", ALL)
def test_data_frames(kind):
    model = kind(NET, 2, solver=FLOW).fit(FRAME, pd.Series(Y))
    assert model.feature_names_in_.tolist() == ["age", "bmi", "bp"]
    assert (model.n_features_in_, model.net_) == (3, NET)
    np.testing.assert_array_equal(values(model, FRAME_TEST), values(fitted(kind)))
    with pytest.raises(ValueError, match=r"(?s)names should match.*same order"):
        values(model, FRAME_TEST[["bp", "bmi", "age"]])
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- sex\n.*now missing:\n- bp"):
        values(model, FRAME_TEST.rename(columns={"bp": "sex"}))
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {kind.__name__} was fitted with"):
        values(model)
    if kind in REGRESSORS:  # no warning: names are compared once, and with those of the frame
        mean, _ = model.predict(FRAME_TEST, return_std=True)
        np.testing.assert_array_equal(mean, fitted(kind).predict(X_TEST))
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match=f"X has feature names, but {kind.__name__} was fitted without"):
        values(model, FRAME_TEST)
    with pytest.raises(TypeError, match=r"Feature names are only supported if all .* X.columns.astype\(str\)"):
        model.fit(FRAME.rename(columns={"bp": 7}), Y)


@pytest.mark.parametrize("kind", ALL)
def test_a_network_from_the_columns(kind):
    with pytest.raises(ValueError, match=r"solver = .* with net = None: .*leave solver out"):
        kind(None, 2, solver=GradientFlow(0.0))
    made = kind(partial(MLP, width=32), 2, solver=FLOW).fit(X, Y)
    assert made.net_ == NET
    np.testing.assert_array_equal(values(made), values(fitted(kind)))
    with pytest.raises(ValueError, match=r"net\(3\) = MLP\(in_dim=4.*in_dim 3"):
        kind(lambda columns: MLP(columns + 1)).fit(X, Y)


@pytest.mark.parametrize("kind", ALL)
def test_memory_maps_of_models(kind, tmp_path):
    model = fitted(kind)
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(values(joblib.load(tmp_path / "model.joblib", mmap_mode="r")), values(model))


def process_of(model: Any, seconds: float) -> int:
    """Where it is; it takes its time, so that no process has it all."""
    assert not model.__sklearn_is_fitted__()
    time.sleep(seconds)
    return os.getpid()


@pytest.fixture
def _workers_end():
    """Worker processes do not outlive the test, nor reach the next with another backend loaded."""
    yield
    get_reusable_executor().shutdown(wait=True)


# joblib takes a worker that has just loaded an array library for one that leaks, where a task lasts a second or more,
# and starts another. It says so in a thread that must not end by an error: nobody would then wait for the workers.
@pytest.mark.filterwarnings("ignore:A worker stopped while some jobs were given to the executor")
@pytest.mark.usefixtures("_workers_end")
@pytest.mark.check
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_of_joblib(backend):
    """Two worker processes, which get models by pickle and give scores back, find what this process finds."""
    model = BayesianRND(NET, 2, noise_std=0.1, backend=backend, solver=FLOW)
    alone = cross_val_score(model, X, Y, cv=2)
    with joblib.parallel_config("loky", n_jobs=2):
        pids = set(joblib.Parallel()(joblib.delayed(process_of)(model, seconds=0.5) for _ in range(4)))
        assert len(pids) == 2
        assert os.getpid() not in pids
        search = GridSearchCV(model, {"noise_std": [0.1, 1.0]}, cv=2).fit(X, Y)
    np.testing.assert_array_equal([search.cv_results_[f"split{i}_test_score"][0] for i in (0, 1)], alone)
    again = BayesianRND(NET, 2, **search.best_params_, backend=backend, solver=FLOW).fit(X, Y)
    np.testing.assert_array_equal(search.predict(X_TEST), again.predict(X_TEST))
