"""Control variates of trained networks, and the statistics that use them: unbiased, with intervals that cover."""

from functools import partial
from math import sqrt
from typing import Any

import jax
import numpy as np
import pytest
from power import gaussian, most

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    datasets,
    kernels,
    laws,
)
from rndlib.jax import Function
from rndlib.paper.evidence import statistics
from rndlib.paper.evidence.control_variates import Sample, joined, regressions, trained

LINEAR = MLP(3, depth=1, sigma_b=0.5)
X = np.random.default_rng(0).normal(size=(3, 3))
TESTS = np.random.default_rng(1).normal(size=(4, 3))
Y = np.array([1.0, -2.0, 0.5])


def init(key, outputs):
    hidden, head = jax.random.split(key)
    return [jax.random.normal(hidden, (3, 8)), jax.random.normal(head, (8, outputs))]


def apply(params, x):
    return jax.numpy.tanh(x[..., 0] @ params[0]) @ params[1]


# The control variates themselves


@pytest.mark.parametrize("solver", [GradientFlow(rtol=1e-4), GradientFlow(0.7, rtol=1e-5), GradientDescent(0.05, 20)])
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
def test_a_linear_network_is_its_own_control_variate(solver, noise_std):
    """Without a hidden layer, networks are linear in their parameters, and their kernel is that of infinite width."""
    given = {"seed": 3, "solver": solver}
    models: list[Any] = [BayesianEnsemble(LINEAR, 5, noise_std=noise_std, **given)]
    if noise_std:  # Without noise, Bayesian RND of such a network would imitate the function 0.
        models += [BayesianRND(LINEAR, heads, 5, noise_std=noise_std, **given) for heads in (1, 3)]
    else:
        models += [DeepEnsemble(LINEAR, 5, **given), RND(LINEAR, 1, 5, **given), RND(LINEAR, 3, 5, **given)]
    for model in models:
        sample = trained(model, X, TESTS, None if hasattr(model, "errors") else Y, untrained=2, heads=3)
        assert sample.others is not None
        assert sample.own is not None
        assert sample.others.shape == (2, 3, 4)
        np.testing.assert_allclose(sample.own, sample.values, atol=1e-3)


def test_any_network_has_regressions_by_kernels_that_are_given():
    model, points = RND(LINEAR, 1, 5), np.concatenate([X, TESTS])
    given = regressions(model, X, TESTS, kernel=partial(kernels.kernel, LINEAR))
    np.testing.assert_allclose(given, regressions(model, X, TESTS), rtol=1e-9, atol=1e-12)
    frames, net = points.reshape(-1, 3, 1), Function(init, apply, scales=1.0)
    own = partial(kernels.empirical, net, draws=16)
    found = regressions(RND(net, 1, 5), frames[:3], frames[3:], kernel=own)
    start = np.subtract(*RND(net, 1, 5).initial(frames))
    gains = np.linalg.solve(own(frames[:3], frames[:3]).ntk, own(frames[:3], frames[3:]).ntk)
    np.testing.assert_allclose(found, start[:, 3:] - start[:, :3] @ gains, rtol=1e-6)


def test_control_variates_come_closer_as_networks_get_wider():
    distances = []
    for width in (32, 512):
        model = DeepEnsemble(MLP(3, width=width), 16, solver=GradientFlow(rtol=1e-2))
        distances.append(np.std(model.fit(X, Y).functions(TESTS) - regressions(model, X, TESTS, Y)))
    assert distances[1] < distances[0] / 2


@pytest.mark.check
def test_untrained_heads_have_the_moments_of_trained_networks_starts():
    """At time 0 they are the networks themselves: heads of few against many networks, with weights of another seed."""
    given: Any = {"solver": GradientFlow(0.0)}
    net = MLP(3, width=32)
    for model, labels in (
        (RND(net, 1, 4000, **given), None),
        (BayesianRND(net, 1, 4000, **given), None),
        (DeepEnsemble(net, 4000, **given), Y),
        (BayesianEnsemble(net, 4000, **given), Y),
    ):
        sample = trained(model, X, TESTS, labels, untrained=512, heads=8)
        assert sample.own is not None
        assert sample.others is not None
        assert not np.isin(sample.others, sample.own).any()
        squares, own = np.square(sample.others), np.square(sample.own)
        error = np.std(squares.mean(axis=1), axis=0) / sqrt(512)
        apart = squares.mean(axis=(0, 1)) - own.mean(axis=0)
        assert np.all(abs(apart) < 4.5 * np.hypot(error, own.std(axis=0) / sqrt(4000)))


