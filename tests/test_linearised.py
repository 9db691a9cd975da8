"""Bodies linearised at their start: their definition, and exact posterior samples at any width and number of heads."""

from functools import partial
from math import inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import chi2
from torch import nn

from rndlib import MLP, RND, BayesianRND, GradientDescent, GradientFlow, datasets
from rndlib.jax import Function
from rndlib.paper.fitted import tangent_kernels
from rndlib.torch import Module
from rndlib.training import problem
from rndlib.training.backends import linearised

pytestmark = pytest.mark.torch

DATA = datasets.toy(seed=0, n_test=5)
ALL = np.concatenate([DATA.X, DATA.X_test])
N = len(DATA.X)


def small(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 24), nn.SiLU(), nn.Linear(24, 24), nn.LayerNorm(24), nn.Linear(24, outputs))


def drawn(key, outputs):
    keys = jax.random.split(key, 3)
    return [jax.random.normal(k, shape) for k, shape in zip(keys, [(3, 24), (24,), (24, outputs)], strict=True)]


def applied(params, x):
    inner, bias, outer = params
    return jnp.tanh(x @ inner + bias) @ outer / 5


NETWORKS = {
    "jax": (MLP(3, width=32), "jax"),
    "torch": (MLP(3, width=32, depth=3), "torch"),
    "module": (Module(small), None),
    "function": (Function(drawn, applied), None),
}


def kernels(model: RND | BayesianRND) -> np.ndarray:
    """The tangent kernel of each body that is linearised, at all points."""
    return tangent_kernels(model, ALL)[:, 0, 0]


@pytest.mark.parametrize(("estimator", "time"), [(RND, 1.0), (BayesianRND, inf)])
@pytest.mark.parametrize("name", NETWORKS)
def test_errors_follow_gradient_flow_of_the_linearised_network(name, estimator, time):
    net, backend = NETWORKS[name]
    make = partial(estimator, net, heads=3, bodies=2, linearised=True, backend=backend)
    start = make(solver=GradientFlow(time=0.0)).fit(DATA.X).errors(ALL).reshape(2, 3, -1)
    model = make(solver=GradientFlow(time=time)).fit(DATA.X)
    for error, before, theta in zip(model.errors(ALL).reshape(start.shape), start, kernels(model), strict=True):
        decay = np.zeros((N, N)) if time == inf else expm(-time * theta[:N, :N])
        v = np.linalg.solve(theta[:N, :N], (np.eye(N) - decay) @ before[:, :N].T)
        np.testing.assert_allclose(error, before - (theta[:, :N] @ v).T, rtol=0, atol=1e-8 * np.abs(before).max())


@pytest.mark.parametrize(("name", "noise_std"), [("torch", 0.0), ("module", 0.1)])
def test_samples_are_draws_from_the_posterior_of_the_network_s_own_kernel(name, noise_std):
    """On one narrow body, where heads that share parameters are far from it."""
    (net, backend), heads = NETWORKS[name], 1000
    model = BayesianRND(net, heads=heads, noise_std=noise_std, linearised=True, backend=backend).fit(DATA.X, DATA.y)
    # What `tangent_kernels` repeats for each of a million pairs of heads.
    (theta,) = np.add(*model._loaded.tangent_kernels(net, model._draw([0]).tangent, ALL))[:, 0, 0]
    A, C = theta[:N, :N] + noise_std**2 * np.eye(N), theta[:N, N:]
    mean, cov = C.T @ np.linalg.solve(A, DATA.y), theta[N:, N:] - C.T @ np.linalg.solve(A, C)
    np.testing.assert_allclose(model.predict(DATA.X_test), mean, rtol=1e-6)
    samples = model.sample_y(DATA.X_test, heads) - mean[:, None]

    def probability(cov: np.ndarray) -> float:
        squares = np.sum(np.linalg.solve(np.linalg.cholesky(cov), samples) ** 2)
        return float(2 * min(chi2.sf(squares, samples.size), chi2.cdf(squares, samples.size)))

    assert probability(cov) > 1e-4
    assert probability(1.1 * cov) < 1e-4
    assert probability(theta[N:, N:]) < 1e-4  # the prior
    apart = np.corrcoef(samples)  # of points; columns are independent draws
    expected = cov / np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    assert np.abs(np.arctanh(apart - np.eye(5)) - np.arctanh(expected - np.eye(5))).max() < 5 / np.sqrt(heads)


@pytest.mark.parametrize("name", ["torch", "module"])
def test_heads_are_taken_a_few_at_a_time(name, monkeypatch):
    net, backend = NETWORKS[name]
    make = partial(BayesianRND, net, heads=3, linearised=True, backend=backend)
    expected = make().fit(DATA.X, DATA.y).sample_y(DATA.X_test, 3)
    monkeypatch.setattr(problem, "DIRECTIONS_BYTES", 1)
    np.testing.assert_allclose(make().fit(DATA.X, DATA.y).sample_y(DATA.X_test, 3), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "make", [partial(Module, small), partial(Function, drawn, applied)], ids=["module", "function"]
)
def test_derivatives_are_taken_at_a_few_points_at_a_time(make, monkeypatch):
    def errors() -> np.ndarray:
        """Of another network object each time, for which JAX compiles anew."""
        return BayesianRND(make(), heads=3, linearised=True).fit(DATA.X, DATA.y).errors(DATA.X_test)

    expected = errors()
    # Four points, which divide neither N nor the test points.
    monkeypatch.setattr(linearised, "FORMED", 4 * make().parameters(1))
    np.testing.assert_allclose(errors(), expected, rtol=1e-9, atol=1e-9)


def test_each_body_has_a_mean_of_its_own():
    model = BayesianRND(MLP(3, width=32), heads=2, bodies=2, linearised=True, backend="torch").fit(DATA.X, DATA.y)
    samples, errors = model.sample_y(DATA.X_test, 4, random_state=1).T, model.errors(DATA.X_test)
    order = np.random.default_rng(1).permutation(4)
    means = samples - errors[order]
    same = order[:, None] // 2 == order[None] // 2
    apart = np.abs(means[:, None] - means[None]).max(-1)
    assert apart[same].max() < 1e-9 < 1e-3 < apart[~same].min()
    np.testing.assert_allclose(model.predict(DATA.X_test), means.mean(0), rtol=1e-9)


def test_bad_settings():
    with pytest.raises(ValueError, match="a linearised network takes GradientFlow"):
        RND(MLP(3), heads=4, linearised=True, solver=GradientDescent())
    with pytest.raises(ValueError, match="X: the tangent kernel of its rows is singular in float64"):
        RND(MLP(3, width=32, depth=1), linearised=True).fit(DATA.X)
    with pytest.raises(ValueError, match="X has 1 repeated rows"):
        RND(MLP(3, width=32), linearised=True).fit(DATA.X[[0, 0]])
