"""Functions that are analytic in the right half-plane, by polynomials on an interval of the positive numbers.

For 0 < lo <= hi and m = sqrt(lo hi), w = (v - m) / (v + m) takes the half-plane Re v > 0 to the unit disc, and the
interval lo .. hi to -r .. r. What is analytic and bounded in the half-plane is then approximated by polynomials in
x = w / r, from its values at n Chebyshev nodes, with an error that falls as rho^-n, rho = (1 + sqrt(1 - r^2)) / r: the
largest ellipse with foci -r and r in the disc touches it at -1 and 1 (Trefethen, 2013, "Approximation Theory and
Approximation Practice", theorem 8.2). For 1e-14 that takes 15 nodes where hi = 2 lo, and 40 where hi = 40 lo.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, isinf, log, sqrt

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

ACCURACY = 1e-14
"""To which rho^-n is taken: as little as rounding."""

Vector = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Interval:
    """`lo` to `hi`, positive numbers in ascending order, for functions analytic in the right half-plane.

    >>> import numpy as np
    >>> from rndlib.theory.interpolation import Interval
    >>> interval = Interval(1.0, 3.0)
    >>> v = np.linspace(1, 3, 50)
    >>> bool(np.abs(np.log(interval.nodes) @ interval.basis(v) - np.log(v)).max() < 1e-14)
    True
    >>> interval.size
    18
    """

    lo: float
    hi: float

    @property
    def size(self) -> int:
        """How many nodes there are."""
        r = self._radius
        return 1 + ceil(log(1 / ACCURACY) / log((1 + sqrt(1 - r * r)) / r)) if r < 1 else 2**31

    @property
    def nodes(self) -> Vector:
        """Where a function has to be known, `(size,)`, from `hi` down to `lo`."""
        w = self._radius * chebyshev_points(self.size)
        return self._centre * (1 + w) / (1 - w)

    def coordinates(self, v: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """x at each `v`."""
        return (v - self._centre) / ((v + self._centre) * self._radius)

    def basis(self, v: Vector) -> Float[np.ndarray, "{self.size} n"]:
        """What each node's value has to be multiplied with, to give that at each `v`."""
        at_v = chebyshev.chebvander(self.coordinates(v), self.size - 1)
        # Not by BLAS: it would share so large a product among threads, which spin for a tenth of a second afterwards.
        return np.einsum("kj,ik->ji", to_chebyshev(self.size), at_v)

    def powers(self, values: Float[np.ndarray, "*more {self.size} n"]) -> Float[np.ndarray, "*more {self.size} n"]:
        """The coefficients of 1, x, x^2 .. from the values at the nodes.

        By way of Chebyshev's polynomials, whose coefficients fall as rho^-k while those of the powers in them grow as
        (1 + sqrt 2)^k: from the values at once, rounding would grow as the latter. For up to 40 nodes, where hi is
        40 lo, their product is at most 10; beyond it is soon a thousand.
        """
        return _to_powers(self.size) @ (to_chebyshev(self.size) @ values)

    @property
    def _centre(self) -> float:
        return sqrt(self.lo) * sqrt(self.hi)

    @property
    def _radius(self) -> float:
        """Not less than 1e-3: an interval may be a point."""
        root = sqrt(self.hi / self.lo)
        return 1.0 if isinf(root) else max((root - 1) / (root + 1), 1e-3)


def chebyshev_points(n: int) -> Vector:
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


@cache
def to_chebyshev(n: int) -> Float[np.ndarray, "n n"]:
    """From values at Chebyshev points to coefficients of Chebyshev's polynomials."""
    matrix = chebyshev.chebvander(chebyshev_points(n), n - 1).T * (2 / n)
    matrix[0] /= 2
    matrix.flags.writeable = False
    return matrix


@cache
def _to_powers(n: int) -> Float[np.ndarray, "n n"]:
    """From coefficients of Chebyshev's polynomials to those of 1, x, x^2 .."""
    matrix = np.zeros((n, n))
    for k in range(n):
        matrix[: k + 1, k] = chebyshev.cheb2poly(np.eye(k + 1)[k])
    matrix.flags.writeable = False
    return matrix