# Statistics with control variates, on synthetic networks


def synthetic(rng, networks, more, F, apart=0.2, shift: Any = 0.0, scale=1.0):
    """Networks of the covariance F F^T, moved and scaled, and control variates of another covariance and mean."""
    starts = rng.standard_normal((networks + more, F.shape[1]))
    variates = 0.9 * starts @ F.T + 0.5
    own = rng.standard_normal((networks, F.shape[1]))
    values = (sqrt(1 - apart**2) * starts[:networks] + apart * own) @ F.T
    return Sample(scale * values + shift, variates[:networks], variates[networks:].reshape(-1, 4, len(F)))


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (0.1, 1.0), (0.25, 1.0), (0.0, sqrt(1.2)), (0.0, sqrt(0.7))])
def test_joint_law_ends_cover(mean, scale):
    """On the law and off it, though the law of the control variates is another one, and without them.

    The ends are asymptotic: each may miss up to twice as often as its 5 %.
    """
    rng = np.random.default_rng(2)
    F = np.eye(4) + 0.3 * rng.standard_normal((4, 4))
    L, law = np.linalg.cholesky(F @ F.T), gaussian(0, F @ F.T)
    truth = sqrt(mean**2 + (scale**2 - 1) ** 2 / 2)
    intervals, plain = np.zeros((2, 300, 2))
    for run in range(300):
        sample = synthetic(rng, 128, 1024, F, shift=L @ np.full(4, mean), scale=scale)
        intervals[run] = statistics.joint_law(sample, law).interval
        plain[run] = statistics.joint_law(sample.values, law).interval
    for low, high in (intervals.T, plain.T):
        assert np.sum(high < truth - 1e-12) <= most(300, 0.1)
        assert np.sum(low > truth + 1e-12) <= most(300, 0.1)
    assert intervals[:, 1].mean() - truth < (plain[:, 1].mean() - truth) / 1.5


def test_a_mistake_that_control_variates_share_does_not_cancel():
    """A target that is the predictor itself makes every error zero, and every control variate too."""
    zero = np.zeros((64, 2))
    assert statistics.joint_law(Sample(zero, zero, zero[:, None]), gaussian(0, np.eye(2))).value > 0.5


def test_heads_of_one_network_are_not_counted_as_independent():
    """Four heads that are the same leave the interval of one."""
    others = np.random.default_rng(6).standard_normal((200, 1, 2))
    one, four = (
        Sample(np.ones((10**6, 2)), np.zeros((10**6, 2)), of).groups(np.square)[1]
        for of in (others, np.repeat(others, 4, axis=1))
    )
    np.testing.assert_allclose(four / four.mean(), one / one.mean())


def test_samples_at_points_joined_and_by_network():
    rng = np.random.default_rng(0)
    sample = Sample(rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.normal(size=(4, 2, 3)))
    assert sample.own is not None
    assert sample.others is not None
    back = joined([sample.at(slice(1)), sample.at([1, 2])])
    for part in ("values", "own", "others"):
        np.testing.assert_array_equal(getattr(back, part), getattr(sample, part))
    together = sample.by_network(2)
    np.testing.assert_array_equal(together.values[1], sample.values[2:4])
    assert together.own is not None
    np.testing.assert_array_equal(together.own[2], sample.own[4:])
    assert together.others is not None
    np.testing.assert_array_equal(together.others[3, 0], sample.others[3])


# The limit


