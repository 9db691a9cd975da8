"""Energy distance of samples from a Gaussian law, jointly over test points (claim S1-energy).

For independent z, z' of one law and w, w' of another,

    D^2 = 2 E|z - w| - E|z - z'| - E|w - w'|

is zero only for equal laws, and D is a metric (Székely and Rizzo, 2013). Unlike `joint_law` it depends on every moment.
It is measured in coordinates in which w is N(0, I_p). E|z - w| over w then has a closed form, so samples are compared
with the law without drawing from it: D^2 is the mean over pairs of networks of

    k(z, z') = h(z) + h(z') - |z - z'| - h(0) sqrt 2,   h(z) = E|z - w|.

k is a positive definite kernel of mean zero under N(0, I_p): there are features phi with k(z, z') = phi(z)^T phi(z').
So D = |E phi(z)| is the norm of a mean over networks, as the other distances are, and control variates reduce its
Monte-Carlo error.
"""

from collections.abc import Sequence
from math import exp, lgamma, pi, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg, spatial, special

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.control_variates import Sample
from rndlib.paper.evidence.statistics.gaussian import whitened
from rndlib.paper.evidence.statistics.intervals import root_finding, squared_length
from rndlib.theory.laws import Gaussian


@check
def energy(samples: Any, law: Gaussian, wrong: Gaussian) -> Finding:
    """Energy distance of the networks' joint law from a Gaussian one, as a multiple of that of a wrong one.

    `samples` (networks, points) are the outputs of four or more independently seeded networks; the covariance of
    `wrong` may be semidefinite. Since D is a metric, a value of at most 1/2 means that the networks are closer to the
    law than to the wrong one. The interval, judged by its upper 95 % confidence limit, is that of the length of a mean.
    """
    sample = Sample.of(samples).each(lambda values: whitened(values, law))
    unit = gaussian_energy(law, wrong)
    if unit <= 0:
        raise ValueError("wrong is the covariance of the law itself: give another one to tell it from")
    groups = [(sample.values[:, None], np.ones(1))]  # places of each network, and their weights in its phi
    if sample.own is not None and sample.others is not None:
        heads = sample.others.shape[1]
        groups = [
            (np.stack([sample.values, sample.own], axis=1), np.array([1, -sample.share])),
            (sample.others, np.full(heads, sample.share / heads)),
        ]
    # Features of which these are the products: the eigenvectors, scaled.
    values, vectors = linalg.eigh(_products(groups))
    features = vectors * np.sqrt(np.clip(values, 0, None))
    return root_finding(*squared_length(np.split(features, [len(groups[0][0])])[: len(groups)]), unit)


def _products(groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> Float[np.ndarray, "n n"]:
    """k between networks, each a sum of phi over its places with weights; the networks of a group share these."""
    points = groups[0][0].shape[-1]
    places = np.concatenate([of_group.reshape(-1, points) for of_group, _ in groups])
    weights = np.concatenate([np.tile(weights, len(of_group)) for of_group, weights in groups])
    lengths = np.concatenate([np.full(len(of_group), len(weights)) for of_group, weights in groups])
    ends = np.cumsum(lengths)
    # h(0) is the mean of a chi distribution, h(z) that of a noncentral one.
    at_zero = sqrt(2) * exp(lgamma((points + 1) / 2) - lgamma(points / 2))
    to_law = at_zero * special.hyp1f1(-0.5, points / 2, -np.sum(places**2, axis=1) / 2)
    total, of_law = (np.add.reduceat(values, ends - lengths) for values in (weights, weights * to_law))
    between = np.stack(
        [
            np.add.reduceat(weights[i] @ spatial.distance.cdist(places[i], places) * weights, ends - lengths)
            for i in (slice(end - size, end) for end, size in zip(ends, lengths, strict=True))
        ]
    )
    return np.outer(of_law, total) + np.outer(total, of_law) - between - sqrt(2) * at_zero * np.outer(total, total)


def gaussian_energy(law: Gaussian, other: Gaussian) -> float:
    """D^2 between two Gaussian laws of the same mean, in coordinates that whiten the first."""
    if law.cov is None or other.cov is None:
        raise ValueError("law has no covariance: ask for it with full_cov=True")
    try:
        scales = np.clip(linalg.eigvalsh(other.cov, law.cov), 0, None)
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
