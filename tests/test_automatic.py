"""The automatic estimator (net=None): right on real columns and labels in any units, and exact by its definition."""

import pickle
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm, t
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import train_test_split

from rndlib import MLP, RND, BayesianEnsemble, BayesianRND, DeepEnsemble, Prior, kernels, laws
from rndlib.estimators import exact
from rndlib.estimators.fits import Linear
from rndlib.estimators.rnd import quantile_of_new

ENSEMBLES = (DeepEnsemble, BayesianEnsemble)
REGRESSORS = (BayesianRND, *ENSEMBLES)
ALL = (*REGRESSORS, RND)
RNG = np.random.default_rng(0)
# In units far from 1, with a constant column and one that says nothing.
X = RNG.standard_normal((60, 4)) * [1e3, 1e-3, 0.0, 1.0] + [2000.0, 0.0, 365.0, 0.0]
SIGNAL = np.sin(2 * (X[:, 0] - 2000) / 1e3) + 1e3 * X[:, 1]
Y = 500 + 40 * (SIGNAL + 0.1 * RNG.standard_normal(60))
X_TEST = RNG.standard_normal((300, 4)) * [1e3, 1e-3, 0.0, 1.0] + [2000.0, 0.0, 365.0, 0.0]
TRUTH = 500 + 40 * (np.sin(2 * (X_TEST[:, 0] - 2000) / 1e3) + 1e3 * X_TEST[:, 1])


@pytest.fixture(scope="module")
def model() -> BayesianRND:
    return BayesianRND().fit(X, Y)


def test_a_real_data_set_in_its_own_units():
    """Diabetes, three splits: the likelihood of new labels, and the coverage of 90 % intervals.

    A Gaussian of the labels' mean and deviation has an NLL of 1.42 in their deviations; linear models reach 1.1, and
    so must this. Coverage of 90 % on 3 x 89 patients has a standard error of 2 %, so 6 % are three.
    """
    points, labels = load_diabetes(return_X_y=True, scaled=False)
    nll, covered = [], []
    for seed in range(3):
        parts: Any = train_test_split(points, labels, test_size=0.2, random_state=seed)
        train, test, y, y_test = parts
        fitted = BayesianRND().fit(train, y)
        mean, std = fitted.predict(test, return_std=True)
        low, high = fitted.interval(test)
        nll.append(-norm.logpdf(y_test, mean, np.hypot(std, fitted.noise_std_)).mean() - np.log(y.std()))
        covered.append(((low < y_test) & (y_test < high)).mean())
    assert np.mean(nll) < 1.2
    assert abs(np.mean(covered) - 0.9) < 0.06


def test_what_was_chosen_is_said(model):
    assert model.net_.in_dim == 4
    assert abs(model.noise_std_ / 4 - 1) < 4 / sqrt(2 * 40)  # four standard errors with some 20 parameters fitted
    assert model.input_scales_.shape == (4,)
    assert model.input_scales_[3] > 5 * 1.0  # the last column says nothing: its scale is far above its deviation
    assert np.isfinite(model.log_evidence_)
    text = str(model)
    for name in ("net_ = MLP", "noise_std_ = ", "input_scales_ = ", "log_evidence_ = "):
        assert name in text
    assert repr(model) == "BayesianRND()"
    assert any("60 of 60 rows" in note for note in model.report.notes)


def test_units_do_not_matter(model):
    """Columns and labels in other units have the same answer, in theirs."""
    other = BayesianRND().fit(3 * X - 7, -2 * Y + 9)
    mean, std = model.predict(X_TEST, return_std=True)
    there, there_std = other.predict(3 * X_TEST - 7, return_std=True)
    np.testing.assert_allclose(there, -2 * mean + 9, rtol=1e-3)
    np.testing.assert_allclose(there_std, 2 * std, rtol=1e-2)
    assert other.log_evidence_ == pytest.approx(model.log_evidence_ - len(Y) * np.log(2), abs=0.1)


def test_it_is_the_posterior_of_what_was_chosen(model):
    net, units = model.net_, model._units
    labels, noise = units.labels(Y), model.noise_std_ / units.size
    law = laws.posterior(net, units.inputs(X), labels, units.inputs(X_TEST), noise_std=noise)
    mean, std = model.predict(X_TEST, return_std=True)
    np.testing.assert_allclose(mean, law.mean * units.size + units.mean, rtol=1e-6)
    np.testing.assert_allclose(std**2, law.var * units.size**2, rtol=1e-4)
    np.testing.assert_allclose(model.variance(X_TEST), std**2)


