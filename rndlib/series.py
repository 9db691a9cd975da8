"""The expectations of `rndlib.expectations` as power series in the covariance: cheaper for mixtures of many terms.

Between two sets of points the closed form of a mixture costs an arctangent for each pair of its terms and each pair of
points. Expanded in c, the sums over both sides come apart. With z = c^2 / (q q'), s = q + a and a sum over the mixture,

    sign:  E[phi phi] = c S,                 E[phi' phi'] = T,           e_j = 2 j + 1,
           p_j(q) = sqrt(C_j) sum_a w_a s^{-1/2} (q / s)^j
    ramp:  E[phi phi] = g g' + c/4 + c^2 S,  E[phi' phi'] = 1/4 + c T,   e_j = 2 j + 2,
           p_j(q) = sqrt(C_j) sum_a w_a s^{-1/2} (q / s)^j (1 + (2 j + 1) a / s),
           g(q) = q / sqrt(2 pi) sum_a w_a s^{-1/2}
    S = sum_j p_j(q) p_j(q') z^j,            T = sum_j e_j p_j(q) p_j(q') z^j,

where C_j is 2/pi (2j)! / (4^j j!^2 (2j+1)), as in the arcsine, or ((2j-1)!!)^2 / (2 pi (2j+2)!). This is Mehler's
formula, with the Hermite coefficients of phi in closed form. For c > 0 the terms of c S, c^2 S and c T are positive
and at given z grow with q and q', so what a truncation leaves out is largest where q, q' and z are.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from jaxtyping import Float

from rndlib.activations import Activation

TRUNCATION = 1e-15
"""What the terms left out may amount to, relative to c E[phi' phi'] at the largest variances of both sides. It is as
little as rounding: tiles are cut at different terms, and a kernel matrix may be singular but for a trillionth."""

MOST_TERMS = 400
"""With more terms than this, which large variances need, the closed form is as cheap."""

_AT_ONCE = 64  # Points whose powers, of every term of the mixture, are in memory together.
_UNBOUNDED = 1e300  # An infinity would make NaN of a term that has underflown to 0.

Tile = Float[np.ndarray, "rows cols"]


@dataclass(frozen=True)
class Series:
    """The series of one layer between points of variances q `(n1,)` and q' `(n2,)`, both in ascending order.

    first: e_0. rows, cols: p_j(q) `(terms, n1)` and p_j(q') `(terms, n2)`. inverses: 1/q and 1/q', 0 for 0.
    sizes: g and g' of a ramp, which a sign has no use for. beyond: all terms after the last, over the last, at most.
    """

    first: int
    rows: Float[np.ndarray, "terms n1"]
    cols: Float[np.ndarray, "terms n2"]
    inverses: tuple[Float[np.ndarray, " n1"], Float[np.ndarray, " n2"]]
    sizes: tuple[Float[np.ndarray, " n1"], Float[np.ndarray, " n2"]]
    beyond: float

    def expectations(self, rows: slice, cols: slice, c: Tile) -> tuple[Tile, Tile] | None:
        """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] of a tile; None where that takes too many terms."""
        p, q = self.rows[:, rows], self.cols[:, cols]
        z = c**2
        z *= self.inverses[0][rows, None]
        z *= self.inverses[1][cols]
        terms = self._terms(p[:, -1] * q[:, -1], z.max())
        if terms is None:
            return None
        # Horner's rule for S and for D = dS/dz; T = e_0 S + 2 z D.
        S, D, product = p[terms - 1, :, None] * q[terms - 1], np.zeros_like(z), np.empty_like(z)
        for j in range(terms - 2, -1, -1):
            D *= z
            D += S
            S *= z
            S += np.multiply(p[j, :, None], q[j], out=product)
        D *= 2 * z
        T = self.first * S + D
        if self.first == 1:
            return c * S, T
        g, h = self.sizes[0][rows, None], self.sizes[1][cols]
        return g * h + c * (0.25 + c * S), 0.25 + c * T

    def _terms(self, products: Float[np.ndarray, " terms"], z: float) -> int | None:
        """How many terms a tile needs whose largest variances have these p_j(q) p_j(q'), with z up to `z`."""
        terms = products * (self.first + 2 * np.arange(len(products)))
        allowed = TRUNCATION * terms.sum()
        terms *= min(z, 1.0) ** np.arange(len(terms))
        left = np.append(np.cumsum(terms[::-1])[::-1], 0.0) + terms[-1] * self.beyond
        enough = np.flatnonzero(left <= allowed)
        return max(1, int(enough[0])) if enough.size else None


def has_series(activation: Activation) -> bool:
    """Whether the closed form has terms enough for the series to be cheaper."""
    return activation.mixture()[0].size > 1


def series(activation: Activation, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"]) -> Series:
    """The series between points of these variances, in ascending order."""
    noise = activation.mixture()[0]
    # Beyond the last, each term is less than this times the one before; the bracket is the ramp's.
    ratio = np.prod([q[-1] / (q[-1] + noise.min()) for q in (q1, q2)]) * (1 + 1 / (2 * MOST_TERMS))
    beyond = float(ratio / (1 - ratio)) if ratio < 1 else _UNBOUNDED
    first = 1 if activation.family == "sign" else 2
    last = _coefficients(activation, q1[-1:], MOST_TERMS) * _coefficients(activation, q2[-1:], MOST_TERMS)
    last = last[:, 0] * (first + 2 * np.arange(MOST_TERMS))
    enough = np.flatnonzero(last * beyond <= TRUNCATION / 2 * last.sum())
    terms = int(enough[0]) + 1 if enough.size else MOST_TERMS
    p1, p2 = (_coefficients(activation, q, terms) for q in (q1, q2))
    inverse1, inverse2 = (np.divide(1, q, out=np.zeros_like(q), where=q > 0) for q in (q1, q2))
    size1, size2 = (_size(activation, q) for q in (q1, q2))
    return Series(first, p1, p2, (inverse1, inverse2), (size1, size2), beyond)


def _coefficients(activation: Activation, q: Float[np.ndarray, " n"], terms: int) -> Float[np.ndarray, "{terms} n"]:
    """p_j(q)."""
    j = np.arange(terms)
    ramp = activation.family == "ramp"
    ratios = (2 * j + 1) ** 2 / ((2 * j + 3) * (2 * j + (4 if ramp else 2)))
    constants = np.cumprod(np.append(1 / (4 * pi) if ramp else 2 / pi, ratios[:-1]))[:, None]
    noise, weight = (a[:, None] for a in activation.mixture())
    p = np.empty((terms, q.size))
    for first in range(0, q.size, _AT_ONCE):
        here = q[first : first + _AT_ONCE, None, None]
        s = here + noise
        powers = np.empty((*s.shape[:2], terms))
        powers[..., :1], powers[..., 1:] = weight / np.sqrt(s), here / s
        np.cumprod(powers, axis=-1, out=powers)
        sums = powers.sum(axis=1)
        if ramp:
            sums += (2 * j + 1) * np.einsum("naj,na->nj", powers, (noise / s)[..., 0])
        p[:, first : first + _AT_ONCE] = sums.T
    p *= np.sqrt(constants)
    return p


def _size(activation: Activation, q: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    noise, weight = activation.mixture()
    return q / sqrt(2 * pi) * (weight / np.sqrt(q[:, None] + noise)).sum(1)
