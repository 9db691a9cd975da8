"""Scores, intervals over splits and the evidence of notebook 06, each against another way to the same number."""

from math import log, pi, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from rndlib import MLP, kernels
from rndlib.practice import choose, scores

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.standard_normal(7), RNG.standard_normal(7), RNG.uniform(0.1, 3, 7)


def test_crps_is_the_squared_distance_between_distribution_functions():
    def one(y, mean, std):
        below = quad(lambda x: stats.norm.cdf(x, mean, std) ** 2, -np.inf, y)[0]
        return below + quad(lambda x: stats.norm.sf(x, mean, std) ** 2, y, np.inf)[0]

    wanted = np.mean([one(*row) for row in zip(Y, MEAN, STD, strict=True)])
    assert scores.crps(Y, MEAN, STD) == pytest.approx(wanted, abs=1e-7)  # quad promises 1.5e-8 of each half


def test_negative_log_likelihood_is_that_of_independent_normal_numbers():
    wanted = np.mean(0.5 * ((Y - MEAN) / STD) ** 2 + np.log(STD) + 0.5 * log(2 * pi))
    assert scores.negative_log_likelihood(Y, MEAN, STD) == pytest.approx(wanted, rel=1e-12)


def test_proper_scores_prefer_the_truth():
    y = np.random.default_rng(1).standard_normal(20_000)
    for score in (scores.negative_log_likelihood, scores.crps):
        truth = score(y, 0 * y, 0 * y + 1)
        # Wrong by a fifth: the expected loss is at least 0.004, over ten standard errors of a paired difference.
        for mean, std in ((0.2, 1), (-0.2, 1), (0, 0.8), (0, 1.25)):
            assert score(y, 0 * y + mean, 0 * y + std) > truth


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_of_the_truth_is_the_level(level):
    y = np.random.default_rng(2).standard_normal(10_000)
    found = scores.of_predictions(3 + 2 * y, 0 * y + 3, 0 * y + 2, level)
    assert abs(found["coverage"] - level) < 4 * sqrt(level * (1 - level) / len(y))
    assert found["width"] == pytest.approx(2 * (stats.norm.interval(level, scale=2)[1]))


def test_all_scores_are_of_the_same_predictions():
    found = scores.of_predictions(Y, MEAN, STD)
    assert found["NLL"] == scores.negative_log_likelihood(Y, MEAN, STD)
    assert found["CRPS"] == scores.crps(Y, MEAN, STD)
    assert found["RMSE"] == pytest.approx(np.linalg.norm(Y - MEAN) / sqrt(7))


def test_areas_are_of_each_group_against_the_inside():
    values = np.array([0.0, 1.0, 2.0, 3.0, 0.5, -1.0])
    assert scores.aurocs(values, 2, {"far": 2, "other": 2}) == {"far": 1.0, "other": 0.25}


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


def test_the_corrected_interval_covers_over_splits_of_one_data_set():
    """The mean of a held-out score, its expectation known: the usual interval misses it far more often than it says."""
    rng = np.random.default_rng(4)
    splits, n, held = 10, 50, 10
    missed = {"corrected": 0, "usual": 0}
    repeats = 400
    for _ in range(repeats):
        data = rng.standard_normal(n)
        orders = [rng.permutation(n) for _ in range(splits)]
        # Predict by the mean of the training points: the expected squared error is 1 + 1 / (n - held).
        losses = [np.mean((data[o[:held]] - data[o[held:]].mean()) ** 2) for o in orders]
        for name, sizes in (("corrected", (n - held, held)), ("usual", (10**9, 1))):
            found = scores.over_splits(losses, *sizes)
            missed[name] += not found.low <= 1 + 1 / (n - held) <= found.high
    # Of what claims to miss 5 %: a rate of 5 % misses a tenth of 400 times with a chance below 1e-4.
    assert missed["usual"] > 0.1 * repeats
    assert missed["corrected"] < 0.1 * repeats


NET = MLP(2, sigma_w=1.3)
POINTS = np.random.default_rng(5).standard_normal((60, 2))
FUNCTION = np.random.default_rng(6).multivariate_normal(np.zeros(60), kernels.kernel(NET, POINTS).ntk)
LABELS = FUNCTION + 0.3 * np.random.default_rng(7).standard_normal(60)


def test_evidence_is_the_density_of_the_labels():
    cov = kernels.kernel(NET, POINTS).ntk + 0.4**2 * np.eye(60)
    factor = np.linalg.cholesky(cov)
    wanted = stats.norm.logpdf(np.linalg.solve(factor, LABELS)).sum() - np.log(factor.diagonal()).sum()
    assert choose.log_evidence(NET, POINTS, LABELS, 0.4) == pytest.approx(wanted, rel=1e-9)


def test_the_choice_is_the_best_of_a_grid_and_near_the_noise_there_was():
    scales = [0.4, 1.3, 4.0]
    net, noise_std = choose.by_evidence(NET, POINTS, LABELS, scales)
    grid = [
        choose.log_evidence(MLP(2, sigma_w=scale), POINTS, LABELS, noise)
        for scale in scales
        for noise in np.geomspace(0.01, 10, 40)
    ]
    assert choose.log_evidence(net, POINTS, LABELS, noise_std) >= max(grid)
    assert abs(log(noise_std / 0.3)) < 4 / sqrt(2 * 60)  # four standard errors of a log of 60 numbers' spread
    with pytest.raises(ValueError, match="scales is empty"):
        choose.by_evidence(NET, POINTS, LABELS, [])
