"""Partners of trained networks, and the statistics that use them: unbiased, with intervals that cover, less noisy."""

from functools import partial
from math import sqrt
from typing import Any

import jax
import numpy as np
import pytest
from power import most

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    StochasticGradient,
    datasets,
    initial,
    kernels,
    laws,
)
from rndlib.jax import Function
from rndlib.paper.evidence import statistics
from rndlib.paper.evidence.partners import Partners, Untrained
from rndlib.paper.evidence.statistics.intervals import grouped

LINEAR = MLP(3, depth=1, sigma_b=0.5)
X = np.random.default_rng(0).normal(size=(3, 3))
TESTS = np.random.default_rng(1).normal(size=(4, 3))
Y = np.array([1.0, -2.0, 0.5])


def init(key, outputs):
    hidden, head = jax.random.split(key)
    return [jax.random.normal(hidden, (3, 8)), jax.random.normal(head, (8, outputs))]


def apply(params, x):
    return jax.numpy.tanh(x[..., 0] @ params[0]) @ params[1]


# The partners themselves


@pytest.mark.parametrize("solver", [GradientFlow(rtol=1e-4), GradientFlow(0.7, rtol=1e-5), GradientDescent(0.05, 20)])
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
def test_a_linear_network_is_its_own_partner(solver, noise_std):
    """Without a hidden layer, networks are linear in their parameters, and their kernel is that of infinite width."""
    given = {"seed": 3, "solver": solver}
    models: list[Any] = [BayesianEnsemble(LINEAR, 5, noise_std=noise_std, **given)]
    if noise_std:  # Without noise, Bayesian RND of such a network would imitate the function 0.
        models += [BayesianRND(LINEAR, heads, 5, noise_std=noise_std, **given) for heads in (1, 3)]
    else:
        models += [DeepEnsemble(LINEAR, 5, **given), RND(LINEAR, 1, 5, **given), RND(LINEAR, 3, 5, **given)]
    for model in models:
        rnd = hasattr(model, "errors")
        trained = model.fit(X).errors(TESTS) if rnd else model.fit(X, Y).functions(TESTS)
        partners = Untrained(model, X, TESTS, 2, heads=3).trained(None if rnd else Y, solver, noise_std)
        assert partners.others.shape == (2, 3, 4)
        np.testing.assert_allclose(partners.own, trained, atol=1e-3)


def test_any_network_has_partners_by_kernels_that_are_given():
    model, points = RND(LINEAR, 1, 5), np.concatenate([X, TESTS])
    known = Untrained(model, X, TESTS, 2).trained()
    given = Untrained(model, X, TESTS, 2, kernel=partial(kernels.kernel, LINEAR)).trained()
    np.testing.assert_allclose(given.others, known.others, rtol=1e-9, atol=1e-12)
    asked = Untrained(model, X, TESTS, 2, kernel=lambda *_: 1 / 0).trained(kernel=partial(kernels.kernel, LINEAR))
    np.testing.assert_array_equal(asked.own, given.own)
    frames, net = points.reshape(-1, 3, 1), Function(init, apply, scales=1.0)
    own = partial(kernels.empirical, net, draws=16)
    partners = Untrained(RND(net, 1, 5), frames[:3], frames[3:], 2, kernel=own).trained().own
    start = np.subtract(*RND(net, 1, 5).initial(frames))
    gains = np.linalg.solve(own(frames[:3], frames[:3]).ntk, own(frames[:3], frames[3:]).ntk)
    np.testing.assert_allclose(partners, start[:, 3:] - start[:, :3] @ gains, rtol=1e-6)


def test_partners_come_closer_as_networks_get_wider():
    distances = []
    for width in (64, 1024):
        model = DeepEnsemble(MLP(3, width=width), 16, solver=GradientFlow(rtol=1e-2))
        distances.append(np.std(model.fit(X, Y).functions(TESTS) - Untrained(model, X, TESTS, 2).trained(Y).own))
    assert distances[1] < distances[0] / 2