def test_new_labels_and_the_function(model):
    """The interval holds new labels at its level, and `std` the function: on 300 points of a known function."""
    mean, std = model.predict(X_TEST, return_std=True)
    fresh = TRUTH + 4 * np.random.default_rng(1).standard_normal(len(TRUTH))
    low, high = model.interval(X_TEST, level=0.5)
    half = norm.ppf(0.75) * np.hypot(std, model.noise_std_)
    np.testing.assert_allclose([low, high], [mean - half, mean + half])
    # Errors at 300 points are those of one function, so coverage is known to no more than a few independent ones.
    assert 0.3 < ((low < fresh) & (fresh < high)).mean() < 0.7
    assert (np.abs(TRUTH - mean) < 3 * std).mean() > 0.9
    assert (np.abs(fresh - mean) < 3 * std).mean() < (np.abs(TRUTH - mean) < 3 * std).mean()
    with pytest.raises(ValueError, match="level = 90: give a number between 0 and 1"):
        model.interval(X_TEST, level=90)


@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
def test_intervals_of_few_heads_are_wider_by_students_distribution():
    """New labels of functions drawn from the prior: 0.9 of them, within four standard errors over 150 fits."""
    rng = np.random.default_rng(0)
    net, places = MLP(2, width=256), rng.standard_normal((8, 2))
    root = np.linalg.cholesky(kernels.kernel(net, places).ntk)
    f, hits, normal = places[:, 0], [], []
    for seed in range(150):
        f = root @ rng.standard_normal(8) + 0.1 * rng.standard_normal(8)
        model = BayesianRND(net, heads=2, linearised=True, noise_std=0.1, seed=seed).fit(places[:4], f[:4])
        (low, high), (mean, std) = model.interval(places[4:]), model.predict(places[4:], return_std=True)
        hits.append(np.mean((low < f[4:]) & (f[4:] < high)))
        normal.append(np.mean(np.abs(f[4:] - mean) < norm.ppf(0.95) * np.hypot(std, 0.1)))
    error = np.std(hits) / sqrt(150)
    assert abs(np.mean(hits) - 0.9) < 4 * error
    assert np.mean(normal) < 0.9 - 4 * error
    free = DeepEnsemble(MLP(2, width=64), members=5).fit(places[:4], f[:4])
    (low, high), std = free.interval(places[4:], level=0.5), free.predict(places[4:], return_std=True)[1]
    np.testing.assert_allclose(high - low, 2 * t.ppf(0.75, 4) * std)
    assert (np.diff(free.interval(places[:4]), axis=0) < 1e-5).all()


@pytest.mark.parametrize("kind", [BayesianRND, RND, DeepEnsemble, BayesianEnsemble])
def test_draws_have_the_variance_that_is_reported(kind):
    """1,000 of them, at a training point and away: the relative error of a sample variance is sqrt(2 / 1000) = 0.045.

    Four of these, and 0.1 for the networks' own kernels, which differ from the limit by the root of 1 / 512."""
    draws: dict[str, Any] = {"members": 1000} if kind in ENSEMBLES else {"heads": 10, "bodies": 100}
    model: Any = kind(**draws).fit(X, Y)
    places = np.concatenate([X[:2], X_TEST[:4]])
    found = model.functions(places) if kind in ENSEMBLES else model.errors(places)
    moment = found.var(axis=0, ddof=1) if kind in ENSEMBLES else model._scale * np.mean(found**2, axis=0)
    np.testing.assert_allclose(moment, model.variance(places), rtol=4 * 0.045 + 0.1, atol=1e-5 * moment.max())
    if kind in ENSEMBLES:
        mean, std = model.predict(places, return_std=True)
        assert (np.abs(found.mean(axis=0) - mean) < 4 * std / sqrt(1000) + 1e-3 * std.max()).all()


