"""Whether the heads of one body are independent (claim M1).

Two heads of many bodies are compared by how alike any two bodies are, once in head 1 and once in head 2. With A_ij the
likeness of the bodies i and j in head 1, B_ij that in head 2, each centred over bodies,

    R^2 = <A, B> / <A, A>

is the square of a correlation between the heads: of their errors where likeness is the product w_i . w_j; of the
squares and products of their errors where it is (w_i . w_j)^2; and the squared distance correlation of Székely, Rizzo
and Bakirov (2007) where it is -|w_i - w_j|. That one is zero for independent heads only. The first two see one kind
of dependence each, and say which. Errors are whitened by their law, so that every direction over the test points
weighs the same.
"""

from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import spatial, stats

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.pairs import error_over_pairs
from rndlib.evidence.statistics.whitening import whitened

Likeness = Literal["errors", "squares", "distance"]
Between = Float[np.ndarray, "bodies bodies"]


def dependence(errors: ArrayLike, cov: ArrayLike, likeness: Likeness = "distance", confidence: float = 0.95) -> Finding:
    """R between two heads of a body, averaged (in its square) over all pairs of heads.

    The estimate of R^2 is the unbiased one of Székely and Rizzo (2014), whose mean is zero for independent heads. Its
    interval counts bodies: the error is that of a U-statistic over pairs of bodies, degenerate part included.

    Parameters
    ----------
    errors: `(bodies, heads, points)`, errors of independently seeded bodies, two heads or more.
    cov: `(points, points)`, covariance of one head's error under the law, positive definite.
    likeness: "errors", "squares" or "distance".
    confidence: of each end of the interval, one-sided.

    Returns
    -------
    R: its interval, and the upper end as the value. Gaussian heads with correlation rho have R = rho for "errors" and
    rho^2 for "squares".

    Raises
    ------
    ValueError: shapes disagree, fewer than two heads or four bodies, or a covariance that is not positive definite.
    """
    errors = checks.array("errors", errors, None, None, None)
    bodies, heads, points = errors.shape
    checks.choice("likeness", likeness, _LIKENESS)
    confidence = checks.fraction("confidence", confidence)
    if heads < 2 or bodies < 4:
        raise ValueError(f"errors has {bodies} bodies of {heads} heads: give at least four bodies of two heads")

    white = whitened(errors.reshape(-1, points), np.zeros(points), cov).reshape(errors.shape)
    centred = [_centred(_LIKENESS[likeness](white[:, head])) for head in range(heads)]
    across = sum(A * B for A, B in combinations(centred, 2)) * (2 / (heads * (heads - 1)))
    within = sum(A * A for A in centred) / heads
    square = float(across.sum() / within.sum())
    reach = float(stats.norm.ppf(confidence)) * error_over_pairs(across - square * within) / float(within.mean())
    low, high = (sqrt(max(end, 0)) for end in (square - reach, square + reach))
    return Finding(high, (low, high), "dependence")


def mixed(
    errors: Float[np.ndarray, "bodies heads points"], correlation: float
) -> Float[np.ndarray, "bodies heads points"]:
    """The errors with part of head 1 in every other head, as rows of an output layer that share weights would have it.

    What comes out is again a set of heads of the same body, by way of one more, fixed output layer: its first row
    reads head 1, every other its own head and, with weight `correlation`, head 1. Variances stay as they are.
    """
    shared = errors.copy()
    shared[:, 1:] = correlation * errors[:, :1] + sqrt(1 - correlation**2) * errors[:, 1:]
    return shared


def _products(white: Float[np.ndarray, "bodies points"]) -> Between:
    return white @ white.T


def _squares(white: Float[np.ndarray, "bodies points"]) -> Between:
    return (white @ white.T) ** 2


def _distance(white: Float[np.ndarray, "bodies points"]) -> Between:
    return -spatial.distance.squareform(spatial.distance.pdist(white))


_LIKENESS = {"errors": _products, "squares": _squares, "distance": _distance}


def _centred(A: Between) -> Between:
    """Centring that leaves products of two such matrices unbiased, with zeros on the diagonal."""
    n = len(A)
    A = A.copy()
    np.fill_diagonal(A, 0)
    rows = A.sum(axis=0) / (n - 2)
    A += A.sum() / ((n - 1) * (n - 2)) - rows[:, None] - rows[None, :]
    np.fill_diagonal(A, 0)
    return A
