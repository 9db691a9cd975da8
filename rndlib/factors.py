"""Products of derivatives that are kept in factors, for arrays of any library.

A matrix of weights that is applied at S positions of an input, as a convolution is at every pixel, has at point i the
derivative A_i' D_i: A_i holds what the weights read, (S, fan-in), and D_i the derivatives of the output with respect
to what they write, (S, fan-out). Its product with the derivative at point j is the sum of (A_i A_j') * (D_i D_j') over
all pairs of positions, so the fan-in times fan-out numbers of the derivative itself need not be formed.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

Factors = tuple[Any, Any]
"""A (N, S, fan-in) and D (N, S, fan-out) of one tensor of weights; None and D (N, 1, size) where A' D is formed."""


def shorter(a: Any, d: Any) -> Factors:
    """The factors of A' D, or A' D itself where products of it take fewer operations."""
    (n, positions, fan_in), fan_out = a.shape, d.shape[2]
    if positions**2 * (fan_in + fan_out) < fan_in * fan_out:
        return a, d
    return formed(a.swapaxes(1, 2) @ d)


def formed(derivative: Any) -> Factors:
    """Derivatives at N points, (N, ...), as factors."""
    return None, derivative.reshape(len(derivative), 1, -1)


def product(left: Sequence[Factors], right: Sequence[Factors]) -> Any:
    """J J' between two sets of points, (N, M), with the same tensors in both."""
    total: Any = 0.0
    for (a, d), (b, e) in zip(left, right, strict=True):
        pairs = _pairs(d, e) if a is None else _pairs(d, e) * _pairs(a, b)
        total = total + pairs.sum((1, 3))
    return total


def _pairs(d: Any, e: Any) -> Any:
    (n, s, size), (m, t, _) = d.shape, e.shape
    return (d.reshape(n * s, size) @ e.reshape(m * t, size).T).reshape(n, s, m, t)


def at_once(one: Sequence[Factors], numbers: int) -> int:
    """How many points are taken at a time, with the factors of one of them given.

    Two sets of their factors, and the arrays that `product` makes of these, then have about so many `numbers`.
    """
    size = sum(prod(factor.shape) for part in one for factor in part if factor is not None)
    pairs = max(d.shape[0] * d.shape[1] for _, d in one)
    return max(1, min(numbers // (4 * size), int((numbers / 4) ** 0.5) // pairs))
