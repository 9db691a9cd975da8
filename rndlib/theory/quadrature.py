"""E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for a Gaussian pair and any activation, by quadrature.

Let u and v have standard deviations s and s' and an angle of theta, whose cosine is their correlation. In polar
coordinates of the plane u = s r cos t and v = s' r cos(t - theta), with the weight r exp(-r^2 / 2) / 2 pi. The plane is
cut at the four rays where u or v is 0, since phi may have a kink there. Between them the integrand is smooth, and
Gauss-Legendre rules in r and t converge fast. For one angle and all s and s' the integral is a product of matrices.

Between many points both expectations are interpolated by Chebyshev polynomials: in the angle, in which they are smooth
even if phi has a kink, and in s and s'. Each number of nodes is the first that suffices: the last refinement changes
the values at a sample of pairs by at most `ACCURACY`, relative to the largest expectation there. If no number does, phi
is not smooth away from 0 or varies too fast on the scale of s, and a ValueError says so.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev, legendre

from rndlib.activations import Activation
from rndlib.theory.interpolation import Series, Tile, Vector, chebyshev_points, to_chebyshev

ACCURACY = 1e-10
"""The error of the quadrature and of either interpolation, relative to the largest expectation."""

_RADIUS = 13.0  # There exp(-r^2 / 2) is 2e-37.
_RULES = (24, 32, 48, 64, 96, 128, 192)  # Nodes of an arc; the radius has half as many again.
_DEVIATIONS = (8, 12, 16, 24, 32, 48, 64)  # Nodes of s.
_ANGLES = (16, 24, 32, 48, 64, 96, 128)  # Nodes of theta.
_SAMPLED = (0.0, 0.01, 0.6, 1.7, 3.0)  # Angles at which the first two are tried.


def with_themselves(activation: Activation, q: Tile) -> tuple[Tile, Tile]:
    """E[phi(u)^2] and E[phi'(u)^2] for variances `q`, by an integral over the line."""
    s = np.sqrt(q.ravel())

    def integrals(nodes: int, s: Vector) -> Float[np.ndarray, "2 n"]:
        x, w = legendre.leggauss(2 * nodes)
        r, weight = _RADIUS / 2 * (x + 1), _RADIUS / 2 * w
        weight = weight * np.exp(-(r**2) / 2) / np.sqrt(2 * np.pi)
        both = activation.value_and_slope(s[:, None] * np.concatenate([-r, r]))
        return np.array([part**2 @ np.tile(weight, 2) for part in both])

    with np.errstate(all="ignore"):
        nodes = _enough(_RULES, lambda nodes: integrals(nodes, np.unique([s.min(), s.max()])), activation, q.ravel())
        value, slope = integrals(nodes, s).reshape(2, *q.shape)
    return value, slope


def between(activation: Activation, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"]) -> Series:
    """The expectations between points of variances `q1` and `q2`."""
    s1, s2 = np.sqrt(q1), np.sqrt(q2)
    largest = np.append(q1, q2)

    def by_rule(nodes: int) -> Float[np.ndarray, "2 angles n1 n2"]:
        ends1, ends2 = (np.unique([s.min(), s.max()]) for s in (s1, s2))
        return np.stack([at_angle(activation, ends1, ends2, theta, nodes) for theta in _SAMPLED], 1)

    def by_interpolation(size: int) -> Float[np.ndarray, "2 angles n1 n2"]:
        some = [s[np.linspace(0, s.size - 1, min(7, s.size)).astype(int)] for s in map(np.unique, (s1, s2))]
        (nodes1, rows), (nodes2, cols) = (_nodes(s, size, at) for s, at in zip((s1, s2), some, strict=True))
        return np.stack([rows.T @ at_angle(activation, nodes1, nodes2, t, nodes) @ cols for t in _SAMPLED], 1)

    with np.errstate(all="ignore"):
        nodes = _enough(_RULES, by_rule, activation, largest)
        size = _enough(_DEVIATIONS, by_interpolation, activation, largest)
        (nodes1, rows), (nodes2, cols) = (_nodes(s, size, s) for s in (s1, s2))
        for angles in _ANGLES:
            thetas = np.pi / 2 * (1 + chebyshev_points(angles))
            values = np.array([at_angle(activation, nodes1, nodes2, theta, nodes) for theta in thetas])
            coefficients = np.tensordot(to_chebyshev(angles), values, 1)
            sizes = np.abs(coefficients).max((2, 3))
            if (sizes[-3:] <= ACCURACY * sizes.max(0)).all():
                return Series((s1, s2), rows, cols, coefficients)
    raise _refusal(activation, largest)


def at_angle(
    activation: Activation, s1: Float[np.ndarray, " n1"], s2: Float[np.ndarray, " n2"], theta: float, nodes: int
) -> Float[np.ndarray, "2 n1 n2"]:
    """Both expectations for all pairs of standard deviations `s1` and `s2` at one angle `theta`."""
    u, v, weight = _rule(theta, nodes)
    value1, slope1 = activation.value_and_slope(s1[:, None] * u)
    value2, slope2 = activation.value_and_slope(s2[:, None] * v)
    return np.array([(value1 * weight) @ value2.T, (slope1 * weight) @ slope2.T])


def _rule(theta: float, nodes: int) -> tuple[Vector, Vector, Vector]:
    """u, v and weights of a rule in the plane for unit variables at an angle of `theta`."""
    x, w = legendre.leggauss(nodes)
    x_r, w_r = legendre.leggauss(nodes + nodes // 2)
    r = _RADIUS / 2 * (x_r + 1)
    weight_r = _RADIUS / 2 * w_r * r * np.exp(-(r**2) / 2) / (2 * np.pi)
    # Two arcs between rays, in angles from the first ray of each, to lose no digits. The other two are opposite.
    arcs = np.array([theta, np.pi - theta])[:, None]
    first, second = arcs / 2 * (x + 1)
    u = np.outer(r, np.sin(np.append(first, second + theta))).ravel()
    v = np.outer(r, np.sin(np.append(first - theta, second))).ravel()
    weight = np.outer(weight_r, arcs / 2 * w).ravel()
    felt = weight > 1e-25 * weight.max()
    u, v, weight = u[felt], v[felt], weight[felt]
    return np.append(u, -u), np.append(v, -v), np.append(weight, weight)


def _enough(
    sizes: Sequence[int], values: Callable[[int], Float[np.ndarray, "2 *shape"]], activation: Activation, q: Vector
) -> int:
    """The first of `sizes` whose `values` (of phi, of phi') are within `ACCURACY` of those of the one before."""
    before = None
    for size in sizes:
        here = values(size).reshape(2, -1)
        if before is not None and (np.abs(here - before).max(1) <= ACCURACY * np.abs(here).max(1)).all():
            return size
        before = here
    raise _refusal(activation, q)


def _refusal(activation: Activation, q: Vector) -> ValueError:
    return ValueError(
        f"activation {activation.name!r}: its kernel at variances up to {q.max():.3g} is not found to {ACCURACY:.0e} "
        "by quadrature: give a function that is smooth except at 0, or rescale X, sigma_w or sigma_b"
    )


def _nodes(
    s: Vector, size: int, at: Float[np.ndarray, " some"]
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes some"]]:
    """Nodes between the extremes of `s`, and their weights at each of `at`; a few s are themselves the nodes."""
    distinct = np.unique(s)
    if distinct.size <= size:
        return distinct, (distinct[:, None] == at).astype(float)
    low, high = distinct[0], distinct[-1]
    nodes = low + (high - low) * (1 + chebyshev_points(size)) / 2
    polynomials = chebyshev.chebvander(2 * (at - low) / (high - low) - 1, size - 1)
    return nodes, (polynomials @ to_chebyshev(size)).T