def test_untrained_heads_have_the_moments_of_trained_networks_starts():
    """At time 0 a partner is its network: heads of few bodies against many networks, with weights of another seed."""
    net, at_start = MLP(3, width=32), GradientFlow(0.0)
    for model, labels in (
        (RND(net, 1, 4000), None),
        (BayesianRND(net, 1, 4000), None),
        (DeepEnsemble(net, 4000), Y),
        (BayesianEnsemble(net, 4000), Y),
    ):
        partners = Untrained(model, X, TESTS, 512, heads=8).trained(labels, at_start)
        assert not np.isin(partners.others, partners.own).any()
        squares = partners.others**2
        error = np.std(squares.mean(axis=1), axis=0) / sqrt(512)
        own = partners.own**2
        apart = squares.mean(axis=(0, 1)) - own.mean(axis=0)
        assert np.all(abs(apart) < 4.5 * np.hypot(error, own.std(axis=0) / sqrt(4000)))


def test_ensembles_have_their_functions_before_training():
    net = MLP(3, width=16)
    model = DeepEnsemble(net, 3, seed=7)
    np.testing.assert_array_equal(model.initial(TESTS), initial.functions(net, TESTS, 3, seed=7)[:, 0])
    for of in (model, BayesianEnsemble(net, 3, seed=7)):
        untrained = of.set_params(solver=GradientFlow(0.0)).fit(X, Y).functions(TESTS)
        np.testing.assert_allclose(of.initial(TESTS), untrained, rtol=1e-12)
    rnd = RND(net, 2, 3, seed=7, solver=GradientFlow(0.0))
    np.testing.assert_allclose(np.subtract(*rnd.initial(TESTS)), rnd.fit(X).errors(TESTS), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Untrained(RND(MLP(3), 1, linearised=True), X, TESTS, 2), "linearised=False"),
        (
            lambda: Untrained(RND(), X, TESTS, 2),
            "kernel = None for net = .*: give its infinite kernels, or an rndlib.MLP",
        ),
        (lambda: Untrained(LINEAR, X, TESTS, 2), "model = MLP.*: give an ensemble or RND"),
        (lambda: Untrained(RND(MLP(3), 1), X[:, :2], TESTS, 2), "X has shape"),
        (lambda: Untrained(RND(MLP(3), 1), X, TESTS, 1), "bodies = 1"),
        (lambda: Untrained(RND(MLP(3), 1), X, TESTS, 2).trained(Y), "y: give"),
        (lambda: Untrained(DeepEnsemble(MLP(3)), X, TESTS, 2).trained(), "y: give"),
        (lambda: Untrained(RND(MLP(3), 1), X, TESTS, 2).trained(solver=StochasticGradient()), "give GradientFlow"),
        (lambda: Untrained(RND(MLP(3), 1), X, TESTS, 2).trained(noise_std=-1.0), "noise_std = -1.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Statistics with partners, on synthetic networks


def synthetic(rng, networks, more, F, apart=0.2, shift: Any = 0.0, scale=1.0):
    """Networks of the covariance F F^T, moved and scaled, and partners that have another covariance and mean."""
    starts = rng.standard_normal((networks + more, F.shape[1]))
    partners = 0.9 * starts @ F.T + 0.5
    own = rng.standard_normal((networks, F.shape[1]))
    samples = (sqrt(1 - apart**2) * starts[:networks] + apart * own) @ F.T
    return scale * samples + shift, Partners(partners[:networks], partners[networks:].reshape(-1, 4, len(F)))


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (0.1, 1.0), (0.0, sqrt(1.2))])
def test_joint_law_ends_cover_with_partners(mean, scale):
    """On the law and off it, though the law of the partners is another one."""
    rng = np.random.default_rng(2)
    F = np.eye(4) + 0.3 * rng.standard_normal((4, 4))
    L = np.linalg.cholesky(F @ F.T)
    truth = sqrt(mean**2 + (scale**2 - 1) ** 2 / 2)
    intervals, plain = np.zeros((2, 300, 2))
    for run in range(300):
        samples, partners = synthetic(rng, 128, 1024, F, shift=L @ np.full(4, mean), scale=scale)
        intervals[run] = statistics.joint_law(samples, np.zeros(4), F @ F.T, partners=partners).interval
        plain[run] = statistics.joint_law(samples, np.zeros(4), F @ F.T).interval
    assert np.sum(intervals[:, 1] < truth - 1e-12) <= most(300, 0.1)
    assert np.sum(intervals[:, 0] > truth + 1e-12) <= most(300, 0.1)
    assert intervals[:, 1].mean() - truth < (plain[:, 1].mean() - truth) / 1.5


