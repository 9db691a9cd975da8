"""The expectations of `rndlib.theory.expectations` between many points, interpolated: cheaper for many terms.

The closed form of a mixture costs an arctangent for each pair of its terms. Between many points it is wanted for few
variances and covariances only, and polynomials give the others. With a the smallest noise of the mixture, s = q + a and
s' = q' + a let u = c / sqrt(s s') and y = sqrt(1 - u^2). Then these are even in u,

    sign:  E[phi phi] / u                     and  E[phi' phi'] sqrt(s s'),
    ramp:  (E[phi phi] - c / 4) / sqrt(s s')  and  (E[phi' phi'] - 1/4) / u,

and analytic in each of sqrt s, sqrt s' and y while its real part is positive and the others are positive numbers. For
with noises a + b and a + b' the closed form is made of powers of s + b and s' + b', which vanish for negative s or s'
only, and of D = s s' y^2 + s b' + s' b + b b', which for such s, s' and y is never a negative number, by its root and
by arctan(c / sqrt D), where c^2 + D = (s + b)(s' + b'). `rndlib.theory.interpolation` says how many nodes each
variable needs; that they grow towards an edge, as 1 / y at most, and as powers far away, costs a factor.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from jaxtyping import Float, Int

from rndlib.cores import parallel
from rndlib.theory.expectations import AT_ONCE, continued
from rndlib.theory.interpolation import Interval
from rndlib.theory.mixtures import Mixture

MOST_POWERS = 40
"""With more powers of y than this, which variances of a thousand need, rounding grows fast."""

MOST_NODES = 64
"""With more nodes of sqrt s than this, which variances that are ten thousand times the noise need, products of matrices
cost what the closed form does."""

# Variances less than this, over the smallest noise, are lost in it: E[phi phi] is then far less than sqrt(s s').
_LOST = 1e-2
_FEW = 16  # Rows of a tile.
_NEGLIGIBLE = 1e-16  # Of the largest: what is left out of the values at the nodes.

Tile = Float[np.ndarray, "rows cols"]
Vector = Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Interpolant:
    """Both functions between two sets of points.

    sign: the mixture's family. noise: a. roots: sqrt s of either set's points. rows, cols: what the values at the
    nodes of either are multiplied with, for E[phi phi] and for E[phi' phi']. y: the interval of y. values: at its nodes
    and those of the other two.
    """

    sign: bool
    noise: float
    roots: tuple[Float[np.ndarray, " n1"], Float[np.ndarray, " n2"]]
    rows: Float[np.ndarray, "2 nodes1 n1"]
    cols: Float[np.ndarray, "2 nodes2 n2"]
    y: Interval
    values: Float[np.ndarray, "2 nodes1 ys nodes2"]

    def strip(self, rows: slice | Int[np.ndarray, " rows"]) -> "Strip | None":
        """The functions for these points of the first set; None where that takes too many powers."""
        y = _interval(self.noise, self.roots[0][rows].max(), self.roots[1].max())
        if y.size > MOST_POWERS:
            return None
        # Small matrices, many at a time: BLAS would share a large product among threads, which spin afterwards.
        at_nodes = y.powers(self.y.basis(y.nodes).T @ self.values)
        powers = np.swapaxes(self.rows[:, :, rows], 1, 2) @ at_nodes.transpose(2, 0, 1, 3)
        return Strip(self.sign, self.roots[0][rows, None], self.roots[1], self.cols, y, powers)


@dataclass(frozen=True)
class Strip:
    """An interpolant for some points of the first set, as polynomials in y."""

    sign: bool
    roots1: Float[np.ndarray, "rows 1"]
    roots2: Float[np.ndarray, " n2"]
    cols: Float[np.ndarray, "2 nodes2 n2"]
    y: Interval
    powers: Float[np.ndarray, "powers 2 rows nodes2"]

    def expectations(self, cols: slice, c: Tile) -> tuple[Tile, Tile]:
        """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] between these and some points of the second set."""
        u = c / self.roots1
        u /= self.roots2[cols]
        x = u * u
        np.subtract(1, x, out=x)
        # Horner's rule for both at once; a coefficient is a matrix product, and again small ones, of some rows.
        high = _FEW if len(c) % _FEW == 0 else len(c)
        x = self.y.coordinates(np.sqrt(x, out=x)).reshape(-1, high, c.shape[1])
        at_cols = np.ascontiguousarray(self.cols[:, None, :, cols])
        powers = self.powers.reshape(len(self.powers), 2, -1, high, at_cols.shape[2])
        both = powers[-1] @ at_cols
        product = np.empty_like(both)
        for power in powers[-2::-1]:
            both *= x
            both += np.matmul(power, at_cols, out=product)
        value, slope = both.reshape(2, *c.shape)
        if self.sign:
            value *= u
            return value, slope
        slope *= u
        slope += 0.25
        value += np.multiply(0.25, c, out=u)
        return value, slope


def interpolant(
    mixture: Mixture, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"], most: int
) -> Interpolant | None:
    """Between points of variances `q1` and `q2`; None where the closed form serves as well.

    That is for mixtures of one term, for variances so small that the sums s lose them, and where too many nodes would
    be needed: of one variable, or more than `most` of all together.
    """
    noises = mixture.terms()[0]
    noise = float(noises.min())
    if noises.size == 1 or q1.max() * q2.max() < (_LOST * noise) ** 2:
        return None
    roots = np.sqrt(q1 + noise), np.sqrt(q2 + noise)
    y = _interval(noise, roots[0].max(), roots[1].max())
    intervals = [Interval(root.min(), root.max()) for root in roots]
    sizes = [min(interval.size, root.size) for interval, root in zip(intervals, roots, strict=True)]
    if max(sizes) > MOST_NODES or y.size * sizes[0] * sizes[1] > most:
        return None
    (nodes1, basis1), (nodes2, basis2) = map(_side, intervals, roots)
    at_once = max(1, AT_ONCE // (nodes1.size * nodes2.size * noises.size))
    parts = [y.nodes[start : start + at_once] for start in range(0, y.size, at_once)]
    values = np.concatenate(parallel(partial(_values, mixture, nodes1, nodes2), parts), axis=2)
    axes = _axes(values.reshape(-1, nodes2.size))
    sign = mixture.family == "sign"
    rows, cols = (
        np.stack([basis, basis / root] if sign else [basis * root, basis])
        for basis, root in zip((basis1, np.einsum("ij,jk->ik", axes, basis2)), roots, strict=True)
    )
    return Interpolant(sign, noise, roots, rows, cols, y, values @ axes.T)


def _values(
    mixture: Mixture, nodes1: Float[np.ndarray, " nodes1"], nodes2: Float[np.ndarray, " nodes2"], y: Vector
) -> Float[np.ndarray, "2 nodes1 n nodes2"]:
    """Both functions for all of y, sqrt s and sqrt s' with one another, from the closed form."""
    noise = mixture.terms()[0].min()
    # It is for matrices: the last two make the columns.
    u = np.sqrt(1 - y * y).repeat(nodes2.size)
    roots1, roots2 = nodes1[:, None], np.tile(nodes2, y.size)[None]
    q1, q2 = roots1**2 - noise, roots2**2 - noise
    scale = roots1 * roots2
    c = u * scale
    value, slope = continued(mixture, q1, q2, c, q1 * q2 - c**2)
    both = (value / u, slope * scale) if mixture.family == "sign" else (value / scale, slope / u)
    return np.stack([part.reshape(nodes1.size, y.size, nodes2.size) for part in both])


def _axes(values: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "rank n"]:
    """Orthonormal combinations of the nodes on which the values depend: far fewer than there are nodes.

    Few rows at a time, which LAPACK does not share among threads.
    """
    n = values.shape[1]
    while len(values) > 4 * n:
        pieces = np.array_split(values, len(values) // (2 * n))
        values = np.concatenate([np.linalg.qr(piece, mode="r") for piece in pieces])
    _, sizes, axes = np.linalg.svd(values, full_matrices=False)
    return axes[sizes > _NEGLIGIBLE * sizes[0]]


def _side(interval: Interval, roots: Vector) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes n"]]:
    """Nodes, and what values at them are multiplied with to give those at the roots; few roots are nodes themselves."""
    if interval.size >= roots.size:
        return roots, np.eye(roots.size)
    return interval.nodes, interval.basis(roots)


def _interval(noise: float, root1: float, root2: float) -> Interval:
    """Of y, up to these: c^2 is at most q q'."""
    share1, share2 = noise / root1**2, noise / root2**2
    # 1 - q q' / (s s'). Not too near 1, as the nodes have to stay below.
    return Interval(min(sqrt(share1 + (1 - share1) * share2), 0.99), 1.0)