def test_an_ensemble_has_the_law_of_one_pulled_to_its_start():
    """Theorem 2.1 with L2 regularisation towards the initial weights: the gain is that of Theta + noise^2 I."""
    model = DeepEnsemble().fit(X, Y)
    assert isinstance(model.net_, MLP)
    train, test = model._units.inputs(X), model._units.inputs(X_TEST)
    within, across = kernels.kernel(model.net_, train), kernels.kernel(model.net_, train, test)
    G = np.linalg.solve(within.ntk + model._noise**2 * np.eye(60), across.ntk)
    variance = kernels.diagonal(model.net_, test).nngp + np.sum(G * (within.nngp @ G - 2 * across.nngp), axis=0)
    size = model._units.size
    np.testing.assert_allclose(model.variance(X_TEST), variance * size**2, rtol=1e-4)
    np.testing.assert_allclose(model.predict(X_TEST), G.T @ model._units.labels(Y) * size + Y.mean(), rtol=1e-6)


@pytest.mark.parametrize(("rate", "noise_std"), [(1.0, 0.1), (12.0, 1e-3)], ids=["smooth", "fast"])
def test_samples_have_the_exact_posterior_jointly(rate, noise_std):
    """Also where noise is small and the function fast: the posterior's deviation is then a thousandth of the prior's.

    4000 draws at 6 points, one of which was trained on and one repeats another. Coordinates in which they should be
    independent and have variance 1: the largest of 21 moments stays within 4.5 standard errors.
    """
    rng = np.random.default_rng(1)
    x, places = np.sort(rng.uniform(-1, 1, (60, 1)), axis=0), np.array([[-1.1], [-0.5], [0.0], [0.0], [0.7], [0.0]])
    places[5] = x[20]
    model = BayesianRND().fit(x, np.sin(rate * x[:, 0]) + noise_std * rng.standard_normal(60))
    samples, (mean, std) = model.sample_y(places, 4000, random_state=1), model.predict(places, return_std=True)
    assert samples.shape == (6, 4000)
    np.testing.assert_allclose(samples[:, :7], model.sample_y(places, 7, random_state=1), rtol=0, atol=1e-9)
    np.testing.assert_allclose(samples[2], samples[3], rtol=0, atol=1e-6 * std[2])
    train, test = model._units.inputs(x), model._units.inputs(places)
    C: Any = laws.posterior(model.net_, train, np.zeros(60), test, noise_std=model._noise, full_cov=True).cov
    size = model._units.size
    own = [0, 1, 2, 4, 5]
    free = np.linalg.solve(np.linalg.cholesky(C[np.ix_(own, own)] * size**2), (samples - mean[:, None])[own])
    moments = free @ free.T / 4000
    assert np.abs(free.mean(axis=1)).max() < 4.5 / sqrt(4000)
    assert np.abs(moments - np.eye(5)).max() < 4.5 * sqrt(2 / 4000)


def test_joint_samples_need_room(model, monkeypatch):
    monkeypatch.setattr(exact, "MEMORY", 8 * exact.HELD * 100**2)
    with pytest.raises(ValueError, match=r"X has 300 rows, whose matrices .* ask for joint samples at fewer points"):
        model.sample_y(X_TEST)


def test_what_the_user_gives_is_kept():
    given = BayesianRND(noise_std=12.0, input_scales=[1e3, 1e-3, 1.0, 50.0]).fit(X, Y)
    assert given.noise_std_ == pytest.approx(12.0)
    np.testing.assert_allclose(given.input_scales_, [1e3, 1e-3, 1.0, 50.0])
    with pytest.raises(ValueError, match=r"input_scales.*above 0"):
        BayesianRND(input_scales=[1.0, -1.0, 1.0, 1.0]).fit(X, Y)
    with pytest.raises(ValueError, match=r"input_scales.*net=None"):
        BayesianRND(MLP(4), input_scales=np.ones(4))
    with pytest.raises(ValueError, match=r"input_scales has shape \(1,\): give \(4,\)"):
        BayesianRND(input_scales=[1.0]).fit(X, Y)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "factor", "message"),
    [
        ({}, 1e160, "y has values up to .*e.160.* range of float64: give other units"),
        (
            {"noise_std": 1e200},
            1.0,
            r"noise_std = 1e\+200: y has a deviation of .*give a noise of at most 1e\+06 times",
        ),
        ({"noise_std": 1e-20}, 1.0, r"noise_std = .*e-2. standard deviations of y: .*drop rows that repeat others"),
        ({"input_scales": [1e-8, 1.0]}, 1.0, r"input_scales = .*: columns have deviations .*within a factor of 1e\+06"),
    ],
)
def test_numbers_beyond_what_float64_holds_are_refused(options, factor, message):
    x = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
    with pytest.raises(ValueError, match=message):
        BayesianRND(**options).fit(x, factor * x[:, 0])