def test_ratios_cover_with_partners():
    rng = np.random.default_rng(3)
    F = np.cumsum(rng.standard_normal((6, 8)), axis=0)
    missed, widths = np.zeros(2), []
    for _ in range(200):
        (errors, p), (functions, q) = (synthetic(rng, 256, 2048, F, scale=s) for s in (sqrt(2), 1.0))
        found = statistics.over_points(errors, functions, partners=(p, q))
        twice = np.stack([errors, errors]), np.stack([functions, functions])
        stacked = Partners.stacked([p, p]), Partners.stacked([q, q])
        times = statistics.over_times(*twice, np.ones((2, 6)), partners=stacked)
        missed += [bool((of.low > 0).any() or (of.high < 0).any()) for of in (found, times)]
        plain = statistics.over_points(errors, functions)
        widths.append([np.mean(of.high - of.low) for of in (found, plain)])
    assert missed.max() <= most(200, 0.05)
    partners, plain = np.mean(widths, axis=0)
    assert partners < plain / 1.5


def test_a_mistake_that_partners_share_does_not_cancel():
    """A target that is the predictor itself makes every error zero, and every partner too."""
    zero = np.zeros((64, 2))
    assert statistics.joint_law(zero, np.zeros(2), np.eye(2), partners=Partners(zero, zero[:, None])).value > 0.5


def test_heads_of_one_body_are_not_counted_as_independent():
    """Four heads that are the same leave the interval of one."""
    others = np.random.default_rng(6).standard_normal((200, 1, 2))
    one, four = (
        grouped(np.square, np.ones((10**6, 2)), Partners(np.zeros((10**6, 2)), of))[1]
        for of in (others, np.repeat(others, 4, axis=1))
    )
    np.testing.assert_allclose(four / four.mean(), one / one.mean())


@pytest.mark.parametrize(
    ("own", "others", "message"),
    [
        (np.zeros((9, 2)), np.zeros((4, 3, 2)), "partners.own has shape"),
        (np.zeros((10, 2)), np.zeros((1, 30, 2)), "partners.others has 1 body"),
    ],
)
def test_wrong_partners_are_refused(own, others, message):
    with pytest.raises(ValueError, match=message):
        grouped(lambda values: values, np.zeros((10, 2)), Partners(own, others))


# The limit


def test_limit_of_a_line_is_its_height():
    found = statistics.limit(
        [10, 20, 40], [[np.array([a + 5 / n - 1, a + 5 / n + 1])] for n in (10, 20, 40) for a in [3]]
    )
    np.testing.assert_allclose([found.infinite.value, found.slope], [3, 5])
    assert found.errors[0].value == 3.5
    assert found.finding.interval == (found.infinite.low, found.infinite.high)


@pytest.mark.parametrize("height", [0.0, 0.05])
def test_limit_covers(height):
    rng = np.random.default_rng(4)
    widths, ends = np.array([16, 64, 256]), []
    for _ in range(300):
        errors = [
            [height + 2 / n + rng.exponential(0.2, size) - 0.2, 0.1 * rng.standard_normal(200)]
            for n, size in zip(widths, (20, 40, 30), strict=True)
        ]
        found = statistics.limit(widths, errors)
        ends.append((found.infinite.low, found.infinite.high))
    low, high = np.transpose(ends)
    assert np.sum(low > height) <= most(300, 0.1)
    assert np.sum(high < height) <= most(300, 0.1)


def test_relative_variance_is_that_of_numpy():
    samples = np.random.default_rng(5).standard_normal((30, 3)) * [1, 2, 3]
    (numbers,) = statistics.relative_variance(samples, [1.0, 2.0, 3.0])
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
    (numbers,) = statistics.excess_spread(3 * q, [1.5, 1.5], 8)  # a variance of 1 per head is Sigma = 1/2
    assert abs(numbers.mean() - 7 * r) < 4 * numbers.std() / sqrt(len(numbers))
    (numbers,) = statistics.excess_spread(1.1 * q, [0.5, 0.5], 8)
    assert numbers.mean() > 7 * r + 0.15


