"""Priors: what trains against explicit sums over tensors, posteriors against explicit Gaussian processes."""

from dataclasses import replace
from functools import partial
from typing import Any, cast

import jax
import numpy as np
import pytest
from networks import BACKENDS, jacobian
from scipy.stats import chi2, multivariate_normal
from sklearn.base import clone
from torch import nn

from rndlib import MLP, BayesianRND, Prior, datasets, kernels, laws
from rndlib.jax import Function
from rndlib.paper.fitted import tangent_kernels
from rndlib.torch import Module
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import draw_offsets

DATA = datasets.toy(seed=0, n_test=5)
ALL = np.concatenate([DATA.X, DATA.X_test])
N = len(DATA.X)
NET = MLP(3, width=24, depth=3, sigma_b=0.5)
SCALES = [2.0, (0.5, 3.0), (1.5, 0.7)]


def waves(X):
    return np.stack([np.sin(X[:, 0]), X[:, 1]], axis=1)


def height(X):
    return 3 + X[:, 2]


MADE: Any = Prior  # of arguments that are no such
DENSITY: Any = multivariate_normal
PRIOR = Prior(scales=SCALES, features=waves, mean=height, output_scale=1.3)


def small(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, outputs))


def drawn(key, outputs):
    first, last = jax.random.split(key)
    return {"first": jax.random.normal(first, (3, 16)), "last": jax.random.normal(last, (16, outputs))}


def applied(params, x):
    return jax.nn.silu(x @ params["first"]) @ params["last"] / 4


OWN = [Module(small), Function(drawn, applied, scales={"['first']": 3.0, "['last']": 1.0})]


def posterior(K, y, noise_std=0.0):
    """Mean and covariance at the last points of a centred process with the covariance K, given y at the first N."""
    A = K[:N, :N] + noise_std**2 * np.eye(N)
    return K[N:, :N] @ np.linalg.solve(A, y), K[N:, N:] - K[N:, :N] @ np.linalg.solve(A, K[:N, N:])


@in_float64
def of_prior(model) -> tuple[np.ndarray, list[np.ndarray]]:
    """Derivatives at all points by each tensor of a network without a prior, times the tensor's scale; and phi.

    All times the output scale. They are those of Eq. 1 written out, at the weights where the model has its tangent.
    """
    w, b, *rest = [a[0] for layer in model._trained.blocks[0].drawn.tangent for a in layer]
    layers, scales = [(w, b), rest[:2], rest[2:]], [tuple(np.broadcast_to(s, 2)) for s in SCALES]
    top = scales[-1][0]
    theta = [tuple(a * s / top for a, s in zip(*both, strict=True)) for both in zip(layers[:-1], scales, strict=False)]
    theta.append(layers[-1][:2])
    sizes = [a.size for layer in theta for a in layer]
    J = jacobian(NET, theta, ALL)
    parts = np.split(J, np.cumsum(sizes)[:-1], axis=1)
    return 1.3 * waves(ALL), [1.3 * s * part for s, part in zip(np.concatenate(scales), parts, strict=True)]


def kernel(model) -> np.ndarray:
    """The covariance of the prior, as a sum over tensors."""
    phi, parts = of_prior(model)
    return phi @ phi.T + sum(part @ part.T for part in parts)


def fitted(backend="jax", prior: Any = PRIOR, heads=3, **kwargs):
    model = BayesianRND(NET, heads=heads, prior=prior, linearised=True, backend=backend, **kwargs)
    return model.fit(DATA.X, DATA.y)