@pytest.mark.parametrize("by", ["prior", "prior_mean"])
def test_a_prior_mean_is_subtracted_and_added(by):
    def mean(X):
        return 500 + 4e4 * X[:, 1]

    kind: Any = {"prior": BayesianRND, "prior_mean": BayesianEnsemble}[by]
    given: Any = {"prior": lambda f: Prior(mean=f), "prior_mean": lambda f: f}[by]
    prior = kind(**{by: given(mean)}).fit(X, Y)
    rest, std = kind().fit(X, Y - mean(X)).predict(X_TEST, return_std=True)
    assert (np.abs(prior.predict(X_TEST) - (rest + mean(X_TEST))) < 0.1 * std).all()  # two searches
    with pytest.raises(ValueError, match=r"mean\(X\) has shape \(60, 4\): give \(60,\)"):
        kind(**{by: given(lambda X: X)}).fit(X, Y)


@pytest.mark.filterwarnings("ignore:X. .* rows repeat others:UserWarning")
@pytest.mark.parametrize("kind", [BayesianRND, RND])
@pytest.mark.parametrize(
    "data",
    [
        lambda: (pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)),
        lambda: (X.astype(np.float32), Y.astype(np.float32)),
        lambda: (np.arange(24).reshape(12, 2) % 7, np.arange(12)),
        lambda: (X[:, :1], Y),
        lambda: (X[:1], Y[:1]),
        lambda: (np.concatenate([X, X]), np.concatenate([Y, Y + 1])),
        lambda: (X, np.full(60, 3.0)),
        lambda: (np.ones((5, 2)), np.arange(5.0)),
    ],
    ids=["frame", "single", "integers", "column", "one point", "repeats", "constant labels", "constant columns"],
)
def test_any_table_has_an_answer(kind, data):
    points, labels = data()
    model = kind().fit(points, labels)
    variance = model.variance(points)
    assert np.isfinite(variance).all()
    assert (variance >= 0).all()
    if kind is not RND:
        assert np.isfinite(model.predict(points)).all()


@pytest.mark.parametrize(("n", "in_dim"), [(1, 1), (5, 4), (20, 50)])
def test_a_few_rows_are_not_taken_for_many(n, in_dim):
    """With as many hyperparameters as rows, new labels are hardly less likely than by their own mean and deviation.

    Without the prior of the hyperparameters they are by 3 nats each and more: the evidence is largest without noise.
    """
    lost = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points, direction = rng.normal(size=(n + 200, in_dim)), rng.normal(size=in_dim) / np.sqrt(in_dim)
        labels = np.sin(2 * points @ direction) + 0.3 * rng.normal(size=n + 200)
        model, new = BayesianRND().fit(points[:n], labels[:n]), labels[n:]
        mean, std = model.predict(points[n:], return_std=True)
        likely = norm.logpdf(new, mean, np.hypot(std, model.noise_std_))
        lost.append(np.mean(norm.logpdf(new, new.mean(), new.std()) - likely))
    assert np.median(lost) < 1


# ------------------------------------------------------------------------------------------------------------- priors

MONTHS = np.linspace(0, 8, 96, endpoint=False)[:, None]
SERIES = 100 + 5 * np.sin(2 * np.pi * MONTHS[:, 0]) + MONTHS[:, 0] + 0.5 * np.random.default_rng(5).normal(size=96)


def season(t):
    return np.hstack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)])


@pytest.fixture(scope="module")
def seasonal() -> BayesianRND:
    priors = [Prior(), Prior(features=season), Prior(features=lambda t: season(1.2 * t))]
    return BayesianRND(prior=priors).fit(MONTHS[:72], SERIES[:72])


