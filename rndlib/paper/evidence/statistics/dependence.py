"""Dependence between the heads of one network (claim M1), and between samples drawn from them (claims S2 and S2-draws).

Networks are compared pairwise, by head 1 and by head 2. With A_ij the similarity of networks i and j in head 1, and
B_ij in head 2, each centred over networks,

    R^2 = <A, B> / <A, A>

is the square of a correlation between the heads: of their errors if the similarity is the product w_i . w_j, of the
squares and products of their errors if it is (w_i . w_j)^2, and the squared distance correlation of Székely, Rizzo and
Bakirov (2007) if it is -|w_i - w_j|. Only the last is zero if and only if the heads are independent. The w are whitened
errors, so every direction over the test points has the same weight.

Corollary 4.3 draws a head i ~ U[1, K] for every sample. Two samples are then the same with probability 1/K, so both
their correlation and their distance correlation are 1/K. Of S samples, S - K (1 - (1 - 1/K)^S) repeat another one on
average. Without replacement none does, but there are only K samples.
"""

from math import sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import spatial

from rndlib.paper.evidence.claims import Finding, check
from rndlib.paper.evidence.statistics.gaussian import centred, whitened
from rndlib.paper.evidence.statistics.intervals import STANDARD_ERRORS, root_finding
from rndlib.theory.laws import Gaussian

Between = Float[np.ndarray, "networks networks"]

_LIKENESS = {
    "errors": lambda white: white @ white.T,
    "squares": lambda white: (white @ white.T) ** 2,
    "distance": lambda white: -spatial.distance.cdist(white, white),
}


@check
def dependence(
    errors: np.ndarray,
    cov: np.ndarray,
    likeness: Literal["errors", "squares", "distance"] = "distance",
) -> Finding:
    """R between two heads of a network, averaged (in its square) over all pairs of heads, judged by its upper
    confidence limit.

    `errors` (networks, heads, points) are of independently seeded networks with two or more heads; `cov` (points,
    points) is the law's covariance of one head's error.

    Gaussian heads with correlation rho have R = rho for "errors" and rho^2 for "squares". R^2 is estimated without bias
    (Székely and Rizzo, 2014), so independent heads are at zero on average. The standard error is that of a U-statistic
    over pairs of networks, degenerate part included.
    """
    networks, heads, _ = np.shape(errors)
    if heads < 2 or networks < 4:
        raise ValueError(f"errors has {networks} networks of {heads} heads: give at least four of two heads")
    white = whitened(errors, centred(cov))
    total, squares = np.zeros((2, networks, networks))
    for head in range(heads):
        A = _centred_products(_LIKENESS[likeness](white[:, head]))
        total += A
        squares += A**2
    across = (total**2 - squares) / (heads * (heads - 1))  # The products of pairs of heads are the rest of the square.
    within = squares / heads
    square = float(across.sum() / within.sum())
    half_width = STANDARD_ERRORS * _error(across - square * within) / float(within.mean())
    return root_finding(square, half_width)


def _centred_products(A: Between) -> Between:
    """A, centred in place so that products of two such matrices are unbiased, with zeros on the diagonal."""
    n = len(A)
    np.fill_diagonal(A, 0)
    rows = A.sum(axis=0) / (n - 2)
    A += A.sum() / ((n - 1) * (n - 2)) - rows[:, None] - rows[None, :]
    np.fill_diagonal(A, 0)
    return A


def _error(terms: Between) -> float:
    """Standard error of a mean over pairs of independent networks, a U-statistic that may be degenerate.

    `terms` are centred at their mean and have zeros on the diagonal.
    """
    n = len(terms)
    noise = 2 * float(np.mean(terms**2)) / n**2
    # A network's row contains the noise of the other networks too, once more than it should be counted.
    linear = 4 * float(terms.mean(axis=1).var(ddof=1)) / n
    return sqrt(max(linear - noise, noise))


def mixed(
    errors: Float[np.ndarray, "networks heads points"], correlation: float
) -> Float[np.ndarray, "networks heads points"]:
    """The errors with a part of head 1 in every other head, as if output rows shared weights; variances are kept."""
    shared = errors.copy()
    shared[:, 1:] = correlation * errors[:, :1] + sqrt(1 - correlation**2) * errors[:, 1:]
    return shared


@check
def dependence_of_samples(samples: np.ndarray, cov: np.ndarray, heads: int) -> Finding:
    """Distance correlation of two samples from one fit, as a multiple of the 1/K of drawing with replacement.

    `samples` (fits, draws, points) are centred at their mean and from independently seeded fits of `heads` heads; `cov`
    (points, points) is the law's.
    """
    found = dependence(samples, cov)
    return Finding.upper(*(heads * (of or 0.0) for of in (found.estimate, *(found.interval or ()))))


def exact_draws(law: Gaussian, draws: int, seed: int = 0) -> Float[np.ndarray, "draws points"]:
    """Independent draws from a law, whose covariance may be singular, as it is at training points.

    Drawn by Cholesky, whose factor is unique, so that every machine draws the same. A ridge covers the rounding of the
    kernels and adds 3e-4 of the largest standard deviation.
    """
    if law.cov is None:
        raise ValueError("law has no covariance: ask for it with full_cov=True")
    ridge = 1e-7 * float(law.var.max()) * np.eye(len(law.mean))
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(law.mean, law.cov + ridge, draws, method="cholesky")


def with_replacement(functions: np.ndarray, draws: int, seed: int = 0) -> Float[np.ndarray, "fits draws points"]:
    """Samples as printed in Corollary 4.3: heads i ~ U[1, K] of each fit of `functions`, `(fits, heads, points)`."""
    fits, heads, _ = np.shape(functions)
    chosen = np.random.default_rng(seed).integers(heads, size=(fits, draws))
    return np.take_along_axis(functions, chosen[:, :, None], axis=1)


@check
def repeats(samples: np.ndarray) -> Finding:
    """Number of samples that repeat an earlier one, among `samples` `(points, draws)`."""
    found = float(np.shape(samples)[1] - len(np.unique(samples, axis=1).T))
    return Finding(found, estimate=found)
