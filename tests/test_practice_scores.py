"""Scores and intervals over splits of notebook 06, each against another way to the same number."""

from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from rndlib.paper.practice import scores

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.standard_normal(7), RNG.standard_normal(7), RNG.uniform(0.1, 3, 7)


def test_crps_is_the_squared_distance_between_distribution_functions():
    def one(y, mean, std):
        below = quad(lambda x: stats.norm.cdf(x, mean, std) ** 2, -np.inf, y)[0]
        return below + quad(lambda x: stats.norm.sf(x, mean, std) ** 2, y, np.inf)[0]

    wanted = np.mean([one(*row) for row in zip(Y, MEAN, STD, strict=True)])
    assert scores.crps(Y, MEAN, STD) == pytest.approx(wanted, abs=1e-7)  # quad promises 1.5e-8 of each half


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_of_the_truth_is_the_level(level):
    y = np.random.default_rng(2).standard_normal(1000)
    found = scores.of_predictions(3 + 2 * y, scores.normal(0 * y + 3, 2.0), y[:, None], level=level)
    assert abs(found["coverage"] - level) < 4 * sqrt(level * (1 - level) / len(y))
    assert found["width"] == pytest.approx(2 * (stats.norm.interval(level, scale=2)[1]))


def mixture():
    """Three parts with a covariance, at 25 points."""
    root = RNG.standard_normal((25, 4))
    return scores.Predictive(RNG.standard_normal((3, 25)), RNG.uniform(0.5, 2, (3, 25)), root @ root.T)


def test_the_joint_score_is_the_density_of_a_mixture():
    of, y = mixture(), RNG.standard_normal(25)
    tuples = scores.at_random(25, seed=1)
    assert tuples.shape == (2, scores.SIZE)
    assert len(set(tuples.ravel())) == 20

    def density(at):
        normal: Any = stats.multivariate_normal
        parts = (
            normal(m[at], of.cov[np.ix_(at, at)] + np.diag(s[at] ** 2))
            for m, s in zip(of.means, of.noise_std, strict=True)
        )
        return log(np.mean([part.pdf(y[at]) for part in parts]))

    assert scores.joint(y, of, tuples) == pytest.approx(np.mean([density(at) for at in tuples]) / 10, rel=1e-9)


def test_moments_are_those_of_draws():
    of = mixture()
    part = RNG.integers(3, size=40_000)
    noise = of.noise_std[part] * RNG.standard_normal((40_000, 25))
    drawn = of.means[part] + noise + RNG.multivariate_normal(np.zeros(25), of.cov, 40_000)
    mean, std = of.moments
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * std / 200).all()
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=5 / sqrt(2 * 40_000))


def test_neighbours_are_the_nearest_and_their_score_alone_is_that_of_independent_labels():
    X, y, of = RNG.standard_normal((25, 2)), RNG.standard_normal(25), mixture()
    near = scores.neighbours(X)
    distance = np.linalg.norm(X[:, None] - X, axis=2)
    for at, row in zip(near, distance, strict=True):
        assert set(at) == set(np.argsort(row)[: scores.SIZE])
    mean, std = of.moments
    found = scores.of_predictions(y, of, X)
    assert found["nearby alone"] == pytest.approx(stats.norm.logpdf(y, mean, std)[near].mean(), rel=1e-9)
    assert found["nearby"] == scores.joint(y, of, near)
    assert found["RMSE"] == pytest.approx(np.linalg.norm(y - mean) / 5)
    assert found["NLL"] == pytest.approx(-stats.norm.logpdf(y, mean, std).mean())


def test_an_area_is_the_share_of_pairs_in_order():
    assert scores.auroc(np.array([0.0, 1.0]), np.array([2.0, 3.0])) == 1
    assert scores.auroc(np.array([0.0, 1.0]), np.array([0.5, -1.0])) == 0.25


def test_without_overlap_the_interval_is_students():
    found = scores.over_splits(Y, n_train=10**9, n_test=1)
    students = stats.ttest_1samp(Y, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(students), rel=1e-6)


def test_the_correction_keeps_the_interval_from_shrinking_to_nothing():
    many = np.random.default_rng(3).standard_normal(4000)
    found = scores.over_splits(many, n_train=80, n_test=20)
    assert (found.high - found.low) / 2 == pytest.approx(stats.norm.ppf(0.975) * sqrt(20 / 80), rel=0.05)
    with pytest.raises(ValueError, match="run at least two"):
        scores.over_splits([1.0], 80, 20)