def test_the_prior_of_largest_evidence_is_taken_and_said(seasonal):
    each = [BayesianRND(prior=prior).fit(MONTHS[:72], SERIES[:72]) for prior in seasonal.prior]
    nats: Any = [one.log_evidence_ for one in each]
    assert seasonal.prior_ is seasonal.prior[1]
    assert seasonal.log_evidence_ == max(nats) == nats[1]
    np.testing.assert_array_equal(seasonal.predict(MONTHS), each[1].predict(MONTHS))
    assert "prior_ = Prior(" in str(seasonal)
    assert "net_ = MLP(" in str(seasonal)
    assert any(", ".join(f"{one:.1f}" for one in nats) in note for note in seasonal.report.notes)
    # The years to come agree.
    rmse = [np.sqrt(np.mean((one.predict(MONTHS[72:]) - SERIES[72:]) ** 2)) for one in each]
    assert rmse[1] < min(rmse[0], rmse[2]) / 2
    same, plain = each[0], BayesianRND().fit(MONTHS[:72], SERIES[:72])
    np.testing.assert_array_equal(same.variance(MONTHS), plain.variance(MONTHS))


def test_with_features_it_is_the_posterior_of_the_sum(seasonal):
    """In closed form, from the kernel of the network that was chosen and that of the features."""
    units = seasonal._units
    inputs = (MONTHS - units.centre) / units.scale
    K = kernels.ntk(MLP(1, 8, seasonal.net_.base.depth, "erf", *_sigmas(seasonal)), inputs)
    K = units.size**2 * (K + season(MONTHS) @ season(MONTHS).T)
    A = K[:72, :72] + seasonal.noise_std_**2 * np.eye(72)
    mean, std = seasonal.predict(MONTHS[72:], return_std=True)
    rest = SERIES[:72] - SERIES[:72].mean()
    np.testing.assert_allclose(mean - SERIES[:72].mean(), K[72:, :72] @ np.linalg.solve(A, rest), rtol=1e-6, atol=1e-6)
    variance = (K[72:, 72:] - K[72:, :72] @ np.linalg.solve(A, K[:72, 72:])).diagonal()
    np.testing.assert_allclose(std**2, variance, rtol=1e-5)
    likely = multivariate_normal(cov=A).logpdf(rest)
    assert seasonal.log_evidence_ == pytest.approx(likely, rel=1e-6)
    samples = seasonal.sample_y(MONTHS[72::4], 1000, random_state=1)
    np.testing.assert_allclose(samples.std(axis=1), std[::4], rtol=4.5 / sqrt(2000))


def _sigmas(model):
    return model.net_.base.sigma_w, model.net_.base.sigma_b


def test_features_without_labels_and_beyond_what_matrices_hold(seasonal, monkeypatch):
    apart = BayesianRND(prior=Prior(features=season)).fit(MONTHS[:20])
    assert apart.variance(MONTHS[20:]).min() > apart.variance(MONTHS[:20]).max()
    monkeypatch.setattr(exact, "MEMORY", 8 * exact.HELD * 50**2)
    long = BayesianRND(heads=64, bodies=4, prior=seasonal.prior).fit(MONTHS[:72], SERIES[:72])
    assert isinstance(long._fit, Linear)
    mean, std = seasonal.predict(MONTHS, return_std=True)
    assert np.sqrt(np.mean((long.predict(MONTHS) - mean) ** 2)) < 0.5 * std.mean()
    assert abs(np.mean(long.variance(MONTHS)) / np.mean(std**2) - 1) < 0.3


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": []}, r"prior = \[\]: give an rndlib.Prior, a list of them, or None"),
        ({"prior": [Prior(), None]}, "give an rndlib.Prior, a list of them, or None"),
        ({"prior": "smooth"}, "prior = 'smooth': give an rndlib.Prior"),
        ({"prior": [Prior(), Prior(scales=[1.0, 2.0])]}, "net = None: give priors without scales"),
        ({"prior": Prior(output_scale=2.0)}, "net = None: give priors without scales"),
        ({"prior": [Prior()], "net": MLP(1)}, "with net = MLP.*: give one prior, compared by laws.log_evidence"),
    ],
)
def test_priors_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BayesianRND(**options)


def test_several_priors_need_labels():
    with pytest.raises(ValueError, match="y = None with 2 priors: give y"):
        BayesianRND(prior=[Prior(), Prior(features=season)]).fit(MONTHS)


# -------------------------------------------------------------------------------------------------------- scikit-learn


