"""The error budget: parts add up, and each answers to an experiment that changes only its cause."""

import warnings
from functools import partial

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
    HeadsWarning,
    StochasticGradient,
    datasets,
    kernels,
    laws,
)
from rndlib.jax import Function

data = datasets.toy(seed=2, n_train=6, n_test=12)
X, y, tests = data.X, data.y, data.X_test
FLOW = GradientFlow(rtol=0.02)
LARGEST = float(np.linalg.eigvalsh(kernels.kernel(MLP(3), X).ntk)[-1])


def share(part: np.ndarray, law: np.ndarray) -> float:
    """A part as a multiple of the law, over all test points."""
    return float(part.sum() / law.sum())


def fitted(model, labels: np.ndarray | None = y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadsWarning)
        return model.fit(X, labels)


@pytest.mark.parametrize(
    ("model", "law"),
    [
        (DeepEnsemble(MLP(3, width=64), 4, solver=GradientFlow(1.0)), laws.ensemble(MLP(3), X, y, tests).var),
        (RND(MLP(3, width=64), 4, 2, solver=GradientDescent(0.02, 5)), laws.ensemble(MLP(3), X, y, tests).var),
        (BayesianEnsemble(MLP(3, width=64), 4, noise_std=0.3), laws.posterior(MLP(3), X, y, tests, 0.3).var),
        (BayesianRND(MLP(3, width=64), 4, 2, noise_std=0.3), laws.posterior(MLP(3), X, y, tests, 0.3).var),
        (BayesianRND(MLP(3, width=64), 4, 2, linearised=True), laws.posterior(MLP(3), X, y, tests).var),
    ],
)
def test_parts_add_up_to_the_distance_from_the_law(model, law):
    budget = fitted(model).error_budget(tests, single=4)
    np.testing.assert_allclose(budget.law, law)
    np.testing.assert_array_equal(budget.variance, model.variance(tests))
    parts = budget.sampling + budget.width + budget.heads + budget.time + budget.step
    np.testing.assert_allclose(parts, budget.variance - budget.law, atol=1e-9)
    descends = isinstance(model.solver, GradientDescent)
    assert budget.step.any() == descends
    assert budget.time.any() == (model.solver is not None)
    assert budget.heads.any() == (getattr(model, "heads", 1) > 1 and not model.linearised)


def test_sampling_scatters_like_the_law_of_a_mean_square():
    """More seeds change nothing else. Its mean is 0, and its mean square over seeds is 2 law^2 / heads."""
    net = MLP(3, width=512)
    models = [RND(net, 1, 8, seed=seed, solver=GradientFlow(0.1, rtol=0.1)) for seed in range(60)]
    budgets = [fitted(model, None).error_budget(tests[:1]) for model in models]
    at_rate = budgets[0].law + budgets[0].time
    relative = np.array([budget.sampling for budget in budgets])[:, 0] / at_rate
    assert abs(relative.mean()) < 4 * np.sqrt(2 / 8 / len(models))
    # The mean square of chi-squared numbers with 8 degrees of freedom has a relative error of sqrt(14 / 8) over seeds.
    assert abs(np.mean(relative**2) / (2 / 8) - 1) < 4 * np.sqrt((2 + 12 / 8) / len(models))
    shown = np.array([abs(share(budget.width, at_rate[:1])) for budget in budgets])
    assert np.mean(shown) < 0.1 * np.mean(abs(relative))


@pytest.mark.parametrize("kind", [RND, BayesianRND])
def test_time_is_what_the_same_networks_lose_when_they_train_on(kind):
    net = MLP(3, width=1024)
    short, long = (
        fitted(kind(net, 1, 256, solver=GradientFlow(time, rtol=0.02)), None).error_budget(tests)
        for time in (0.2, np.inf)
    )
    law = short.law
    lost = share(short.variance - long.variance, law)
    said = share(short.time, law)
    assert not long.time.any()
    assert said > 0.3
    # Both sides are variances of 256 networks.
    assert abs(lost - said) < 3 * np.sqrt(2 / 256) * (1 + said)
    # The rest of the change is Monte-Carlo noise of the same networks, which the budget knows.
    rest = share(short.sampling + short.width - long.sampling - long.width, law)
    assert lost - said == pytest.approx(rest)