def test_partners_of_mean_squares_leave_no_bias_and_cover():
    rng, runs, bodies = np.random.default_rng(8), 200, 60
    found, errors, plain = [], [], []
    for _ in range(runs):
        own, others = rng.standard_normal((8 * bodies, 2)), rng.standard_normal((240, 8, 2))
        scales = np.repeat(1 + 0.3 * rng.standard_normal(bodies), 8)[:, None]
        partners = Partners(own, others).half_mean_squares(8)
        q = np.mean((scales * own).reshape(bodies, 8, 2) ** 2, axis=1) / 2
        groups = statistics.excess_spread(q, [0.5, 0.5], 8, partners)
        found.append(sum(group.mean() for group in groups))
        errors.append(sqrt(sum(group.var(ddof=1) / len(group) for group in groups)))
        plain.append(statistics.excess_spread(q, [0.5, 0.5], 8)[0].mean())
    # E (s^2 c - 1)^2 4 - 1, with E s^2 = 1.09, E s^4 = 1 + 6 0.09 + 3 0.09^2 and E c^2 = 1 + 2/8.
    truth = 4 * (1.25 * (1 + 6 * 0.09 + 3 * 0.09**2) - 2 * 1.09 + 1) - 1
    found, errors = np.array(found), np.array(errors)
    assert abs(found.mean() - truth) < 4 * found.std() / sqrt(runs)
    assert np.sum(abs(found - truth) > 1.96 * errors) <= most(runs, 0.1)  # 60 bodies with a heavy tail
    assert found.std() < np.std(plain)


@pytest.mark.parametrize(("heads", "others"), [(3, 3), (4, 3), (0, 3)])
def test_heads_that_are_not_those_of_a_body_are_refused(heads, others):
    with pytest.raises(ValueError, match=f"heads = {heads}"):
        Partners(np.ones((8, 2)), np.ones((5, others, 2))).half_mean_squares(heads)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.limit([8, 8], [[np.ones(3)]] * 2), "two or more different widths"),
        (lambda: statistics.limit([8, 16], [[np.ones(3)]]), "with errors at 1"),
        (lambda: statistics.limit([8, 16], [[np.ones(3)], [np.ones(1)]]), "a group of one network"),
        (lambda: statistics.relative_variance(np.ones((4, 2)), [1.0, 0.0]), "variance has 0"),
        (lambda: statistics.excess_spread(np.ones((4, 2)), [1.0, 0.0], 2), "variance has 0"),
        (lambda: statistics.excess_spread(np.ones((4, 2)), [1.0, 1.0], 0), "dof = 0"),
    ],
)
def test_limit_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Real networks


@pytest.mark.parametrize(("width", "depth"), [(48, 2), (96, 3)])
def test_partners_of_small_networks_leave_no_bias_and_cover(width, depth):
    """The truth is that of 40 times as many networks without partners. The networks are far from their law, and with
    three layers partners do not have the law's moments."""
    data = datasets.toy(1, n_train=4, n_test=5)
    net = MLP(3, width=width, depth=depth)
    runs, networks, bodies = 40, 48, 36
    model = DeepEnsemble(net, runs * networks, solver=GradientFlow(rtol=0.05))
    trained = model.fit(data.X, data.y).functions(data.X_test)
    partners = Untrained(model, data.X, data.X_test, runs * bodies, heads=8).trained(data.y)
    variance = laws.ensemble(net, data.X, data.y, data.X_test).var
    (numbers,) = statistics.relative_variance(trained, variance)
    truth, noise = numbers.mean(), numbers.std() / sqrt(len(numbers))
    found, errors = [], []
    for run in range(runs):
        own, others = (slice(run * size, (run + 1) * size) for size in (networks, bodies))
        theirs = Partners(partners.own[own], partners.others[others])
        groups = statistics.relative_variance(trained[own], variance, theirs)
        found.append(sum(group.mean() for group in groups))
        errors.append(sqrt(sum(group.var(ddof=1) / len(group) for group in groups)))
    found, errors = np.array(found), np.array(errors)
    assert abs(found.mean() - truth) < 4 * np.hypot(noise, found.std() / sqrt(runs))
    assert np.sum(abs(found - truth) > 1.96 * np.hypot(errors, noise)) <= most(runs, 0.1)
    assert errors.mean() < 0.85 * numbers.std() / sqrt(networks)