def test_random_states():
    """`random_state` is where scikit-learn's meta-estimators put their seeds."""
    one, other, again = (BayesianRND(random_state=state).fit(X, Y).errors(X_TEST[:3]) for state in (1, 2, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    bag: Any = BaggingRegressor(DeepEnsemble(members=2), n_estimators=3, bootstrap=False, random_state=0).fit(X, Y)
    first, second, third = (member.functions(X_TEST[:3]) for member in bag.estimators_)
    assert not np.allclose(first, second)
    assert not np.allclose(second, third)


def test_scaled_labels_inside_another_estimator():
    """It cannot hand deviations on; labels in their own units need no transformer."""
    outer: Any = TransformedTargetRegressor(BayesianRND(), func=np.log, inverse_func=np.exp).fit(X, Y)
    assert np.isfinite(outer.predict(X_TEST)).all()


def test_more_points_than_matrices_hold(model, monkeypatch):
    """Then Bayesian RND takes the linearised network, in the same units; the others say what to do."""
    monkeypatch.setattr(exact, "MEMORY", 8 * exact.HELD * 50**2)
    long = BayesianRND(heads=64, bodies=4).fit(X, Y)
    assert isinstance(long._fit, Linear)
    mean, std = long.predict(X_TEST, return_std=True)
    true, spread = model.predict(X_TEST, return_std=True)
    assert np.sqrt(np.mean((mean - true) ** 2)) < 0.5 * spread.mean()
    assert abs(np.mean(std**2) / np.mean(spread**2) - 1) < 0.3  # 4 kernels of 256 or 512 units
    with pytest.raises(ValueError, match=r"X has 60 rows.*BayesianRND"):
        DeepEnsemble().fit(X, Y)


# ---------------------------------------------------------------------------------------------------------- a detector


def test_false_alarms_of_new_points():
    """400 points of the training distribution: 10 % of them are outliers, to four standard errors of both rates."""
    points = RNG.standard_normal((300, 3))
    model = RND().fit(points)
    new = RNG.standard_normal((400, 3))
    rate = float(np.mean(model.predict(new) == -1))
    error = sqrt(0.1 * 0.9 * (1 / 300 + 1 / 400))
    assert abs(rate - 0.1) < 4 * error
    assert np.mean(RND(false_alarms=0.3).fit(points).predict(new) == -1) > rate
    assert (model.predict(new + 20) == -1).all()
    np.testing.assert_array_equal(model.score_samples(new), -model.variance(new))
    np.testing.assert_allclose(model.decision_function(new), model.score_samples(new) - model.offset_)
    # A threshold from the training points themselves flags every new one.
    assert (model.variance(new) > np.quantile(model.variance(points), 0.99)).mean() > 0.9


def test_rows_however_far_out_are_scored_at_once_and_leave_the_others_alone(monkeypatch):
    """By a kernel in closed form: quadrature over such a range would take minutes, or fail."""
    monkeypatch.setattr("rndlib.theory.expectations.by_angle", None)
    points, new = RNG.standard_normal((60, 2)), RNG.standard_normal((20, 2))
    model = RND().fit(np.c_[points, np.zeros(60)])  # a column without a scale of its own
    far = np.array([[30.0, 30.0, 0.0], [1e3, 0.0, 0.0], [0.0, 0.0, 1e6]])
    both = np.concatenate([np.c_[new, np.zeros(20)], far])
    assert (model.predict(both)[20:] == -1).all()
    np.testing.assert_allclose(model.variance(both)[:20], model.variance(both[:20]), rtol=1e-6, atol=1e-13)
    assert np.isfinite(BayesianRND().fit(points).variance([[1e4, 0.0]])).all()


@pytest.mark.filterwarnings("ignore:X. 30 of 30 rows repeat others")
def test_rows_that_repeat_are_no_outliers_by_rounding():
    corners = RNG.integers(0, 2, (200, 3)).astype(float)
    assert (RND().fit(corners).predict(corners) == 1).all()
    assert (RND().fit_predict(np.ones((30, 2))) == 1).all()


def test_rows_that_repeat_are_said_where_they_move_the_threshold():
    """A row is known by its copies, so the threshold is that of new points which repeat rows as often."""
    rng = np.random.default_rng(0)
    points, new = rng.standard_normal((100, 3)), rng.standard_normal((400, 3))
    few, many = np.r_[points, points[:4]], np.r_[points, points[:60]]
    assert (RND().fit(few).predict(new) == -1).mean() < 0.25
    with pytest.warns(UserWarning, match="X: 120 of 160 rows repeat others.*drop repeated rows"):
        model = RND().fit(many)
    assert (model.predict(new) == -1).mean() > 0.25
    as_often = np.concatenate([new[:100], many[rng.permutation(160)[:300]]])  # a quarter is new, as in `many`
    assert (model.predict(as_often) == -1).mean() < 0.2


def test_too_few_rows_for_a_threshold():
    with pytest.warns(UserWarning, match=r"false_alarms = 0\.01: 20 rows held out are too few.*it takes 99"):
        RND(false_alarms=0.01).fit(RNG.standard_normal((20, 2)))
    with pytest.raises(ValueError, match="X has 1 row: false_alarms needs rows to hold out"):
        RND(MLP(2, width=64), 2, linearised=True, false_alarms=0.5).fit([[0.0, 1.0]])
    with pytest.raises(ValueError, match="false_alarms with gamma"):
        RND(MLP(2), gamma=0.5, linearised=True, false_alarms=0.1)


def test_a_constant_output_tells_nothing_of_the_noise_of_another():
    alone, both = (BayesianRND().fit(X, of) for of in (Y, np.c_[Y, np.full((len(Y), 2), 5.0)]))
    assert np.asarray(both.noise_std_)[0] == pytest.approx(float(alone.noise_std_), rel=1e-3)
    mean: Any = both.predict(X)
    np.testing.assert_allclose(mean[:, 0], alone.predict(X), atol=1e-3 * Y.std())
    np.testing.assert_allclose(mean[:, 1], 5.0, atol=1e-9)
    assert BayesianRND().fit(X, np.full(len(Y), 5.0)).predict(X[:1]) == pytest.approx(5.0)


def height(x: np.ndarray) -> np.ndarray:
    return x[:, 1]


def mean_of_both(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 1], np.zeros(len(x))], axis=1)


