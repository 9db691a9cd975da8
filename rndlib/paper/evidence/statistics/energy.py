"""Energy distance of samples from a Gaussian law, jointly over test points (claim S1-energy).

For independent z, z' of one law and w, w' of another,

    D^2 = 2 E|z - w| - E|z - z'| - E|w - w'|

is zero only for equal laws, and D is a metric (Székely and Rizzo, 2013). Unlike `joint_law` it depends on every moment.
It is measured in coordinates in which w is N(0, I_p). E|z - w| over w then has a closed form, so samples are compared
with the law without drawing from it: D^2 is the mean over pairs of networks of

    k(z, z') = h(z) + h(z') - |z - z'| - h(0) sqrt 2,   h(z) = E|z - w|.

k is a positive definite kernel of mean zero under N(0, I_p): there are features phi with k(z, z') = phi(z)^T phi(z').
So D = |E phi(z)| is the length of a mean over networks, as the other distances are, and partners lower its noise.
"""

from math import exp, lgamma, pi, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg, spatial, special, stats

from rndlib import checks
from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.partners import Partners
from rndlib.paper.evidence.statistics.gaussian import whitened
from rndlib.paper.evidence.statistics.intervals import checked, root_finding, squared_length_by_products

Group = tuple[Float[np.ndarray, "_ _ points"], Float[np.ndarray, " _"]]  # places of each unit, and their weights


@check
def energy(
    samples: ArrayLike, mean: ArrayLike, cov: ArrayLike, wrong: ArrayLike, partners: Partners | None = None
) -> Finding:
    """Energy distance of the networks' joint law from N(mean, cov), as a multiple of that of N(mean, wrong).

    `samples` (networks, points) are the outputs of four or more independently seeded networks; `wrong` may be
    semidefinite. Since D is a metric, a value of at most 1/2 means that the networks are closer to the law than to the
    wrong one. The interval, judged by its upper end, is that of the length of a mean. `partners` lower its noise.
    """
    white = whitened(samples, mean, cov)
    networks, points = white.shape
    wrong = checks.array("wrong", wrong, points, points)
    if networks < 4:
        raise ValueError(f"samples has {networks} networks: give at least four")
    unit = gaussian_energy(cov, wrong)
    if unit <= 0:
        raise ValueError("wrong is the covariance of the law itself: give another one to tell it from")
    groups: list[Group] = [(white[:, None], np.ones(1))]
    if partners is not None:
        partners = checked(partners, white).each(
            lambda values: whitened(values.reshape(-1, points), mean, cov).reshape(values.shape)
        )
        share, heads = partners.share, partners.others.shape[1]
        groups = [
            (np.stack([white, partners.own], axis=1), np.array([1, -share])),
            (partners.others, np.full(heads, share / heads)),
        ]
    sizes = [len(places) for places, _ in groups]
    return root_finding(*squared_length_by_products(_products(groups), sizes), unit)


def _products(groups: list[Group]) -> Float[np.ndarray, "n n"]:
    """k between units, each a sum of phi over places with weights; the units of a group share these weights."""
    points = groups[0][0].shape[-1]
    places = np.concatenate([of_group.reshape(-1, points) for of_group, _ in groups])
    weights = np.concatenate([np.tile(weights, len(of_group)) for of_group, weights in groups])
    lengths = np.concatenate([np.full(len(of_group), len(weights)) for of_group, weights in groups])
    ends = np.cumsum(lengths)
    # h(0) is the mean of a chi distribution, h(z) that of a noncentral one.
    length = sqrt(2) * exp(lgamma((points + 1) / 2) - lgamma(points / 2))
    to_law = length * special.hyp1f1(-0.5, points / 2, -np.sum(places**2, axis=1) / 2)
    total, of_law = (np.add.reduceat(values, ends - lengths) for values in (weights, weights * to_law))
    between = np.stack(
        [
            np.add.reduceat(weights[i] @ spatial.distance.cdist(places[i], places) * weights, ends - lengths)
            for i in (slice(end - size, end) for end, size in zip(ends, lengths, strict=True))
        ]
    )
    return np.outer(of_law, total) + np.outer(total, of_law) - between - sqrt(2) * length * np.outer(total, total)


def gaussian_energy(cov: ArrayLike, other: ArrayLike) -> float:
    """D^2 between N(mean, cov) and N(mean, other), both `(points, points)`, in coordinates that whiten `cov`."""
    cov = checks.array("cov", cov, None, None)
    other = checks.array("other", other, *cov.shape)
    try:
        scales = np.clip(linalg.eigvalsh(other, cov), 0, None)
    except linalg.LinAlgError as error:
        raise ValueError("cov is not positive definite: leave out training points and near repeats") from error
    return 2 * _mean_length(1 + scales) - _mean_length(2 * scales) - _mean_length(np.full(len(scales), 2.0))


def _mean_length(variances: np.ndarray) -> float:
    """E|v| for v of N(0, diag(variances)).

    From sqrt q = int_0^inf (1 - e^{-tq}) t^{-3/2} dt / (2 sqrt pi) with the Laplace transform of |v|^2; in log t the
    trapezoidal rule is exact to rounding.
    """
    step = 0.25
    log_t = np.arange(-80.0, 80.0, step)
    missing = -np.expm1(-0.5 * np.log1p(2 * np.exp(log_t)[:, None] * variances).sum(axis=1))
    return float(np.sum(missing * np.exp(-log_t / 2))) * step / (2 * sqrt(pi))


def energy_test(
    samples: ArrayLike, draws: ArrayLike, mean: ArrayLike, cov: ArrayLike, permutations: int = 999, seed: int = 0
) -> Any:
    """Two-sample permutation test of equal laws, with D^2 as its statistic; SciPy's result.

    It compares `samples` (networks, points) of independently seeded networks with `draws` (draws, points) from the law,
    whose `mean` and `cov` only set the coordinates.
    """
    parts = [whitened(part, mean, cov) for part in (samples, draws)]
    distance = spatial.distance.squareform(spatial.distance.pdist(np.concatenate(parts)))
    first, second = (len(part) for part in parts)

    def squared(one: np.ndarray, two: np.ndarray, axis: int = -1) -> Any:
        """D^2 between the groups whose members have the numbers `one` and `two`, one row per permutation."""
        weights = np.zeros((*one.shape[:-1], first + second))
        np.put_along_axis(weights, one.astype(int), 1 / first, axis=axis)
        np.put_along_axis(weights, two.astype(int), -1 / second, axis=axis)
        return -np.sum((weights @ distance) * weights, axis=axis)

    return stats.permutation_test(
        (np.arange(first), np.arange(first, first + second)),
        squared,
        n_resamples=checks.whole("permutations", permutations, 1),
        batch=100,
        alternative="greater",
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng(seed),
    )
