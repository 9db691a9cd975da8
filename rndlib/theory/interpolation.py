"""Gaussian expectations between many points from those between few: polynomials through Chebyshev nodes.

An expectation depends on the scales of both points and on one variable of their covariance. It is interpolated in all
three, with as many nodes as its analyticity requires.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, isinf, log, sqrt

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import chebyshev

ACCURACY = 1e-14
"""The error of an `Interval`'s polynomials relative to the function, up to a factor: about rounding."""

_FEW = 16  # Rows of a matrix product. BLAS would divide larger ones among threads, which spin afterwards.

Tile = Float[np.ndarray, "rows cols"]
Vector = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Series:
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] between two sets of points, as polynomials in the angle of u and v."""

    scales: tuple[Float[np.ndarray, " n1"], Float[np.ndarray, " n2"]]  # of the points, here standard deviations
    rows: Float[np.ndarray, "nodes1 n1"]  # weights of the values at the nodes of the first scale, for each point
    cols: Float[np.ndarray, "nodes2 n2"]  # the same for the second
    coefficients: Float[np.ndarray, "terms 2 nodes1 nodes2"]  # of Chebyshev's polynomials, at all pairs of nodes

    def strip(self, rows: slice | Int[np.ndarray, " rows"]) -> Callable[[slice, Tile], tuple[Tile, Tile]]:
        """Both expectations of some points of the first set, as a function of a slice of the second and covariances."""
        coefficients = np.ascontiguousarray(self.rows[:, rows].T) @ self.coefficients
        return partial(self._expectations, self.scales[0][rows, None], coefficients)

    def _expectations(
        self,
        scale1: Float[np.ndarray, "rows 1"],
        coefficients: Float[np.ndarray, "terms 2 rows nodes2"],
        cols: slice,
        c: Tile,
    ) -> tuple[Tile, Tile]:
        scale = scale1 * self.scales[1][cols]
        high = _FEW if len(c) % _FEW == 0 else len(c)
        x = self._variable(c, scale).reshape(-1, high, c.shape[1])
        coefficients = coefficients.reshape(len(coefficients), 2, -1, high, coefficients.shape[-1])
        at_cols = np.ascontiguousarray(self.cols[:, cols])
        # Clenshaw's recursion for both at once.
        twice = 2 * x
        above, here, product = np.zeros((3, 2, *x.shape))
        for coefficient in coefficients[:0:-1]:
            np.subtract(np.matmul(coefficient, at_cols, out=product), above, out=above)
            above += np.multiply(twice, here, out=product)
            above, here = here, above
        here *= x
        here += np.matmul(coefficients[0], at_cols, out=product)
        here -= above
        value, slope = here.reshape(2, *c.shape)
        return self._finished(value, slope, c, scale)

    def _variable(self, c: Tile, scale: Tile) -> Tile:
        """The polynomials' variable at covariances `c`, from -1 to 1."""
        # In float64, c resolves an angle a to about 1e-15 / sin a.
        return 2 / np.pi * np.arctan2(np.sqrt(np.maximum((scale - c) * (scale + c), 0)), c) - 1

    def _finished(self, value: Tile, slope: Tile, c: Tile, scale: Tile) -> tuple[Tile, Tile]:
        """The expectations, from the polynomials' values."""
        return value, slope


@dataclass(frozen=True)
class Interval:
    """`lo` to `hi`, positive numbers in ascending order, for functions analytic in the right half-plane.

    With m = sqrt(lo hi), w = (v - m) / (v + m) takes the half-plane Re v > 0 to the unit disc, and the interval to
    -r .. r. A function that is analytic and bounded in the half-plane is approximated by polynomials in x = w / r, from
    its values at n Chebyshev nodes, with an error that falls as rho^-n, rho = (1 + sqrt(1 - r^2)) / r: the largest
    ellipse with foci -r and r in the disc touches it at -1 and 1 (Trefethen, 2013, "Approximation Theory and
    Approximation Practice", theorem 8.2). For 1e-14 that takes 15 nodes if hi = 2 lo, and 40 if hi = 40 lo.
    """

    lo: float
    hi: float

    @property
    def size(self) -> int:
        """The number of nodes."""
        r = self._radius
        return 1 + ceil(log(1 / ACCURACY) / log((1 + sqrt(1 - r * r)) / r)) if r < 1 else 2**31

    @property
    def nodes(self) -> Vector:
        """The points at which a function must be known, `(size,)`, from `hi` down to `lo`."""
        w = self._radius * chebyshev_points(self.size)
        return self._centre * (1 + w) / (1 - w)

    def coordinates(self, v: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """x at each `v`."""
        return (v - self._centre) / ((v + self._centre) * self._radius)

    def basis(self, v: Vector) -> Float[np.ndarray, "{self.size} n"]:
        """The weight of each node's value in the value at each `v`."""
        at_v = chebyshev.chebvander(self.coordinates(v), self.size - 1)
        # Without BLAS, for the reason given at `_FEW`.
        return np.einsum("kj,ik->ji", to_chebyshev(self.size), at_v)

    @property
    def _centre(self) -> float:
        return sqrt(self.lo) * sqrt(self.hi)

    @property
    def _radius(self) -> float:
        """At least 1e-3, because `lo` and `hi` may be equal."""
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