@pytest.mark.parametrize("by", [None, "prior", "prior_mean"])
def test_each_output_has_a_fit_of_its_own(by):
    """A second output that is noise alone changes nothing of the first. What is random differs between them."""
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(2, 60, 2))
    both = np.stack([np.sin(2 * x[:, 0]) + x[:, 1] + 0.05 * rng.normal(size=60), rng.normal(size=60)], axis=1)
    means: Any = {None: {}, "prior": {"prior": Prior(mean=mean_of_both)}, "prior_mean": {"prior_mean": mean_of_both}}
    own: Any = {None: {}, "prior": {"prior": Prior(mean=height)}, "prior_mean": {"prior_mean": height}}
    kind: Any = DeepEnsemble if by == "prior_mean" else BayesianRND
    model, alone = kind(**means[by]).fit(x, both), kind(**own[by]).fit(x, both[:, 0])
    for name in ("predict", "variance", "functions" if kind is DeepEnsemble else "errors"):
        found, wanted = getattr(model, name)(new), getattr(alone, name)(new)
        assert found.shape == (*wanted.shape, 2)
        np.testing.assert_allclose(found[..., 0], wanted)
    assert model.noise_std_.tolist() == [part.noise_std_ for part in model._parts]
    assert 0.03 < model.noise_std_[0] < 0.08 < 0.5 < model.noise_std_[1]
    assert model.log_evidence_ == pytest.approx(sum(part.log_evidence_ for part in model._parts))
    assert len(model.net_) == len(model.input_scales_) == 2
    assert [note[:9] for note in model.report.notes] == ["Output 0:"] * 2 + ["Output 1:"] * 2
    if kind is BayesianRND:
        samples = model.sample_y(new, 400)
        np.testing.assert_allclose(samples[:, :, :3], model.sample_y(new, 3), rtol=0, atol=1e-9)
        assert abs(np.corrcoef(samples[0])[0, 1]) < 4.5 / sqrt(400)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(new), model.predict(new))
    with pytest.raises(ValueError, match=r"prior_mean\(X\) has shape \(60,\): give \(60, 2\)"):
        DeepEnsemble(prior_mean=height).fit(x, both)
    with pytest.raises(ValueError, match="gamma = None: give gamma to use X_next"):
        DeepEnsemble().fit(x, both, X_next=x)


