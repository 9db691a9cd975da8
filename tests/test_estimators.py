"""What estimators promise of their numbers: shapes, samples, seeds, and that a fit is kept as it was.

Notebooks 01 and 03 hold them to their laws, and tests/test_definitions.py to their definitions.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientFlow, datasets
from rndlib.estimators import NotFittedError

NET = MLP(3, width=64)
DATA = datasets.toy(2, n_test=6)
X, Y, X_TEST = DATA.X, DATA.y / 10, DATA.X_test


@pytest.fixture(scope="module")
def model():
    return BayesianRND(NET, heads=3, bodies=4, directions="independent").fit(X, Y)


def test_shapes_and_moments(model):
    assert model.errors(X_TEST).shape == (12, 6)
    mean, std = model.predict(X_TEST, return_std=True)
    assert mean.shape == std.shape == (6,)
    np.testing.assert_allclose(std**2, model.variance(X_TEST))
    np.testing.assert_array_equal(model.predict(X_TEST), mean)
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-6 * np.abs(Y).max())
    assert np.abs(model.errors(X)).max() < 1e-6
    assert model.report.time == inf
    assert model.report.converged
    assert model.report.residual < 1e-6
    assert model.report.error <= GradientFlow().rtol
    assert model.report.evaluations > 0


def test_samples_are_the_heads_each_once(model):
    samples = model.sample_y(X_TEST, 12, random_state=1)
    assert samples.shape == (6, 12)
    expected = model.predict(X_TEST) + model.errors(X_TEST)
    np.testing.assert_allclose(np.sort(samples.T, axis=0), np.sort(expected, axis=0))
    np.testing.assert_array_equal(model.sample_y(X_TEST, 12, random_state=1), samples)
    assert not np.array_equal(model.sample_y(X_TEST, 12, random_state=2), samples)
    np.testing.assert_array_equal(model.sample_y(X_TEST, 5, random_state=1), samples[:, :5])
    with pytest.raises(ValueError, match="n_samples = 13: the 12 heads"):
        model.sample_y(X_TEST, 13)


def test_a_mean_of_ones_own():
    model = BayesianRND(NET, heads=3, bodies=4, mean=lambda X: X[:, 0]).fit(X)
    np.testing.assert_array_equal(model.predict(X_TEST), X_TEST[:, 0])
    with pytest.raises(ValueError, match="mean"):
        BayesianRND(NET, mean=lambda X: X).fit(X[:2]).predict(X_TEST)


def test_nothing_is_returned_before_it_is_trained():
    for untrained in (DeepEnsemble(NET), BayesianEnsemble(NET)):
        with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
            untrained.predict(X_TEST)
    for untrained in (RND(NET), BayesianRND(NET)):
        with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
            untrained.errors(X_TEST)
    with pytest.raises(NotFittedError, match="had no y"):
        BayesianRND(NET, heads=1).fit(X).predict(X_TEST)
    with pytest.raises(NotFittedError):
        _ = RND(NET).report


def test_a_seed_decides_everything_and_the_numbers_around_it_nothing():
    functions = DeepEnsemble(NET, 3, seed=1).fit(X, Y).functions(X_TEST)
    np.testing.assert_array_equal(DeepEnsemble(NET, 3, seed=1).fit(X, Y).functions(X_TEST), functions)
    assert not np.allclose(DeepEnsemble(NET, 3, seed=2).fit(X, Y).functions(X_TEST), functions)
    # Members are trained in blocks that share their step size, so another number of them is another rounding of it.
    more = DeepEnsemble(NET, 5, seed=1).fit(X, Y).functions(X_TEST)[:3]
    assert np.linalg.norm(more - functions) < GradientFlow().rtol * np.linalg.norm(functions)


def test_labels_play_no_part_in_rnd():
    np.testing.assert_array_equal(RND(NET, 2).fit(X).errors(X_TEST), RND(NET, 2).fit(X, Y).errors(X_TEST))


# ------------------------------------------------------------------------------------------- a fit is self-contained

OTHER = {
    "net": replace(NET, width=48),
    "heads": 3,
    "bodies": 3,
    "members": 6,
    "seed": 5,
    "backend": "jax",
    "solver": GradientFlow(time=1.0),
    "directions": "independent",
    "noise_std": 0.7,
    "mean": lambda X: np.ones(len(X)),
}


def predictions(model) -> dict[str, np.ndarray]:
    """All that a fitted model can say of points, by the name of the method."""
    calls = {
        "errors": lambda: model.errors(X_TEST),
        "functions": lambda: model.functions(X_TEST),
        "initial": lambda: np.stack(model.initial(X_TEST)),
        "predict": lambda: np.zeros(1) if isinstance(model, RND) else np.stack(model.predict(X_TEST, return_std=True)),
        "sample_y": lambda: model.sample_y(X_TEST, n_samples=4),
        "variance": lambda: model.variance(X_TEST),
        "report": lambda: np.array(model.report.residual),
    }
    return {name: call() for name, call in calls.items() if hasattr(type(model), name)}


@pytest.mark.parametrize(
    "model",
    [
        RND(NET, 2, 2),
        BayesianRND(NET, 2, 2, noise_std=0.1),
        DeepEnsemble(NET, 4),
        BayesianEnsemble(NET, 4, noise_std=0.1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_is_set_after_a_fit_waits_for_the_next(model):
    """Predictions are those of what was fitted, whatever has been set since."""
    before = predictions(model.fit(X, Y))
    for name, value in OTHER.items():
        if name in model.get_params():
            setattr(model, name, value)
    for method, value in predictions(model).items():
        np.testing.assert_array_equal(value, before[method], err_msg=method)
    assert not np.array_equal(predictions(model.fit(X, Y))["variance"], before["variance"])