@pytest.mark.parametrize("noise_std", [0.0, 0.3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_trains_is_a_sum_over_tensors_and_heads_are_the_posterior_s(backend, noise_std):
    """The error starts as a draw of the prior, and ends, as the mean does, where linear algebra takes it."""
    model = fitted(backend, noise_std=noise_std)
    K = kernel(model)
    np.testing.assert_allclose(tangent_kernels(model, ALL)[0, 0, 0], K, rtol=0, atol=1e-9 * np.abs(K).max())
    # The error at the start is J S z for numbers z of variance 1: psi of variance S^2, and the head's own weights.
    phi, parts = of_prior(model)
    drawn: Any = BayesianRND(NET, heads=3, prior=PRIOR, noise_std=noise_std, linearised=True, backend=backend)
    drawn._begin(DATA.X)
    numbers = drawn._draw([0])
    psi = [a.reshape(3, -1) for layer in numbers.directions for a in layer]
    head = [a[0].reshape(3, -1) for a in numbers.start[-1]]
    z = [*(-a for a in psi), *head[:2]]
    start = head[2] @ phi.T + sum(a @ part.T for a, part in zip(z, parts, strict=True))
    error = np.subtract(*model.initial(ALL))
    np.testing.assert_allclose(error, start, rtol=0, atol=1e-9 * np.abs(start).max())
    # A draw of the posterior: what the jittered error on X tells is taken away.
    jittered = start[:, :N] + noise_std * draw_offsets(0, [0], N, 3)[0].T
    gain = np.linalg.solve(K[:N, :N] + noise_std**2 * np.eye(N), K[:N, N:])
    np.testing.assert_allclose(model.errors(DATA.X_test), start[:, N:] - jittered @ gain, rtol=1e-7)
    mean, _ = posterior(K, DATA.y - height(DATA.X), noise_std)
    np.testing.assert_allclose(model.predict(DATA.X_test), mean + height(DATA.X_test), rtol=1e-7)
    assert model.sample_y(DATA.X_test, 2).shape == (5, 2)


def are_draws(errors, cov) -> bool:
    """Whether draws (draws, T) can be those from N(0, cov): the likelihood ratio test, wrong in one of 10^6 cases.

    Minus twice the logarithm of the ratio is chi-squared of T (T + 1) / 2, up to a factor of 1 + O(1 / draws).
    """
    draws, T = errors.shape
    white = np.linalg.solve(np.linalg.cholesky(cov), errors.T)
    S = white @ white.T / draws
    return draws * (np.trace(S) - np.linalg.slogdet(S)[1] - T) < chi2.isf(1e-6, T * (T + 1) / 2)


def test_kernels_in_the_limit_of_width_are_sums_over_layers():
    """Each layer's part, from the kernels of networks that end there, times the slopes of the layers above it."""
    deep, two, one = (kernels.kernel(MLP(3, depth=depth, sigma_b=0.5), ALL) for depth in (3, 2, 1))
    third, second = deep.body / two.ntk, two.body / one.ntk  # sigma_w^2 kdot of the layers
    parts = []
    for own, above in ((one, second * third), (two, third), (deep, 1.0)):
        parts += [(own.nngp - 0.5**2) * above, np.full_like(own.nngp, 0.5**2) * above]
    scales = np.concatenate([np.broadcast_to(s, 2) for s in SCALES])
    phi = waves(ALL)
    K = 1.3**2 * (phi @ phi.T + sum(s**2 * part for s, part in zip(scales, parts, strict=True)))
    law = laws.posterior(NET, DATA.X, DATA.y, DATA.X_test, noise_std=0.2, full_cov=True, prior=PRIOR)
    mean, cov = posterior(K, DATA.y - height(DATA.X), 0.2)
    np.testing.assert_allclose(law.mean, mean + height(DATA.X_test), rtol=1e-8)
    assert law.cov is not None
    np.testing.assert_allclose(law.cov, cov, rtol=0, atol=1e-8 * cov.max())
    np.testing.assert_allclose(law.var, laws.posterior(NET, DATA.X, DATA.y, DATA.X_test, 0.2, prior=PRIOR).var)
    given = DENSITY(height(DATA.X), K[:N, :N] + 0.2**2 * np.eye(N)).logpdf(DATA.y)
    assert laws.log_evidence(NET, DATA.X, DATA.y, 0.2, prior=PRIOR) == pytest.approx(given, rel=1e-9)
    draws = PRIOR.sample(NET, DATA.X_test, 2000, random_state=1)
    assert are_draws(draws.T - height(DATA.X_test), K[N:, N:])
    assert not are_draws(draws.T - height(DATA.X_test), 1.1 * K[N:, N:])


def test_the_prior_by_default_is_the_tangent_kernel():
    law, same = (laws.posterior(NET, DATA.X, DATA.y, DATA.X_test, prior=prior) for prior in (None, Prior()))
    np.testing.assert_allclose(same.mean, law.mean, rtol=1e-9)
    np.testing.assert_allclose(same.var, law.var, rtol=1e-9)


@pytest.mark.torch
@pytest.mark.parametrize("net", OWN, ids=["module", "function"])
def test_a_network_of_ones_own_with_features(net):
    prior = Prior(features=waves, mean=height, output_scale=2.0)
    model = BayesianRND(net, heads=2, bodies=2, prior=prior, linearised=True, noise_std=0.1).fit(DATA.X, DATA.y)
    means = []
    ((_, drawn, _),) = model._trained.blocks  # networks as small as these are solved for together
    for body in range(2):
        omega = [tuple(a[body] for a in layer) for layer in drawn.tangent]
        J = net.jacobian([*omega[:-1], omega[-1][:-1]], ALL)[:, 0]
        means.append(posterior(4 * (J @ J.T + waves(ALL) @ waves(ALL).T), DATA.y - height(DATA.X), 0.1)[0])
    np.testing.assert_allclose(model.predict(DATA.X_test), np.mean(means, axis=0) + height(DATA.X_test), rtol=1e-7)
    K = 4 * (kernels.empirical(net, ALL).ntk + waves(ALL) @ waves(ALL).T)
    law = laws.posterior(partial(kernels.empirical, net), DATA.X, DATA.y, DATA.X_test, 0.1, prior=prior)
    np.testing.assert_allclose(law.mean, posterior(K, DATA.y - height(DATA.X), 0.1)[0] + height(DATA.X_test), rtol=1e-7)


@pytest.mark.check
@pytest.mark.parametrize("backend", BACKENDS)
def test_trained_networks_tend_to_the_posterior(backend):
    """Of one head per network, so that none shares hidden weights; the margin is that of 64 squares at 3 deviations."""
    prior = Prior(scales=[1.0, (2.0, 0.5)], features=waves, mean=height)
    net = MLP(3, width=128)
    model = BayesianRND(net, heads=1, bodies=64, prior=prior, backend=backend, noise_std=0.3).fit(DATA.X, DATA.y)
    law = laws.posterior(net, DATA.X, DATA.y, DATA.X_test, 0.3, prior=prior)
    assert abs(np.mean(model.variance(DATA.X_test) / law.var) - 1) < 3 * np.sqrt(2 / 64)
    at_X = laws.posterior(net, DATA.X, DATA.y, DATA.X, 0.3, prior=prior)
    assert np.abs(model.predict(DATA.X) - at_X.mean).max() < 0.3
    assert model.report.departure is not None
    assert 0.5 < model.report.departure.factor < 1.5


@pytest.mark.torch
def test_further_points_several_outputs_and_clones():
    model: Any = BayesianRND(NET, heads=4, prior=PRIOR, linearised=True, backend="torch")
    both = np.stack([DATA.y, -DATA.y], axis=1)
    mean = replace(PRIOR, mean=lambda X: np.stack([height(X), 2 * height(X)], axis=1))
    two = cast(Any, clone(model)).set_params(prior=mean).fit(DATA.X, both)
    second = cast(Any, clone(model)).set_params(prior=replace(PRIOR, mean=lambda X: 2 * height(X)))
    alone = second.fit(DATA.X, -DATA.y).predict(DATA.X_test)
    np.testing.assert_allclose(two.predict(DATA.X_test)[:, 1], alone, rtol=1e-6)
    assert two.sample_y(DATA.X_test, 2).shape == (5, 2, 2)
    np.testing.assert_allclose(two.predict(DATA.X), both, atol=1e-6)
    model.partial_fit(DATA.X[:5], DATA.y[:5]).partial_fit(DATA.X, DATA.y)
    once = fitted("torch", heads=4).predict(DATA.X_test)
    np.testing.assert_allclose(model.predict(DATA.X_test), once, rtol=1e-6)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MADE(output_scale=0.0), "output_scale = 0.0: give a number above 0"),
        (lambda: MADE(features=np.ones(3)), "features = .*: give a function of X"),
        (lambda: MADE(mean=1.0), "mean = 1.0: give a function of X"),
        (lambda: fitted(prior=MADE(scales=[1.0, 2.0])), "scales = .*, for each layer of MLP"),
        (lambda: fitted(prior=MADE(scales=2.0)), "scales = 2.0: give a number, or a pair"),
        (lambda: fitted(prior=MADE(scales=[1.0, 0.0, 1.0])), "scales = 0.0: give a number above 0"),
        (lambda: fitted(prior=MADE(scales=[1.0, (1.0, 2.0, 3.0), 1.0])), "scales = .*, or a pair"),
        (lambda: fitted(prior=MADE(features=lambda X: X[:, 0])), r"features\(X\) has shape \(10,\)"),
        (lambda: fitted(prior=MADE(features=lambda X: X - X.mean(0))), r"features\(X\[:1\]\) is not features\(X\)"),
        (lambda: fitted(prior=MADE(mean=lambda X: X[:, 0] - X[:, 0].mean())), r"mean\(X\[:1\]\) .*each row by itself"),
        (
            lambda: BayesianRND(prior=Prior(features=lambda X: 1e9 + X)).fit(DATA.X, DATA.y),
            r"features\(X\) are as large as 1e\+09: give numbers of about 1",
        ),
        (lambda: fitted(prior=MADE(mean=lambda X: X)), r"mean\(X\) has shape"),
        (lambda: BayesianRND(Module(small), prior=PRIOR).fit(DATA.X), "is for an MLP: give scales to your network"),
        (lambda: BayesianRND(Module(small, output_scale=None), prior=PRIOR), "a number as the network.s output_scale"),
        (lambda: PRIOR.sample(NET, DATA.X, 0), "n = 0: give a whole number of at least 1"),
        (lambda: MADE(scales=[]).sample(NET, DATA.X), "for each layer of MLP"),
        (
            lambda: PRIOR.sample(partial(kernels.empirical, OWN[0]), DATA.X),
            "is for an MLP: give scales to your network",
        ),
        (lambda: MADE().sample("net", DATA.X), "net = 'net': give an rndlib.MLP"),
        (lambda: laws.log_evidence(NET, np.ones((2, 3)), [0.0, 1.0]), "repeated rows"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