def test_initial_functions_are_in_the_units_of_their_outputs():
    model = DeepEnsemble(members=40).fit(X, np.c_[Y, 1000 * Y + 5e4])
    at, units = model.initial(X[:5]), np.array([Y.std(), 1000 * Y.std()])
    assert at.shape == model.functions(X[:5]).shape == (40, 5, 2)
    for output, middle in enumerate((Y.mean(), 1000 * Y.mean() + 5e4)):
        assert abs(at[..., output].mean() - middle) < 3 * units[output]
        assert 0.1 < at[..., output].std() / units[output] < 10


def test_held_out_scores_are_those_of_fits_that_leave_a_point_out():
    points = RNG.standard_normal((12, 2))
    model = RND().fit(points)
    k = kernels.kernel(model.net_, model._units.inputs(points))
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        G = np.linalg.solve(k.ntk[np.ix_(rest, rest)] + model._noise**2 * np.eye(11), k.ntk[rest, i])
        alone = k.nngp[i, i] - 2 * G @ k.nngp[rest, i] + G @ k.nngp[np.ix_(rest, rest)] @ G
        assert model._held_out is not None
        assert model._held_out[i] == pytest.approx(alone, rel=1e-2)


def test_fit_predict_leaves_each_point_out():
    points = np.concatenate([RNG.standard_normal((60, 2)), [[8.0, 8.0]]])
    labels = RND().fit_predict(points)
    assert labels[-1] == -1
    assert labels[:-1].mean() > 0.5
    with pytest.raises(ValueError, match="RND error is 0 at training points"):
        RND(MLP(2, width=32), 2).fit_predict(points[:5])


def test_a_threshold_with_a_network_that_is_given():
    points, new = RNG.standard_normal((50, 2)), RNG.standard_normal((200, 2))
    model = RND(MLP(2, width=256), heads=16, bodies=4, linearised=True, false_alarms=0.2).fit(points)
    rate = np.mean(model.predict(new) == -1)
    assert rate < 0.2 + 4 * sqrt(0.2 * 0.8 * (1 / 10 + 1 / 200))  # a threshold from ten points
    assert (model.predict(new + 20) == -1).all()
    with pytest.raises(ValueError, match="false_alarms = 2: give a number between 0 and 1"):
        RND(false_alarms=2)


def test_quantiles_of_new_points():
    assert quantile_of_new(np.arange(9.0), 0.1) == 8.0  # the largest of nine is exceeded once in ten
    assert quantile_of_new(np.arange(9.0), 0.5) == 4.0
    assert quantile_of_new(np.arange(9.0), 0.05) == np.inf  # nine points cannot tell


@pytest.mark.torch
def test_the_output_scale_of_a_user_s_module_by_evidence():
    """In PyTorch's own scaling the prior has a deviation of 0.1: a warning says so, and the evidence mends it."""
    from torch import nn

    from rndlib.checks import ScaleWarning
    from rndlib.torch import Module

    def build(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 256), nn.SiLU(), nn.Linear(256, outputs))

    points = RNG.standard_normal((40, 3))
    labels = 3 * (points[:, 0] + np.sin(points[:, 1])) + 0.2 * RNG.standard_normal(40)
    net = Module(build, output_scale=None)
    model = BayesianRND(net, heads=8, linearised=True).fit(points, labels)
    assert isinstance(model.net_, Module)
    assert (model.net_.output_scale or 0) > 3
    assert 0.1 < model.noise_std_ < 1
    assert net.output_scale is None  # what the user gave is as it was
    assert any("the output scale" in note for note in model.report.notes)
    assert BayesianRND(net, heads=2, linearised=True, noise_std=0.5).fit(points, labels).noise_std_ == 0.5
    ensemble = DeepEnsemble(Module(build, output_scale=None), 2).fit(points[:10], labels[:10])
    assert ensemble.noise_std_ == 0.0  # it has no noise to give
    with pytest.warns(ScaleWarning, match="the network's prior at X a deviation of"):
        BayesianRND(Module(build), heads=2, linearised=True, noise_std=0.1).fit(points, 10 * labels)