def test_step_is_what_a_lower_learning_rate_changes():
    net = MLP(3, width=2048)
    rate = 1.6 / LARGEST
    coarse, fine = (
        fitted(RND(net, 1, 64, solver=GradientDescent(rate / parts, 6 * parts)), None).error_budget(tests)
        for parts in (1, 32)
    )
    changed = share(coarse.variance - fine.variance, coarse.law)
    said = share(coarse.step - fine.step, coarse.law)
    np.testing.assert_allclose(coarse.time, fine.time)
    assert abs(share(fine.step, fine.law)) < abs(said) / 10
    assert changed == pytest.approx(said, rel=0.3)


def test_width_is_what_wider_networks_do_not_have():
    """Ensembles of two widths: the difference of their variances, of which the budget takes away the sampling error."""
    more = datasets.toy(seed=2, n_train=10, n_test=12)  # which take more movement to fit
    narrow, wide = (
        DeepEnsemble(MLP(3, width=n), 1024, seed=n, solver=FLOW).fit(more.X, more.y).error_budget(more.X_test)
        for n in (64, 1024)
    )
    said = share(narrow.width, narrow.law)
    changed = share(narrow.variance - wide.variance, wide.law)
    assert said > 3 * abs(share(wide.width, wide.law))
    assert said > 0.1
    assert abs(changed - said) < 3 * np.sqrt(2 * 2 / 1024) * (1 + said)


def test_heads_are_what_bodies_of_their_own_do_not_have():
    """Bayesian RND with a psi for each head: 64 heads on a body of 64 units, and networks of one head each."""
    net = MLP(3, width=64)
    kind = partial(BayesianRND, net, directions="independent", solver=GradientFlow(rtol=0.1))
    crowded = fitted(kind(64, 16), None).error_budget(tests, single=256)
    alone = fitted(kind(1, 1024, seed=1), None)
    changed = share(crowded.variance - alone.variance(tests), crowded.law)
    said = share(crowded.heads, crowded.law)
    assert said > 0.1
    assert abs(changed - said) < 3 * np.sqrt(2 * 2 / 1024) * (1 + said)


def test_a_network_of_ones_own_takes_its_infinite_kernels():
    import jax

    mlp = MLP(3, width=128)

    def init(key, outputs):
        first, last = jax.random.split(key)
        return [jax.random.normal(first, (4, 128)), jax.random.normal(last, (129, outputs))]

    def apply(parameters, x):
        hidden = jax.nn.silu(1.5 / 3**0.5 * x @ parameters[0][:-1] + 0.1 * parameters[0][-1])
        return 1.5 / 128**0.5 * hidden @ parameters[1][:-1] + 0.1 * parameters[1][-1]

    model = fitted(RND(Function(init, apply, scales=1.0), 1, 8), None)
    with pytest.raises(ValueError, match=r"kernel = None for net = .*Function.*: give its infinite kernels"):
        model.error_budget(tests)
    budget = model.error_budget(tests, kernel=lambda X1, X2: kernels.kernel(mlp, X1, X2))
    np.testing.assert_allclose(budget.law, laws.ensemble(mlp, X, y, tests).var)
    assert abs(share(budget.width, budget.law)) < abs(share(budget.sampling, budget.law)) + 0.2


def test_points_that_change_after_the_fit_do_not_change_the_budget():
    points = X.copy()
    model = RND(MLP(3, width=64), 1, 4).fit(points)
    before = str(model.error_budget(tests))
    points[:] = 0
    assert str(model.error_budget(tests)) == before


def test_a_solver_without_a_law_is_refused():
    solver = StochasticGradient(epochs=1)
    with pytest.raises(ValueError, match="there is no law to compare with; train by gradient flow or descent"):
        RND(MLP(3, width=16), 1, 2, solver=solver).fit(X).error_budget(tests)


def test_single_networks_are_counted():
    with pytest.raises(ValueError, match="single"):
        RND(MLP(3, width=64), 2).fit(X).error_budget(tests, single=0)