def test_limit_of_a_line_is_its_height():
    found = statistics.limit({n: [np.array([3 + 5 / n - 1, 3 + 5 / n + 1])] for n in (10, 20, 40)})
    np.testing.assert_allclose([found.infinite.value, found.slope], [3, 5])
    assert found.errors[0].value == 3.5
    assert found.interval == (found.infinite.low, found.infinite.high)


@pytest.mark.parametrize("height", [0.0, 0.05])
def test_limit_covers(height):
    rng = np.random.default_rng(4)
    widths, ends = (16, 64, 256), []
    for _ in range(300):
        errors = {
            n: [height + 2 / n + rng.exponential(0.2, size) - 0.2, 0.1 * rng.standard_normal(200)]
            for n, size in zip(widths, (20, 40, 30), strict=True)
        }
        found = statistics.limit(errors)
        ends.append((found.infinite.low, found.infinite.high))
    low, high = np.transpose(ends)
    assert np.sum(low > height) <= most(300, 0.1)
    assert np.sum(high < height) <= most(300, 0.1)


def test_relative_variance_is_that_of_numpy():
    samples = np.random.default_rng(5).standard_normal((30, 3)) * [1, 2, 3]
    (numbers,) = statistics.relative_variance(samples, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(numbers.mean(), np.mean(samples.var(axis=0, ddof=1) / [1, 2, 3]) - 1)


def mean_squares(rng, bodies, correlation):
    """1/2 eps-bar^2 of bodies of eight heads at one point, and at another, whose squares have a correlation r."""
    common = rng.standard_normal((bodies, 1, 2))
    own = rng.standard_normal((bodies, 8, 2))
    errors = sqrt(correlation) * common + sqrt(1 - correlation) * own
    return np.mean(errors**2, axis=1) / 2, correlation**2


@pytest.mark.parametrize("correlation", [0.0, 0.2])
def test_the_excess_spread_is_that_of_heads_whose_squares_are_correlated(correlation):
    q, r = mean_squares(np.random.default_rng(7), 20000, correlation)
    (numbers,) = statistics.excess_spread(3 * q, np.full(2, 1.5), 8)  # a variance of 1 per head is Sigma = 1/2
    assert abs(numbers.mean() - 7 * r) < 4 * numbers.std() / sqrt(len(numbers))
    (numbers,) = statistics.excess_spread(1.1 * q, np.full(2, 0.5), 8)
    assert numbers.mean() > 7 * r + 0.15


# Real networks


@pytest.mark.check
@pytest.mark.parametrize(("width", "depth"), [(48, 2), (96, 3)])
def test_small_networks_leave_no_bias_and_intervals_cover(width, depth):
    """The truth is that of 40 times as many networks without control variates. The networks are far from their law,
    and with three layers control variates do not have the law's moments."""
    data = datasets.toy(1, n_train=4, n_test=5)
    net = MLP(3, width=width, depth=depth)
    runs, networks, bodies = 40, 48, 36
    model = DeepEnsemble(net, runs * networks, solver=GradientFlow(rtol=0.05))
    sample = trained(model, data.X, data.X_test, data.y, untrained=runs * bodies, heads=8)
    assert sample.own is not None
    assert sample.others is not None
    variance = laws.ensemble(net, data.X, data.y, data.X_test).var
    (numbers,) = statistics.relative_variance(sample.values, variance)
    truth, noise = numbers.mean(), numbers.std() / sqrt(len(numbers))
    found, errors = [], []
    for run in range(runs):
        own, others = (slice(run * size, (run + 1) * size) for size in (networks, bodies))
        part = Sample(sample.values[own], sample.own[own], sample.others[others])
        groups = statistics.relative_variance(part, variance)
        found.append(sum(group.mean() for group in groups))
        errors.append(sqrt(sum(group.var(ddof=1) / len(group) for group in groups)))
    found, errors = np.array(found), np.array(errors)
    assert abs(found.mean() - truth) < 4 * np.hypot(noise, found.std() / sqrt(runs))
    assert np.sum(abs(found - truth) > 1.96 * np.hypot(errors, noise)) <= most(runs, 0.1)
    assert errors.mean() < 0.85 * numbers.std() / sqrt(networks)
