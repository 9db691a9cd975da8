"""Thompson sampling: regret as defined, draws from the law, and a control that loses."""

from functools import partial

import numpy as np
import pytest
from networks import BACKENDS
from scipy import stats

from rndlib import MLP, BayesianEnsemble, BayesianRND, DeepEnsemble, GradientFlow, laws
from rndlib.practice import thompson

NOISE = 0.2
NET = MLP(2, width=64, sigma_b=1.0)
BANDIT = thompson.branin(64, NOISE)
SMALL = {"rounds": 2, "queries": 3, "initial": 4}


def fitted_samplers(backend: str) -> dict[str, thompson.Sampler]:
    early = GradientFlow(time=NOISE**-2)
    return {
        "Bayesian RND": thompson.fitted(BayesianRND(NET, 1, 3, noise_std=NOISE, backend=backend)),
        "Bayesian ensemble": thompson.fitted(BayesianEnsemble(NET, 3, noise_std=NOISE, backend=backend)),
        "deep ensemble": thompson.fitted(DeepEnsemble(NET, 3, solver=early, backend=backend)),
    }


def test_branin_has_three_equal_maxima_where_it_is_known_to():
    """At (-pi, 12.275), (pi, 2.275) and (3 pi, 2.475) of the domain [-5, 10] x [0, 15] (Dixon and Szegő, 1978)."""
    bandit = thompson.branin(2**12)
    known = np.array([[-np.pi, 12.275], [np.pi, 2.275], [3 * np.pi, 2.475]])
    places = (bandit.candidates + 1) * 7.5 + [-5, 0]
    distance = np.linalg.norm(places[:, None] - known, axis=2)
    # The discs of radius 1 around them are 4% of the domain: by chance, 20 points are not all within.
    best = np.argsort(bandit.values)[-20:]
    assert distance[best].min(axis=1).max() < 1
    assert set(distance[best].argmin(axis=1)) == {0, 1, 2}
    assert bandit.values.mean() == pytest.approx(0, abs=1e-12)


def test_regret_is_that_of_what_the_functions_prefer():
    """A sampler that knows the function has none; one that knows its negative has the most there is."""

    def known(sign, X, y, candidates, count, seed):
        return np.tile(sign * BANDIT.values[:, None], count)

    best = thompson.regret(partial(known, 1), BANDIT, seed=0, **SMALL)
    worst = thompson.regret(partial(known, -1), BANDIT, seed=0, **SMALL)
    np.testing.assert_array_equal(best, np.zeros(6))
    np.testing.assert_array_equal(worst, np.full(6, np.ptp(BANDIT.values)))


def test_a_sampler_sees_all_that_was_queried_and_nothing_else():
    seen = []

    def last(X, y, candidates, count, seed):
        seen.append((X, y, seed))
        functions = np.zeros((len(candidates), count))
        functions[[10, 11, 12], range(3)] = 1.0
        return functions

    thompson.regret(last, BANDIT, seed=0, **SMALL)
    (X, y, first), (X_next, y_next, second) = seen
    assert X.shape == (4, 2)
    assert first != second
    np.testing.assert_array_equal(X_next, np.concatenate([X, BANDIT.candidates[[10, 11, 12]]]))
    np.testing.assert_array_equal(y_next[:4], y)
    # Five standard deviations of the noise.
    assert np.abs(y_next[4:] - BANDIT.values[[10, 11, 12]]).max() < 5 * NOISE
    assert not np.isin(y_next, BANDIT.values).any()


