"""E[phi(u) phi(v)] and E[phi'(u) phi'(v)] between two sets of points, from their variances and covariances.

Let (u, v) ~ N(0, [[q, c], [c, q']]). Four activations have closed forms. With P(0) = 1/4 + arctan(c / sqrt D) / 2 pi,
an orthant probability (Sheppard, 1899), where D = (q + a)(q' + a) - c^2 for a noise variance a,

    erf, a = 1/2:    E[phi phi]   = 2/pi arctan(c / sqrt D)                                       (Williams, 1997)
                     E[phi' phi'] = 2/pi / sqrt D
    gelu, a = 1:     E[phi phi]   = c P + (q q' - c^2 + c^2 (a/(q + a) + a/(q' + a))) / (2 pi sqrt D)
                     E[phi' phi'] = P + c (a/(q + a) + a/(q' + a) + a^2 / D) / (2 pi sqrt D)
    relu, a = 0:     E[phi phi]   = c P + sqrt D / 2 pi,    E[phi' phi'] = P                  (Cho and Saul, 2009)

and leaky_relu is a linear function plus relu. The others are found at a few deviations and angles
(`rndlib.theory.quadrature`) and interpolated by Chebyshev polynomials: in the angle of u and v, in which they are
smooth even if phi has a kink, and in both deviations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from rndlib.activations import ACTIVATIONS, Activation
from rndlib.theory.quadrature import by_angle, refusal

# float64 gives the determinant q q' - c^2 with an error of a few times eps q q'. It counts as zero up to this multiple,
# so that a repeated point has the kernel of the point with itself although c and q were summed in different orders.
# This matters for relu only, which takes an angle of two points below 6e-8 as 0.
_COLLINEAR = 16 * np.finfo(float).eps
_ZERO = 1e-15  # Smaller squares, relative to the largest, are rounding errors.
_ANGLES, _DEVIATIONS = (32, 64, 128, 256), (24, 48, 96)  # Chebyshev nodes to try

Vector = Float[np.ndarray, " _"]
Tile = Float[np.ndarray, "rows cols"]
Side = Float[np.ndarray, "#rows #cols"]
Both = tuple[Tile, Tile]
Coefficients = Float[np.ndarray, "terms 2 nodes1 nodes2"]
Form = Callable[[Side, Side, Tile], Both]


@dataclass(frozen=True)
class Closed:
    """A closed form of both expectations between two sets of points."""

    form: Form
    q1: Float[np.ndarray, " n1"]
    q2: Float[np.ndarray, " n2"]

    def __call__(self, c: Tile, rows: slice, cols: slice) -> Both:
        """The expectations for covariances `c`, of a slice of the first set and a slice of the second."""
        return self.form(self.q1[rows, None], self.q2[None, cols], c)

    def alone(self) -> tuple[Vector, Vector]:
        """Those of each point with itself, where both sets are the same."""
        value, slope = self.form(self.q1[None], self.q1[None], self.q1[None])
        return value[0], slope[0]


@dataclass(frozen=True)
class Table:
    """The same as polynomials in the angle. Being smooth, they are nearly the same for nearly repeated points.

    With m = E[phi'(u)], the expectations are m m' c and m m', the part of phi that is linear, and a rest. `parity` is
    that of the rest about the right angle, where phi less its linear part is even (0, as of silu) or odd (1, as tanh).
    The rest of the slopes then has the other one, and half of the polynomials vanish.
    """

    s1: Float[np.ndarray, " n1"]
    s2: Float[np.ndarray, " n2"]
    rows: Float[np.ndarray, "nodes1 n1"]  # weights of the nodes' values in those at each point of the first set
    means: Float[np.ndarray, "nodes1 rank"]  # m m'
    coefficients: Float[np.ndarray, "terms 2 nodes1 rank"]  # of Chebyshev's polynomials that do not vanish
    cols: Float[np.ndarray, "rank n2"]
    parity: int | None

    def __call__(self, c: Tile, rows: slice, cols: slice) -> Both:
        scale = self.s1[rows, None] * self.s2[None, cols]
        # In float64, c resolves an angle a to about 1e-15 / sin a.
        x = 2 / np.pi * np.arctan2(np.sqrt(np.maximum((scale - c) * (scale + c), 0)), c) - 1
        y = x if self.parity is None else 2 * x * x - 1  # T_2n(x) = T_n(y)
        coefficients, at_cols = self.rows[:, rows].T @ self.coefficients, np.ascontiguousarray(self.cols[:, cols])
        # Clenshaw's recursion for both at once.
        twice = 2 * y
        above, here, product = np.zeros((3, 2, *c.shape))
        for coefficient in coefficients[:0:-1]:
            np.subtract(np.matmul(coefficient, at_cols, out=product), above, out=above)
            above += np.multiply(twice, here, out=product)
            above, here = here, above
        found = np.multiply(y, here, out=product)
        found -= above
        found += np.matmul(coefficients[0], at_cols, out=above)
        if self.parity is not None:  # T_2n+1(x) = x (T_n(y) + (y - 1) U_n-1(y))
            odd = 1 - self.parity
            found[odd] += (y - 1) * here[odd]
            found[odd] *= x
        means = (self.rows[:, rows].T @ self.means) @ at_cols
        found[1] += means
        means *= c
        found[0] += means
        return found[0], found[1]

    def alone(self) -> tuple[Vector, Vector]:
        # T_n(-1) = (-1)^n, and T_n(1) = 1.
        if self.parity is None:
            signs = np.repeat((-1.0) ** np.arange(len(self.coefficients))[:, None], 2, axis=1)
        else:
            signs = np.broadcast_to((-1.0) ** np.array([self.parity, 1 - self.parity]), self.coefficients.shape[:2])
        at_zero = np.einsum("ke,kenr->enr", signs, self.coefficients)
        value, slope, means = (np.sum(self.rows * (each @ self.cols), axis=0) for each in (*at_zero, self.means))
        value, slope = value + means * self.s1**2, slope + means
        return np.where(value > _ZERO * value.max(), value, 0), slope


Between = Closed | Table


def between(phi: Activation, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"]) -> Between:
    """The expectations between points of variances `q1` and points of variances `q2`.

    Raises
    ------
    ValueError: phi has no closed form and is not smooth away from 0, or varies too fast on the scale of the variances.
    """
    if ACTIVATIONS.get(phi.name) == phi and phi.name in _CLOSED_FORMS:
        return Closed(_CLOSED_FORMS[phi.name], q1, q2)
    s1, s2 = np.sqrt(q1), np.sqrt(q2)
    for size in _DEVIATIONS:
        (nodes1, rows), (nodes2, cols) = _nodes(s1, size), _nodes(s2, size)
        at, accuracy = by_angle(phi, nodes1, nodes2)
        coefficients = _in_angle(at, accuracy)
        if coefficients is None:
            break
        if _is_known(nodes1, s1, coefficients, 2, accuracy) and _is_known(nodes2, s2, coefficients, 3, accuracy):
            means, coefficients, parity = _halved(coefficients, np.outer(nodes1, nodes2), accuracy)
            coefficients, means, cols = _compressed(coefficients, means, cols, accuracy)
            return Table(s1, s2, rows, means, coefficients, cols, parity)
    raise refusal(phi, float(max(s1.max(), s2.max())))


def _nodes(s: Vector, size: int) -> tuple[Vector, Float[np.ndarray, "nodes n"]]:
    """Nodes between the extremes of `s`, and the weights of their values at each s; a few s are their own nodes."""
    distinct = np.unique(s)
    if distinct.size <= size:
        return distinct, (distinct[:, None] == s).astype(float)
    # The expectations are analytic where s has a positive real part, and w takes this half-plane to the unit disc.
    low, high = float(distinct[0]), float(distinct[-1])
    middle = max(np.sqrt(low * high), high / 2)
    first, last, w = ((at - middle) / (at + middle) for at in (low, high, s))
    nodes = first + (last - first) * (1 + _chebyshev_points(size)) / 2
    polynomials = chebyshev.chebvander(2 * (w - first) / (last - first) - 1, size - 1)
    return middle * (1 + nodes) / (1 - nodes), (polynomials @ _to_chebyshev(size)).T


def _in_angle(at: Callable[[Vector], Float[np.ndarray, "2 angles n1 n2"]], accuracy: float) -> Coefficients | None:
    """Coefficients of Chebyshev's polynomials in the angle; None if no number of them is enough."""
    for count in _ANGLES:
        values = at(np.pi / 2 * (1 + _chebyshev_points(count)))
        coefficients = np.tensordot(_to_chebyshev(count), values, (1, 1))
        if _converged(coefficients, accuracy):
            sizes = np.abs(coefficients).max((2, 3))
            kept = (sizes > accuracy / 100 * sizes.max(0)).any(1)
            return coefficients[: max(np.flatnonzero(kept), default=0) + 1]
    return None


def _is_known(nodes: Vector, s: Vector, values: Float[np.ndarray, "..."], axis: int, accuracy: float) -> bool:
    """Whether values at `nodes`, along `axis`, tell those at every `s`."""
    if nodes.size == np.unique(s).size:
        return True
    return _converged(np.tensordot(_to_chebyshev(nodes.size), values, (1, axis)).swapaxes(1, 2), 10 * accuracy)


def _converged(coefficients: Float[np.ndarray, "terms 2 ..."], accuracy: float) -> bool:
    """Whether the last coefficients of a Chebyshev series are negligible, for both expectations."""
    sizes = np.abs(coefficients).reshape(*coefficients.shape[:2], -1).max(2)
    return bool((sizes[-3:] <= accuracy * sizes.max(0)).all())


def _halved(
    coefficients: Coefficients, scale: Float[np.ndarray, "nodes1 nodes2"], accuracy: float
) -> tuple[Float[np.ndarray, "nodes1 nodes2"], Float[np.ndarray, "half 2 nodes1 nodes2"], int | None]:
    """m m' and, of the rest, the polynomials that do not vanish and their parity; 0, all and None if none vanish."""
    coefficients = np.concatenate([coefficients, np.zeros_like(coefficients[: len(coefficients) % 2])])
    count = len(coefficients)
    means = np.tensordot(np.cos(np.pi / 2 * np.arange(count)), coefficients[:, 1], 1)  # at the right angle
    cosine = _to_chebyshev(count) @ np.cos(np.pi / 2 * (1 + _chebyshev_points(count)))
    rest = coefficients.copy()
    rest[:, 0] -= np.multiply.outer(cosine, means * scale)
    rest[0, 1] -= means
    negligible = accuracy * np.abs(coefficients).max((0, 2, 3))
    for parity in (0, 1):
        kept, others = (np.stack([rest[p::2, 0], rest[1 - p :: 2, 1]], axis=1) for p in (parity, 1 - parity))
        if (np.abs(others).max((0, 2, 3)) <= negligible).all():
            return means, kept, parity
    return np.zeros_like(means), coefficients, None


def _compressed(
    coefficients: Coefficients,
    means: Float[np.ndarray, "nodes1 nodes2"],
    cols: Float[np.ndarray, "nodes2 n2"],
    accuracy: float,
) -> tuple[Float[np.ndarray, "terms 2 nodes1 rank"], Float[np.ndarray, "nodes1 rank"], Float[np.ndarray, "rank n2"]]:
    """The same with combinations of the second set's nodes, of which far fewer matter than there are nodes."""
    triangle = np.linalg.qr(np.vstack([coefficients.reshape(-1, len(cols)), means]), mode="r")
    _, sizes, axes = np.linalg.svd(triangle)
    axes = axes[: np.count_nonzero(sizes > accuracy / 100 * sizes[0])]
    return coefficients @ axes.T, means @ axes.T, axes @ cols


def _chebyshev_points(n: int) -> Vector:
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


@cache
def _to_chebyshev(n: int) -> Float[np.ndarray, "n n"]:
    """From values at Chebyshev points to coefficients of Chebyshev's polynomials."""
    matrix = chebyshev.chebvander(_chebyshev_points(n), n - 1).T * (2 / n)
    matrix[0] /= 2
    return matrix


# D is at least what the noise makes of it. At large variances rounding leaves less.


def _erf(q1: Side, q2: Side, c: Tile) -> Both:
    slope = 1 / np.sqrt(np.maximum((q1 + 0.5) * (q2 + 0.5) - c * c, 0.5 * (q1 + q2 + 0.5)))
    return 2 / np.pi * np.arctan(c * slope), 2 / np.pi * slope


def _gelu(q1: Side, q2: Side, c: Tile) -> Both:
    least = q1 + q2 + 1
    D = np.maximum((q1 + 1) * (q2 + 1) - c * c, least)
    root = np.sqrt(D)
    P = 0.25 + np.arctan(c / root) / (2 * np.pi)
    root *= 2 * np.pi
    share = 1 / (q1 + 1) + 1 / (q2 + 1)
    return c * P + (D - least + c * c * share) / root, P + c * (share + 1 / D) / root


def _arc_cosine(below: float, q1: Side, q2: Side, c: Tile) -> Both:
    """Of a ramp with a slope of `below` for negative arguments."""
    scale = q1 * q2
    det = scale - c * c
    det[det <= _COLLINEAR * scale] = 0
    root = np.sqrt(det)
    P = 0.25 + np.arctan2(c, root) / (2 * np.pi)
    kink = (1 - below) ** 2
    return below * c + kink * (c * P + root / (2 * np.pi)), below + kink * P


_CLOSED_FORMS: dict[str, Form] = {
    "erf": _erf,
    "gelu": _gelu,
    "relu": partial(_arc_cosine, 0.0),
    "leaky_relu": partial(_arc_cosine, 0.01),
}
