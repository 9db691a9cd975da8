"""The closed forms of `rndlib.theory.expectations` between many points, interpolated: cheaper for many terms.

The closed form of a mixture costs an arctangent for each pair of its terms. With a the smallest noise of the mixture,
s = q + a and s' = q' + a let u = c / sqrt(s s') and y = sqrt(1 - u^2). Then these are even in u,

    sign:  E[phi phi] / u                     and  E[phi' phi'] sqrt(s s'),
    ramp:  (E[phi phi] - c / 4) / sqrt(s s')  and  (E[phi' phi'] - 1/4) / u,

and analytic in each of sqrt s, sqrt s' and y while its real part is positive and the others are positive numbers. For
with noises a + b and a + b' the closed form consists of powers of s + b and s' + b', which vanish for negative s or s'
only, and of sqrt D and arctan(c / sqrt D), with D = s s' y^2 + s b' + s' b + b b', which for such s, s' and y is never
a negative number, and c^2 + D = (s + b)(s' + b'). `Interval` gives the number of nodes for each variable, up to a
factor, because the functions grow towards an edge, as 1 / y at most, and as powers far away.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from jaxtyping import Float

from rndlib.cores import parallel
from rndlib.theory.expectations import AT_ONCE, continued
from rndlib.theory.interpolation import Interval, Series, Tile, Vector, to_chebyshev
from rndlib.theory.mixtures import Mixture

MOST_NODES = 64
"""With more nodes of a variable than this, as for variances of a thousand times the noise, interpolation costs as much
as the closed form."""

# Variances below this multiple of the smallest noise are lost in it: E[phi phi] is then far below sqrt(s s').
_LOST = 1e-2
_NEGLIGIBLE = 1e-16  # Size, relative to the largest, of combinations of nodes that are left out.


@dataclass(frozen=True)
class Interpolant(Series):
    """A series in y, for points with the scales sqrt s. `sign`: whether the mixture is of this family."""

    sign: bool
    y: Interval

    def _variable(self, c: Tile, scale: Tile) -> Tile:
        u = c / scale
        return self.y.coordinates(np.sqrt(1 - u * u))

    def _finished(self, value: Tile, slope: Tile, c: Tile, scale: Tile) -> tuple[Tile, Tile]:
        u = c / scale
        return (value * u, slope / scale) if self.sign else (value * scale + c / 4, slope * u + 0.25)


def interpolant(
    mixture: Mixture, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"], most: int
) -> Interpolant | None:
    """Between points of variances `q1` and `q2`; None if the closed form is as good.

    It is for mixtures of one term, for variances so small that the sums s lose them, and if too many nodes would be
    needed: of one variable, or more than `most` of all together.
    """
    noises = mixture.terms()[0]
    noise = float(noises.min())
    if noises.size == 1 or q1.max() * q2.max() < (_LOST * noise) ** 2:
        return None
    roots = np.sqrt(q1 + noise), np.sqrt(q2 + noise)
    share1, share2 = (noise / float(root.max()) ** 2 for root in roots)
    # c^2 is at most q q', and y^2 at least 1 - q q' / (s s'). Not too near 1, because the nodes must stay below.
    y = Interval(min(sqrt(share1 + (1 - share1) * share2), 0.99), 1.0)
    intervals = [Interval(root.min(), root.max()) for root in roots]
    sizes = [min(interval.size, root.size) for interval, root in zip(intervals, roots, strict=True)]
    if max(*sizes, y.size) > MOST_NODES or y.size * sizes[0] * sizes[1] > most:
        return None
    (nodes1, rows), (nodes2, basis2) = map(_side, intervals, roots)
    at_once = max(1, AT_ONCE // (nodes1.size * nodes2.size * noises.size))
    parts = [y.nodes[start : start + at_once] for start in range(0, y.size, at_once)]
    values = np.concatenate(parallel(partial(_values, mixture, nodes1, nodes2), parts), axis=2)
    axes = _axes(values.reshape(-1, nodes2.size))
    coefficients = np.tensordot(to_chebyshev(y.size), values @ axes.T, (1, 2))
    cols = np.einsum("ij,jk->ik", axes, basis2)
    return Interpolant(roots, rows, cols, coefficients, mixture.family == "sign", y)


def _values(
    mixture: Mixture, nodes1: Float[np.ndarray, " nodes1"], nodes2: Float[np.ndarray, " nodes2"], y: Vector
) -> Float[np.ndarray, "2 nodes1 n nodes2"]:
    """Both functions for all combinations of y, sqrt s and sqrt s', from the closed form."""
    noise = mixture.terms()[0].min()
    # The closed form takes matrices: y and sqrt s' make the columns.
    u = np.sqrt(1 - y * y).repeat(nodes2.size)
    roots1, roots2 = nodes1[:, None], np.tile(nodes2, y.size)[None]
    q1, q2 = roots1**2 - noise, roots2**2 - noise
    scale = roots1 * roots2
    c = u * scale
    value, slope = continued(mixture, q1, q2, c, q1 * q2 - c**2)
    both = (value / u, slope * scale) if mixture.family == "sign" else (value / scale, slope / u)
    return np.stack([part.reshape(nodes1.size, y.size, nodes2.size) for part in both])


def _axes(values: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "rank n"]:
    """Orthonormal combinations of the nodes on which the values depend: far fewer than there are nodes."""
    n = values.shape[1]
    while len(values) > 4 * n:  # few rows at a time, which LAPACK does not divide among threads
        pieces = np.array_split(values, len(values) // (2 * n))
        values = np.concatenate([np.linalg.qr(piece, mode="r") for piece in pieces])
    _, sizes, axes = np.linalg.svd(values, full_matrices=False)
    return axes[sizes > _NEGLIGIBLE * sizes[0]]


def _side(interval: Interval, roots: Vector) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes n"]]:
    """Nodes, and the weights of their values at the roots; a few roots are themselves the nodes."""
    if interval.size >= roots.size:
        return roots, np.eye(roots.size)
    return interval.nodes, interval.basis(roots)
