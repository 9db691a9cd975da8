"""Products of derivatives that are kept in factors, for arrays of any library.

A matrix of weights that is applied at S positions of a point, as a convolution is at every pixel, has the derivative
A_i' D_i at point i: A_i (S, fan-in) is what the weights read, and D_i (S, fan-out) the derivative of an output with
respect to what they write. Its product with the derivative at point j is the sum of (A_i A_j') * (D_i D_j') over all
pairs of positions. That needs none of the fan-in times fan-out numbers of a derivative.
"""

from collections.abc import Collection
from math import isqrt, prod
from typing import Any

Factors = tuple[Any, Any]
"""A (N, S, fan-in) and D (N, outputs, S, fan-out) of one tensor of weights; None and A' D (N, outputs, 1, size) where
that is formed."""

Sizes = tuple[int, int]
"""The numbers in the factors of one point, and the rows (outputs times positions) of its largest D."""


def shorter(a: Any, d: Any) -> Factors:
    """The factors themselves, or A' D where a product of two takes fewer operations."""
    n, positions, fan_in = a.shape
    outputs, fan_out = d.shape[1], d.shape[3]
    if positions**2 * (fan_in + fan_out) < fan_in * fan_out:
        return a, d
    return formed(a.swapaxes(1, 2)[:, None] @ d, n, outputs)


def formed(derivatives: Any, n: int, outputs: int) -> Factors:
    """Derivatives of each output at N points, in one array of any shape, as factors."""
    return None, derivatives.reshape(n, outputs, 1, -1)


def product(left: Factors, right: Factors) -> Any:
    """One tensor's part of J J' between two sets of points, (N, outputs, M, outputs)."""
    (a, d), (b, e) = left, right
    pairs = _pairs(d, e)
    if a is not None:
        pairs = pairs * _pairs(a[:, None], b[:, None])
    return pairs.sum((2, 5)) if pairs.shape[2] > 1 else pairs[:, :, 0, :, :, 0]


def _pairs(d: Any, e: Any) -> Any:
    """All scalar products, (N, outputs, S, M, outputs, S)."""
    return (d.reshape(-1, d.shape[3]) @ e.reshape(-1, e.shape[3]).T).reshape(*d.shape[:3], *e.shape[:3])


def sizes(one: Collection[Factors]) -> Sizes:
    """Those of the factors of one point, or of what has their shapes."""
    numbers = sum(prod(factor.shape) for part in one for factor in part if factor is not None)
    return numbers, max(prod(d.shape[:3]) for _, d in one)


def least(one: Sizes) -> int:
    """The numbers that two points need in `at_once`."""
    numbers, rows = one
    return 2 * max(numbers, rows**2)


def at_once(one: Sizes, most: int) -> int:
    """Of how many points two sets of factors hold at most so many numbers, and the pairs of one tensor as many."""
    numbers, rows = one
    return min(most // (2 * numbers), isqrt(most // 2) // rows)
