"""Statistics of many heads, against exact draws of the Gaussian laws and wrong ones."""

from math import sqrt

import numpy as np
import pytest
from power import most
from scipy import stats

from rndlib import laws
from rndlib.paper.evidence import statistics

HEADS, POINTS, BODIES = 2, 32, 960


def _cov(points: int) -> np.ndarray:
    """A covariance between far points and neighbours, of about the dependence that the toy problem has."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((points, 3))
    near = np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1) / 4)
    scale = rng.uniform(0.1, 1, points)
    return near * np.outer(scale, scale) + 1e-6 * np.eye(points)


COV = _cov(POINTS)
ROOT = np.linalg.cholesky(COV)
LAW = laws.mean_square(COV.diagonal(), HEADS)


def _errors(rng: np.random.Generator, bodies: int = BODIES) -> np.ndarray:
    return sqrt(2) * rng.standard_normal((bodies, HEADS, POINTS)) @ ROOT.T


def _squares(rng: np.random.Generator, bodies: int = BODIES) -> np.ndarray:
    return np.mean(_errors(rng, bodies) ** 2, axis=1) / 2


# Independence of heads


@pytest.mark.parametrize("likeness", ["errors", "squares", "distance"])
def test_dependence_is_that_of_gaussian_pairs(likeness):
    """rho for errors, rho^2 for squares; distance correlation of one-dimensional pairs in closed form (Székely et al.).

    2000 bodies know a correlation to 0.022, and the three are no more than doubled by their own errors.
    """
    rho = 0.6
    rng = np.random.default_rng(0)
    errors = statistics.mixed(rng.standard_normal((2000, 2, 1)), rho)
    arc = rho * np.arcsin(rho) + sqrt(1 - rho**2) - rho * np.arcsin(rho / 2) - sqrt(4 - rho**2) + 1
    expected = {"errors": rho, "squares": rho**2, "distance": sqrt(arc / (1 + np.pi / 3 - sqrt(3)))}[likeness]
    found = statistics.dependence(errors, np.eye(1), likeness)
    low, high = found.interval or (0, 0)
    assert low < expected + 0.03
    assert high > expected - 0.03
    assert high - low < 0.15


def test_dependence_without_correlation_is_seen():
    """Heads that share only their scale: squares and distances see it, errors do not."""
    rng = np.random.default_rng(2)
    scale = np.exp(0.6 * rng.standard_normal((600, 1, 1)))
    errors = rng.standard_normal((600, 2, 3)) * scale
    lows = {}
    for by in ("errors", "squares", "distance"):
        found = statistics.dependence(errors, np.eye(3), by)
        lows[by] = (found.interval or (0, 0))[0]
    assert lows["errors"] < 0.05
    assert lows["squares"] > 0.1
    assert lows["distance"] > 0.05


def test_mixing_keeps_the_first_head_and_the_variances():
    errors = np.random.default_rng(3).standard_normal((20_000, 3, 2))
    shared = statistics.mixed(errors, 0.5)
    np.testing.assert_array_equal(shared[:, 0], errors[:, 0])
    cov = np.cov(shared[:, :, 0].T)
    np.testing.assert_allclose(cov, [[1, 0.5, 0.5], [0.5, 1, 0.25], [0.5, 0.25, 1]], atol=0.05)  # five errors of 0.01


# The chi-squared law


def test_distance_is_that_of_cramer_and_von_mises():
    """Without the correction for noise, it is SciPy's statistic over the number of bodies, up to the grid."""
    values = _squares(np.random.default_rng(4))[:, :1]
    law = laws.mean_square(COV.diagonal()[:1], HEADS)
    raw = float(stats.cramervonmises(values[:, 0], lambda v: law.cdf(v[:, None])[:, 0]).statistic) / BODIES
    below = (law.cdf(values) <= (np.arange(32) + 0.5) / 32).mean(axis=0)
    assert float(np.mean((below - (np.arange(32) + 0.5) / 32) ** 2)) == pytest.approx(raw, abs=0.2 / 32 / sqrt(BODIES))
    # The unbiased square is smaller by what the law's noise adds on average, 1/6 over the number of bodies.
    low, high = statistics.distance_to_law(values, law).interval or (0, 0)
    assert low**2 <= max(raw - 1 / 6 / BODIES, 0) + 2e-4
    assert high**2 >= raw - 1 / 6 / BODIES - 2e-4


def test_distances_of_other_laws_are_covered():
    """The true distance is that of the probabilities; either end may miss it 5 times in 100."""
    rng = np.random.default_rng(6)
    levels = (np.arange(2000) + 0.5) / 2000
    scaled = sqrt(np.mean((LAW.cdf(1.2 * LAW.ppf(levels[:, None])) - levels[:, None]) ** 2))
    runs, below, above = 120, 0, 0
    for _ in range(runs):
        low, high = statistics.distance_to_law(_squares(rng, 300) / 1.2, LAW).interval or (0, 0)
        below, above = below + (high < scaled), above + (low > scaled)
    assert below <= most(runs, 0.05)
    assert above <= most(runs, 0.05)


# The field


def test_pairs_are_numpys_covariances():
    values = _squares(np.random.default_rng(9))[:, :5]
    law, found, error = statistics.covariance_pairs(values, COV[:5, :5], HEADS)
    variance = COV.diagonal()[:5]
    upper = np.triu_indices(5, 1)
    units = np.outer(variance, variance)[upper]
    np.testing.assert_allclose(found, np.cov(values.T)[upper] / units)
    np.testing.assert_allclose(law, COV[:5, :5][upper] ** 2 / units)
    assert np.all(np.abs(found - law) < 5 * error)


# Heads against width


def test_level_and_spread_are_what_was_put_in():
    """At 2000 bodies and 32 points both are known to a few per cent; 1.1 and 1.44 are far outside."""
    values = _squares(np.random.default_rng(10), 2000)
    for scale in (1.0, 1.2):
        for (_, low, high), expected in (
            (statistics.level(scale * values, COV.diagonal()), scale),
            (statistics.spread(scale * values, COV.diagonal(), HEADS), scale**2),
        ):
            assert low - 0.03 < expected < high + 0.03
            assert high - low < 0.25


def test_level_covers_where_heads_of_a_body_hang_together():
    """A body scales all of its heads. Heads taken as independent would give intervals a third as wide."""
    rng = np.random.default_rng(0)
    missed, runs, variance = 0, 400, np.array([1.0, 9.0, 0.04])
    for _ in range(runs):
        scale = rng.choice([0.5, 1.5], size=(16, 1, 1))
        errors = np.sqrt(scale * variance) * rng.standard_normal((16, 32, 3))
        _, low, high = statistics.level(np.mean(errors**2, axis=1), variance)
        missed += not low <= 1 <= high
    # 5 % is meant; a two-valued scale on 16 bodies is not normal, so up to 8 % are allowed, and their scatter.
    assert missed <= most(runs, 0.08)