def test_the_start_is_shared_by_all_samplers_of_a_seed():
    seen = {}

    def note(name, X, y, candidates, count, seed):
        seen.setdefault(name, (X, y, seed))
        return thompson.uniform(X, y, candidates, count, seed + len(name))

    for name in ("a", "bb"):
        thompson.regret(partial(note, name), BANDIT, seed=3, **SMALL)
    for one, other in zip(seen["a"], seen["bb"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_uniform_queries_are_uniform():
    """Over 2000 queries of 16 candidates, by chi-squared at a chance of 1e-4 of failing where it is true."""
    count, asked = 16, 2000
    drawn = thompson.uniform(np.zeros((1, 2)), np.zeros(1), BANDIT.candidates[:count], asked, 0).argmax(axis=0)
    assert stats.chisquare(np.bincount(drawn, minlength=count)).pvalue > 1e-4


def test_exact_draws_have_the_posteriors_law():
    """Squared whitened distances from the mean add up to chi-squared, whose two-sided range at 1e-4 is the margin.

    The ridge of `exact_draws` raises each of the covariance's eigenvalues by 1e-7 of the largest variance; at four
    candidates that are far apart none is smaller than 1e-3 of it, so that the sum grows by less than 1e-4 of itself.
    """
    X, y, at = BANDIT.candidates[:6], BANDIT.values[:6], BANDIT.candidates[8:12]
    law = laws.posterior(NET, X, y, at, NOISE, full_cov=True)
    assert law.cov is not None
    assert np.linalg.eigvalsh(law.cov)[0] > 1e-3 * law.var.max()
    draws = 5000
    found = thompson.exact(NET, NOISE)(X, y, at, draws, 1)
    centred = found - law.mean[:, None]
    total = np.sum(centred * np.linalg.solve(law.cov, centred))
    low, high = stats.chi2(4 * draws).interval(1 - 1e-4)
    assert low < total < high
    # The test knows a wrong law: that without the noise.
    wrong = laws.posterior(NET, X, y, at, full_cov=True)
    assert wrong.cov is not None
    centred = found - wrong.mean[:, None]
    assert not low < np.sum(centred * np.linalg.solve(wrong.cov, centred)) < high


@pytest.mark.parametrize("backend", BACKENDS)
def test_estimators_learn_where_the_control_does_not(backend):
    """Each sampler's mean regret is below the control's by more than chance, over seeds that they share."""
    seeds, sizes = 6, {"rounds": 2, "queries": 3, "initial": 6}
    samplers = {"exact": thompson.exact(NET, NOISE), **fitted_samplers(backend)}
    found = thompson.study({"uniform": thompson.uniform, **samplers}, BANDIT, seeds, **sizes)
    for label in samplers:
        # The last round, where it has learnt most. One-sided at 5%: which seeds are run was fixed before.
        assert (found[label] >= 0).all()
        last = [found[name][:, -3:].mean(axis=1) for name in (label, "uniform")]
        assert stats.ttest_rel(*last, alternative="less").pvalue < 0.05, label


def test_same_seed_same_numbers():
    sampler = fitted_samplers("jax")["Bayesian RND"]
    again = [thompson.regret(sampler, BANDIT, 1, 3, 4, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(again[0], again[1])
    assert (again[0] != again[2]).any()


def test_a_study_is_the_runs_of_its_seeds():
    found = thompson.study({"a": thompson.uniform, "b": thompson.exact(NET, NOISE)}, BANDIT, 2, seed=5, **SMALL)
    for label, sampler in (("a", thompson.uniform), ("b", thompson.exact(NET, NOISE))):
        alone = [thompson.regret(sampler, BANDIT, seed=seed, **SMALL) for seed in (5, 6)]
        np.testing.assert_array_equal(found[label], alone)


def test_models_are_left_as_they_are():
    model = BayesianRND(NET, 1, 3, noise_std=NOISE, seed=7)
    thompson.fitted(model)(BANDIT.candidates[:4], BANDIT.values[:4], BANDIT.candidates, 3, 0)
    assert model.seed == 7
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (lambda *_: np.zeros((64, 2)), r"sampler\(...\) has shape \(64, 2\): give \(64, 3\)"),
        (lambda *_: np.full((64, 3), np.nan), "NaN"),
        (thompson.fitted(DeepEnsemble(NET, 2)), r"shape \(64, 2\): give \(64, 3\)"),
        (thompson.fitted(BayesianRND(NET, 2, noise_std=NOISE)), "n_samples = 3"),
    ],
)
def test_samplers_that_draw_too_little_are_refused(sampler, message):
    with pytest.raises(ValueError, match=message):
        thompson.regret(sampler, BANDIT, seed=0, **SMALL)
