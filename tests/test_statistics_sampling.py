"""Energy distance, whitening and draws from heads, against exact draws and closed forms."""

from math import sqrt

import numpy as np
import pytest
from power import gaussian, most
from scipy import stats

from rndlib.paper.evidence import statistics
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.statistics import centred
from rndlib.theory.laws import Gaussian

# Standard RND errors have a third to a half of the posterior's variance in most directions of the toy problem.
SCALES = np.array([0.3, 0.35, 0.4, 0.5])
UNIT = centred(np.eye(1))


def _root(seed: int = 0) -> np.ndarray:
    """F with a covariance F F^T that no check of whitening could take for the identity."""
    return np.random.default_rng(seed).standard_normal((4, 4)) + np.diag([3.0, 1.0, 0.1, 2.0])


# Whitening


def test_whitened_samples_have_the_unit_law():
    F, rng = _root(), np.random.default_rng(0)
    white = statistics.whitened(rng.standard_normal((4000, 4)) @ F.T + 5, gaussian(5, F @ F.T))
    squares = np.sum(white**2, axis=1)
    assert np.asarray(stats.kstest(squares, stats.chi2(4).cdf))[1] > 1e-4
    np.testing.assert_allclose(np.cov(white.T), np.eye(4), atol=5 * sqrt(2 / 4000))


# Energy distance


def test_energy_between_gaussians_is_that_of_their_draws():
    F, rng = _root(), np.random.default_rng(1)
    wrong = F @ np.diag(SCALES) @ F.T
    exact = statistics.gaussian_energy(centred(F @ F.T), centred(wrong))
    z, w = (rng.standard_normal((2, 200_000, 4)) for _ in range(2))
    z *= np.sqrt(SCALES)
    terms = 2 * np.linalg.norm(z[0] - w[0], axis=1) - np.linalg.norm(z[0] - z[1], axis=1)
    terms -= np.linalg.norm(w[0] - w[1], axis=1)
    assert abs(terms.mean() - exact) < 5 * terms.std() / sqrt(200_000)
    assert statistics.gaussian_energy(*[centred(F @ F.T)] * 2) == pytest.approx(0, abs=1e-12)


def test_energy_in_one_dimension_is_that_of_scipy():
    """SciPy has D for one dimension, between samples: with zeros on the diagonal of |z - z'|, and no interval."""
    rng = np.random.default_rng(2)
    samples, quantiles = 0.5 * rng.standard_normal(1000), stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    found = statistics.energy(samples[:, None], UNIT, centred(np.array([[0.25]])))
    low, high = found.interval or (0.0, 0.0)
    distance = np.abs(samples[:, None] - samples).mean()
    square = stats.energy_distance(samples, quantiles) ** 2 - distance / 999
    unit = statistics.gaussian_energy(UNIT, centred(np.array([[0.25]])))
    assert (low**2 + high**2) / 2 == pytest.approx(square / unit, rel=1e-3)


@pytest.mark.check
def test_energy_covers():
    """With control variates, as in the notebook, and networks of the wrong law, which is at 1."""
    rng, F = np.random.default_rng(3), _root()
    law, wrong = gaussian(1, F @ F.T), gaussian(1, F @ np.diag(SCALES) @ F.T)
    missed = 0
    for _ in range(100):
        own, noise, others = (rng.standard_normal(shape) for shape in ((400, 4), (400, 4), (192, 8, 4)))
        sample = Sample((own + 0.2 * noise) / np.sqrt(1.04), own, others)
        found = statistics.energy(sample.each(lambda z: z * np.sqrt(SCALES) @ F.T + 1), law, wrong)
        low, high = found.interval or (0.0, 0.0)
        missed += not low <= 1 <= high
    assert missed <= most(100, 0.15)


def test_energy_sees_what_two_moments_do_not():
    rng = np.random.default_rng(4)
    signs = rng.choice([-1.0, 1.0], (2000, 1))
    low, _ = statistics.energy(signs, UNIT, centred(np.array([[0.4]]))).interval or (0.0, 0.0)
    assert low > CLAIMS["S1-energy"].tolerance
    assert statistics.joint_law(signs, UNIT).value < CLAIMS["S1"].tolerance


def test_control_variates_that_are_the_networks_lower_the_noise_of_an_energy_distance():
    """Then the estimate is that of all of them together, and its interval shrinks with their number."""
    rng = np.random.default_rng(6)
    samples, others = rng.standard_normal((50, 3)), rng.standard_normal((150, 1, 3))
    law, wrong = centred(np.eye(3)), centred(2 * np.eye(3))
    found = statistics.energy(Sample(samples, samples, others), law, wrong)
    pooled = statistics.energy(np.concatenate([samples, others[:, 0]]), law, wrong)
    alone = statistics.energy(samples, law, wrong)
    assert found.value == pytest.approx(pooled.value, rel=0.05)
    assert found.value < 0.7 * alone.value


def test_energy_does_not_depend_on_the_basis():
    rng, F = np.random.default_rng(5), _root()
    samples = rng.standard_normal((100, 4)) * 0.7
    plain = statistics.energy(samples, centred(np.eye(4)), centred(np.diag(SCALES)))
    moved = statistics.energy(samples @ F.T + 3, gaussian(3, F @ F.T), centred(F @ np.diag(SCALES) @ F.T))
    assert moved.interval == pytest.approx(plain.interval)


# Draws


def test_exact_draws_have_the_law_even_where_it_is_singular():
    F = np.vstack([_root()[:, :2], np.zeros((1, 2))])
    law = Gaussian(np.arange(5.0), np.sum(F**2, axis=1), F @ F.T)
    drawn = statistics.exact_draws(law, 4000, seed=3)
    found = statistics.joint_law(drawn[:, :2], gaussian(law.mean[:2], F[:2] @ F[:2].T))
    assert found.value < CLAIMS["S1"].tolerance
    np.testing.assert_allclose(drawn[:, 4], 4, atol=0.01)
    np.testing.assert_allclose(drawn[:, 2] - 2, (drawn[:, :2] - [0, 1]) @ np.linalg.solve(F[:2].T, F[2]), atol=0.03)


def test_drawing_with_replacement_has_the_closed_forms():
    rng, heads, fits = np.random.default_rng(8), 4, 4000
    functions = rng.standard_normal((fits, heads, 2))
    drawn = statistics.with_replacement(functions, heads, seed=1)
    assert drawn.shape == functions.shape
    same = np.all(drawn[:, 0] == drawn[:, 1], axis=1)
    assert abs(same.mean() - 1 / heads) < 5 * sqrt(1 / heads * (1 - 1 / heads) / fits)
    repeats = [statistics.repeats(one.T).value for one in drawn]
    assert abs(np.mean(repeats) - heads * (1 - 1 / heads) ** heads) < 5 * np.std(repeats) / sqrt(fits)
    assert statistics.repeats(functions[0].T).value == 0


@pytest.mark.check
@pytest.mark.parametrize("heads", [2, 3])
def test_dependence_of_samples_covers(heads):
    """In units of 1/K, samples of different heads are at 0 and those drawn with replacement at 1."""
    rng, F = np.random.default_rng(9), _root()
    missed = np.zeros(2)
    for run in range(40):
        functions = rng.standard_normal((192 * heads**2, heads, 4)) @ F.T
        for truth, of in enumerate((functions, statistics.with_replacement(functions, heads, seed=run))):
            low, high = statistics.dependence_of_samples(of, F @ F.T, heads).interval or (0.0, 0.0)
            missed[truth] += not low <= truth <= high
    assert missed.max() <= most(40, 0.15)
