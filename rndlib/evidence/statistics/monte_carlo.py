"""The Monte-Carlo floor of Fig. 1 (claims N1 and N2): how far two exact estimates of one variance lie apart.

Under the laws, K independent heads and M members estimate the variance Sigma(x, x) by independent scaled chi-squared
variables with K and M - 1 degrees of freedom, whose difference has the mean square 2 Sigma^2 / K + 2 Sigma^2 / (M - 1):
4 Sigma^2 / K where M = K + 1. Over x the difference is one smooth random field, so its mean square over thousands of
test points still scatters widely around that; its law is simulated here.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from rndlib import checks
from rndlib.evidence.claims import Finding

_LEFT_OUT = 1e-3  # share of the variance in the directions that the simulation drops


def mean_squared_difference(rnd: ArrayLike, ensemble: ArrayLike) -> float:
    """Mean square over test points of RND error less ensemble variance, over all pairs of their seeds.

    All pairs, because every RND model may stand against every ensemble: that scatters less than one pair a seed.

    Parameters
    ----------
    rnd: `(rnd seeds, points)`, one half of the mean squared error of each RND model (Bayesian RND: all of it).
    ensemble: `(ensemble seeds, points)`, variance of each ensemble; one row for an ensemble that serves all, or for
        the exact law in its place.

    Raises
    ------
    ValueError: shapes disagree.
    """
    rnd = checks.array("rnd", rnd, None, None)
    ensemble = checks.array("ensemble", ensemble, None, rnd.shape[1])
    return float(np.mean((rnd[:, None] - ensemble[None]) ** 2))


def floor(variance: ArrayLike, heads: int, members: int | None = None) -> float:
    """Expected mean squared difference, over test points, of two estimates of one variance.

    Parameters
    ----------
    variance: `(points,)`, the law's variance, in ensemble units.
    heads: independent squares behind each RND estimate, K.
    members: size of the ensemble, M; None for the exact law in its place.
    """
    variance = checks.array("variance", variance, None)
    rate = 2 / checks.whole("heads", heads, 1)
    rate += 0 if members is None else 2 / (checks.whole("members", members, 2) - 1)
    return float(np.mean(variance**2)) * rate


def floor_draws(
    cov: ArrayLike,
    heads: int,
    members: int,
    rnd_seeds: int = 1,
    ensemble_seeds: int = 1,
    draws: int = 1000,
    seed: int = 0,
) -> Float[np.ndarray, " draws"]:
    """Draws of `mean_squared_difference` under the laws, as multiples of `floor`.

    With cov = F F^T and W a Wishart matrix in the few coordinates of F, an estimate at x is f_x^T W f_x / dof: no
    head is ever evaluated at a test point. A difference is then one matrix in those coordinates too. Being relative
    to their mean, the draws hardly depend on how many test points there are: a random thousand will do.

    Parameters
    ----------
    cov: `(points, points)`, the law's covariance; its scale does not matter.
    heads, members: as in `floor`.
    rnd_seeds, ensemble_seeds: the numbers of models that are paired.
    draws: number of draws.
    seed: of the draws.

    Raises
    ------
    ValueError: a covariance that is not square, or a number out of range.
    """
    factor = _factor(checks.array("cov", cov, None, None))
    rng = np.random.default_rng(seed)
    groups = [
        (checks.whole("rnd_seeds", rnd_seeds, 1), checks.whole("heads", heads, 1)),
        (checks.whole("ensemble_seeds", ensemble_seeds, 1), checks.whole("members", members, 2) - 1),
    ]

    def estimates(models: int, dof: int) -> np.ndarray:
        lower = np.stack([_wishart_factor(rng, factor.shape[1], dof) for _ in range(models)])
        return np.sum((factor @ lower) ** 2, axis=2) / dof

    expected = floor(np.sum(factor**2, axis=1), heads, members)
    repeats = range(checks.whole("draws", draws, 1))
    return np.array([mean_squared_difference(*(estimates(*group) for group in groups)) for _ in repeats]) / expected


def above_floor(difference: float, floor: float, draws: ArrayLike, confidence: float = 0.95) -> Finding:
    """Expected mean squared difference as a multiple of the floor: interval, and its upper end as the value.

    The draws divided by their mean serve as the pivot: whatever a finite width adds is taken to scale the difference
    and to leave its relative scatter as it is under the laws.

    Parameters
    ----------
    difference: from `mean_squared_difference`.
    floor: from `floor`.
    draws: from `floor_draws`, for the same numbers of seeds.
    confidence: of each end, one-sided.
    """
    confidence = checks.fraction("confidence", confidence)
    ratio = checks.non_negative("difference", difference) / checks.positive("floor", floor)
    top, bottom = np.quantile(checks.array("draws", draws, None), [confidence, 1 - confidence])
    return Finding(ratio / float(bottom), (ratio / float(top), ratio / float(bottom)), "above_floor")


def _wishart_factor(rng: np.random.Generator, size: int, dof: int) -> np.ndarray:
    """Bartlett's triangular factor of a draw of Z Z^T, for standard normal Z of `(size, dof)`."""
    columns = min(size, dof)
    factor = np.tril(rng.standard_normal((size, columns)), -1)
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(dof - np.arange(columns))))
    return factor


def _factor(cov: np.ndarray) -> np.ndarray:
    """F of `(points, rank)` with F F^T = cov but for a `_LEFT_OUT` share of its trace."""
    if cov.shape[0] != cov.shape[1]:
        raise ValueError(f"cov has shape {cov.shape}: give a square matrix")
    values, vectors = linalg.eigh(cov)
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    if values[0] <= 0:
        raise ValueError("cov has no positive eigenvalue: give the covariance of functions that vary")
    rank = int(np.searchsorted(np.cumsum(values), (1 - _LEFT_OUT) * values.sum())) + 1
    # An eigenvector has either sign; one fixed choice makes every machine draw the same.
    signs = np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0))
    return (vectors * signs)[:, :rank] * np.sqrt(values[:rank])
