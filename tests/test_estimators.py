"""Each estimator against its law, with the wrong law rejected by the same margin, and the habits of scikit-learn.

The unit of replication is a network with its own seed: one head a body, so that nothing is dependent. With M of them
the ratio of second moment to law variance, averaged over P points, has the variance 2 / M * mean_ij rho_ij^2, rho the
law's correlations. The margin is four of its standard deviations, and 10 / width for the kernels' O(1 / width)
fluctuation and drift. Labels are a tenth of the toy target, so that fitting them keeps the networks lazy.
"""

from dataclasses import replace
from functools import cache
from math import inf

import numpy as np
import pytest

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    datasets,
    laws,
)
from rndlib.estimators import NotFittedError

M = 400
NET = MLP(3, width=512)
DATA = datasets.toy(2, n_test=6)
X, Y, X_TEST = DATA.X, DATA.y / 10, DATA.X_test
DESCENT = GradientDescent(0.02, 100)
SOLVERS = {"converged": GradientFlow(), "descent": DESCENT}
WHEN = {"converged": {}, "descent": {"time": DESCENT.time, "learning_rate": 0.02}}


def margin(cov: np.ndarray) -> float:
    rho = cov / np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    return 4 * float(np.sqrt(2 / M * np.mean(rho**2))) + 10 / NET.width


def ratio(functions: np.ndarray, law: laws.Gaussian) -> float:
    return float(np.mean((functions - law.mean) ** 2 / law.var))


@cache
def rnd(when: str) -> RND:
    return RND(NET, heads=1, bodies=M, solver=SOLVERS[when]).fit(X)


@pytest.mark.parametrize("when", SOLVERS)
def test_standard_estimators_follow_their_laws(when):
    ensemble = laws.ensemble(NET, X, Y, X_TEST, full_cov=True, **WHEN[when])
    error = laws.rnd_error(NET, X, X_TEST, **WHEN[when])
    bayesian = laws.bayesian_rnd_error(NET, X, X_TEST, **WHEN[when])
    assert ensemble.cov is not None
    off = margin(ensemble.cov)

    model = DeepEnsemble(NET, M, solver=SOLVERS[when]).fit(X, Y)
    assert abs(ratio(model.functions(X_TEST), ensemble) - 1) < off
    assert abs(np.mean(model.variance(X_TEST) / ensemble.var) - 1) < off
    # Not the posterior: that has another variance.
    assert abs(np.mean(model.variance(X_TEST) / bayesian.var) - 1) > off

    assert abs(ratio(rnd(when).errors(X_TEST), error) - 1) < off
    assert abs(np.mean(rnd(when).variance(X_TEST) / ensemble.var) - 1) < off
    # Without the half it would be twice the ensemble's.
    assert abs(np.mean(2 * rnd(when).variance(X_TEST) / ensemble.var) - 1) > off


def test_bayesian_estimators_follow_their_laws():
    """With noise; notebook 03 has the law without, and at finite times."""
    law = laws.bayesian_rnd_error(NET, X, X_TEST, noise_std=0.3, full_cov=True)
    assert law.cov is not None
    off = margin(law.cov)
    errors = BayesianRND(NET, heads=1, bodies=M, noise_std=0.3).fit(X).errors(X_TEST)
    assert abs(ratio(errors, law) - 1) < off
    # The standard target, and the noise forgotten, are both rejected.
    assert abs(ratio(rnd("converged").errors(X_TEST), law) - 1) > off
    assert abs(ratio(errors, laws.bayesian_rnd_error(NET, X, X_TEST)) - 1) > off

    ensemble = BayesianEnsemble(NET, M, noise_std=0.3).fit(X, Y)
    posterior = laws.posterior(NET, X, Y, X_TEST, noise_std=0.3)
    np.testing.assert_allclose(posterior.var, law.var)
    assert abs(ratio(ensemble.functions(X_TEST), posterior) - 1) < off
    assert abs(np.mean(ensemble.variance(X_TEST) / law.var) - 1) < off


@pytest.fixture(scope="module")
def model():
    return BayesianRND(replace(NET, width=128), heads=3, bodies=4, directions="independent").fit(X, Y)


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
    model = BayesianRND(replace(NET, width=128), heads=3, bodies=4, mean=lambda X: X[:, 0]).fit(X)
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
        BayesianRND(replace(NET, width=64), heads=1).fit(X).predict(X_TEST)
    with pytest.raises(NotFittedError):
        _ = RND(NET).report


def test_a_seed_decides_everything_and_the_numbers_around_it_nothing():
    net = replace(NET, width=64)
    functions = DeepEnsemble(net, 3, seed=1).fit(X, Y).functions(X_TEST)
    np.testing.assert_array_equal(DeepEnsemble(net, 3, seed=1).fit(X, Y).functions(X_TEST), functions)
    assert not np.allclose(DeepEnsemble(net, 3, seed=2).fit(X, Y).functions(X_TEST), functions)
    # Members are trained in blocks that share their step size, so another number of them is another rounding of it.
    more = DeepEnsemble(net, 5, seed=1).fit(X, Y).functions(X_TEST)[:3]
    assert np.linalg.norm(more - functions) < GradientFlow().rtol * np.linalg.norm(functions)


def test_single_precision_only_rounds():
    net = replace(NET, width=64)
    double, single = (RND(net, 2, 2, dtype=dtype).fit(X).errors(X_TEST) for dtype in ("float64", "float32"))
    assert single.dtype == np.float64
    # Eq. 1 adds up 64 terms of rounding 2^-24; a hundred of them are a generous bound.
    scale = np.abs(double).max() + 10
    np.testing.assert_allclose(single, double, atol=100 * 2**-24 * scale)
    assert not np.array_equal(single, double)


def test_labels_play_no_part_in_rnd():
    net = replace(NET, width=64)
    np.testing.assert_array_equal(RND(net, 2).fit(X).errors(X_TEST), RND(net, 2).fit(X, Y).errors(X_TEST))


# ------------------------------------------------------------------------------------------- a fit is self-contained

SMALL = MLP(3, width=64)
OTHER = {
    "net": MLP(3, width=48),
    "heads": 3,
    "bodies": 3,
    "members": 6,
    "seed": 5,
    "backend": "jax",
    "solver": GradientFlow(time=1.0),
    "dtype": "float32",
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
        RND(SMALL, 2, 2),
        BayesianRND(SMALL, 2, 2, noise_std=0.1),
        DeepEnsemble(SMALL, 4),
        BayesianEnsemble(SMALL, 4, noise_std=0.1),
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
