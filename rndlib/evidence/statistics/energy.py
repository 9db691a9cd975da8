"""Energy distance of samples from a Gaussian law, jointly over test points (claim S1-energy).

For independent z, z' of one law and w, w' of another,

    D^2 = 2 E|z - w| - E|z - z'| - E|w - w'|

is zero for equal laws only, and D is a metric (Székely and Rizzo, 2013). Unlike `joint_law` it sees every moment.
It is taken in coordinates in which w is N(0, I_p). There E|z - w| over w is known in closed form, so that a law can be
compared with without drawing from it: D^2 is the mean over pairs of networks of

    k(z, z') = h(z) + h(z') - |z - z'| - h(0) sqrt 2,   h(z) = E|z - w|.
"""

from math import exp, lgamma, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, spatial, special, stats

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.pairs import error_over_pairs
from rndlib.evidence.statistics.whitening import whitened

_BATCH = 100  # Permutations at a time.


def energy(samples: ArrayLike, mean: ArrayLike, cov: ArrayLike, wrong: ArrayLike, confidence: float = 0.95) -> Finding:
    """Energy distance of the networks' joint law from N(mean, cov), as a multiple of that of N(mean, wrong).

    D being a metric, a value of at most 1/2 says that the networks are nearer to the law than to the wrong one. The
    interval is that of the mean over pairs of independent networks, degenerate part included.

    Parameters
    ----------
    samples: `(networks, points)`, outputs of independently seeded networks at the same points; four networks or more.
    mean, cov: `(points,)` and `(points, points)`, of the law; cov positive definite.
    wrong: `(points, points)`, covariance of a law to tell it from, positive semidefinite.
    confidence: of each end of the interval, one-sided.

    Returns
    -------
    The interval of the ratio, and its upper end as the value.

    Raises
    ------
    ValueError: shapes disagree, fewer than four networks, a cov that is not positive definite, or a wrong law that
        is the law.
    """
    white = whitened(samples, mean, cov)
    networks, points = white.shape
    wrong = checks.array("wrong", wrong, points, points)
    confidence = checks.fraction("confidence", confidence)
    if networks < 4:
        raise ValueError(f"samples has {networks} networks: give at least four")
    unit = gaussian_energy(cov, wrong)
    if unit <= 0:
        raise ValueError("wrong is the covariance of the law itself: give another one to tell it from")

    to_law = _distance_to_law(white)
    k = (
        to_law[:, None]
        + to_law
        - spatial.distance.squareform(spatial.distance.pdist(white))
        - sqrt(2) * _length(points)
    )
    np.fill_diagonal(k, 0)
    square = float(k.sum()) / networks / (networks - 1)
    k -= square
    np.fill_diagonal(k, 0)
    reach = float(stats.norm.ppf(confidence)) * error_over_pairs(k)
    low, high = (sqrt(max(end, 0) / unit) for end in (square - reach, square + reach))
    return Finding(high, (low, high), "energy")


def gaussian_energy(cov: ArrayLike, other: ArrayLike) -> float:
    """D^2 between N(mean, cov) and N(mean, other), both `(points, points)`, in coordinates that whiten `cov`.

    Raises
    ------
    ValueError: shapes disagree, or a cov that is not positive definite.
    """
    cov = checks.array("cov", cov, None, None)
    other = checks.array("other", other, *cov.shape)
    try:
        scales = np.clip(linalg.eigvalsh(other, cov), 0, None)
    except linalg.LinAlgError as error:
        raise ValueError("cov is not positive definite: leave out training points and near repeats") from error
    return 2 * _mean_length(1 + scales) - _mean_length(2 * scales) - _mean_length(np.full(len(scales), 2.0))


def energy_test(
    samples: ArrayLike, draws: ArrayLike, mean: ArrayLike, cov: ArrayLike, permutations: int = 999, seed: int = 0
) -> Any:
    """Two-sample permutation test of equal laws, with D^2 between networks and exact draws as its statistic.

    Parameters
    ----------
    samples: `(networks, points)`, outputs of independently seeded networks.
    draws: `(draws, points)`, independent draws of the law.
    mean, cov: of the law; they set the coordinates only.
    permutations: number of random exchanges of networks and draws.
    seed: of the permutations.

    Returns
    -------
    SciPy's result: `statistic`, `pvalue` (at least 1 / (permutations + 1)) and `null_distribution`.

    Raises
    ------
    ValueError: shapes disagree, or a covariance that is not positive definite.
    """
    parts = [whitened(part, mean, cov) for part in (samples, draws)]
    permutations = checks.whole("permutations", permutations, 1)
    distance = spatial.distance.squareform(spatial.distance.pdist(np.concatenate(parts)))
    first, second = (len(part) for part in parts)

    def squared(one: np.ndarray, two: np.ndarray, axis: int = -1) -> Any:
        """D^2 with `one` and `two` as the numbers of those in either group, one row a permutation."""
        weights = np.zeros((*one.shape[:-1], first + second))
        np.put_along_axis(weights, one.astype(int), 1 / first, axis=axis)
        np.put_along_axis(weights, two.astype(int), -1 / second, axis=axis)
        return -np.sum((weights @ distance) * weights, axis=axis)

    groups = (np.arange(first), np.arange(first, first + second))
    return stats.permutation_test(
        groups,
        squared,
        n_resamples=permutations,
        batch=_BATCH,
        alternative="greater",
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng(seed),
    )


def _length(points: int) -> float:
    """E|w| for w of N(0, I) in as many dimensions as there are points."""
    return sqrt(2) * exp(lgamma((points + 1) / 2) - lgamma(points / 2))


def _distance_to_law(white: np.ndarray) -> np.ndarray:
    """h(z) of every row: the mean of a noncentral chi distribution."""
    points = white.shape[1]
    return _length(points) * special.hyp1f1(-0.5, points / 2, -np.sum(white**2, axis=1) / 2)


def _mean_length(variances: np.ndarray) -> float:
    """E|v| for v of N(0, diag(variances)).

    From sqrt q = int_0^inf (1 - e^{-tq}) t^{-3/2} dt / (2 sqrt pi) with the Laplace transform of |v|^2; in log t the
    trapezoidal rule is exact to rounding.
    """
    step = 0.25
    log_t = np.arange(-80.0, 80.0, step)
    missing = -np.expm1(-0.5 * np.log1p(2 * np.exp(log_t)[:, None] * variances).sum(axis=1))
    return float(np.sum(missing * np.exp(-log_t / 2))) * step / (2 * sqrt(pi))
