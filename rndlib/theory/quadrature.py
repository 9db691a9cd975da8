"""E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for a Gaussian pair and any activation, at given angles of u and v.

Let u and v have standard deviations s and s' and an angle theta, whose cosine is their correlation. In polar
coordinates of the plane u = s r cos t and v = s' r cos(t - theta), with the weight r exp(-r^2 / 2) / 2 pi. Over the
circle this is a correlation of two functions, so their Fourier coefficients are multiplied: with
phi(a cos t) = sum_n c_n(a) exp(int),

    E[phi(u) phi(v)] = sum_n cos(n theta) E_r[c_n(s r) c_n(s' r)],

and the same holds for phi'. A few radii and evenly spaced t, the same for all deviations and angles, suffice if phi is
smooth on the scale of s. A kink of phi at 0 is taken out, as kappa(u) = J_1 max(u, 0) + J_2 max(u, 0)^2 / 2 with the
jumps J_1 and J_2 of the slope and of the second derivative. Its coefficients are known, and E[kappa(u) kappa(v)], for
which the sum converges slowly, is a short integral over the arc where u and v are above 0.
"""

from collections.abc import Callable
from functools import cache
from math import pi

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre, polynomial

from rndlib.activations import NUMPY, Activation

_LEVELS = [(int(24 * 2 ** (level / 3)), 64 * 2**level) for level in range(9)]  # radii, and points of a half circle
_RADIUS = 9.5  # There exp(-r^2 / 2) is 3e-20.
_AT_ONCE = 2**19  # values of phi
_SMALL = 0.1  # A function on a circle of this radius does not tell its slope to rounding.
_SMOOTH = 1e-5  # Smaller jumps are an error of their estimate.
_ROUNDING, _WITH_KINKS = 16 * float(np.finfo(float).eps), 1e-10  # accuracy, relative; the first for each point

Vector = Float[np.ndarray, " _"]
Both = Float[np.ndarray, "2 ..."]  # of phi and of phi'


def by_angle(
    phi: Activation, s1: Float[np.ndarray, " n1"], s2: Float[np.ndarray, " n2"]
) -> tuple[Callable[[Vector], Float[np.ndarray, "2 angles n1 n2"]], float]:
    """Both expectations for all pairs of deviations `s1` and `s2`, as a function of angles, and their accuracy.

    The accuracy is relative to the largest value.

    Raises
    ------
    ValueError: phi is not smooth away from 0, or varies too fast on the scale of the deviations.
    """
    jumps = _jumps(phi)
    with np.errstate(all="ignore"):
        *level, accuracy = _enough(phi, jumps, np.append(s1, s2))
        products = _products(phi, jumps, s1, s2, *level)

    def at(thetas: Vector) -> Float[np.ndarray, "2 angles n1 n2"]:
        waves = np.cos(np.outer(thetas, np.arange(products.shape[1])))
        found = np.tensordot(waves, products, (1, 1)).swapaxes(0, 1)
        if jumps.any():
            found += np.stack([_of_kinks(jumps, s1, s2, theta) for theta in thetas], axis=1)
        return found

    return at, accuracy


def refusal(phi: Activation, s: float) -> ValueError:
    return ValueError(
        f"activation {phi.name!r}: its kernel at variances up to {s * s:.3g} is not found by quadrature: give a "
        "function that is smooth except at 0, or rescale X, sigma_w or sigma_b"
    )


def _enough(phi: Activation, jumps: Vector, s: Vector) -> tuple[int, int, float]:
    """The first level that is as good as the next, for the extreme deviations, and the accuracy to which it is."""
    ends = np.unique([s.min(), s.max()])
    last, kinks = _LEVELS[0], _of_kinks(jumps, ends, ends, 0.0)
    before = _products(phi, jumps, ends, ends, *last)
    for level in _LEVELS[1:]:
        here = _products(phi, jumps, ends, ends, *level)
        accuracy = _WITH_KINKS if jumps.any() else level[1] * _ROUNDING
        change = here.copy()
        change[:, : before.shape[1]] -= before
        if (np.abs(change).sum(1).max((1, 2)) <= accuracy * (kinks + here.sum(1)).max((1, 2))).all():
            return *last, accuracy
        before, last = here, level
    raise refusal(phi, float(ends[-1]))


def _products(
    phi: Activation,
    jumps: Vector,
    s1: Float[np.ndarray, " n1"],
    s2: Float[np.ndarray, " n2"],
    radii: int,
    half: int,
) -> Float[np.ndarray, "2 modes n1 n2"]:
    """E_r[c_n(s r) c_n(s' r)] of n and -n together, without the part of kappa and kappa."""
    s, place = np.unique(np.append(s1, s2), return_inverse=True)
    rows, cols = place[: len(s1)], place[len(s1) :]
    r, weight = _radii(radii)
    found = np.zeros((2, half + 1, len(s1), len(s2)))
    size = max(1, _AT_ONCE // (len(s) * half))
    for some in (slice(start, start + size) for start in range(0, radii, size)):
        a = np.multiply.outer(s, r[some])
        smooth = np.moveaxis(_modes(phi, jumps, a, half), -1, 1)
        left, right = smooth[:, :, rows], (smooth[:, :, cols] * weight[some]).swapaxes(2, 3)
        found += left @ right
        if jumps.any():
            powers = (np.multiply.outer(ramp, a**m) / max(m, 1) for m, ramp in enumerate(_modes_of_ramps(half + 1)))
            kappa = _kappa(jumps, *powers)
            found += kappa[:, :, rows] @ right + left @ (kappa[:, :, cols] * weight[some]).swapaxes(2, 3)
    found[:, 1:] *= 2
    return found


def _modes(
    phi: Activation, jumps: Vector, a: Float[np.ndarray, "n radii"], half: int
) -> Float[np.ndarray, "2 n radii modes"]:
    """c_n of phi - kappa and of its slope, for n from 0 to `half`."""
    cos = np.sin(pi / 2 * np.arange(half, -half - 1, -2) / half)  # exactly 0 in the middle
    u = np.multiply.outer(a, cos)

    def transformed(even: Float[np.ndarray, "... half"]) -> Float[np.ndarray, "... modes"]:
        # Half of the circle tells an even function, and is a spectrum whose transform is that of the circle.
        return np.fft.irfft(even)[..., : half + 1]

    if jumps.any() or a.max(axis=1).min() < _SMALL:
        return transformed(np.stack(phi.value_and_slope(u)) - _kappa(jumps, *_powers(u)))
    # Cheaper: c'_{n-1} - c'_{n+1} = 2 n c_n / a of a smooth function, as for the derivative of a Chebyshev series.
    c = transformed(phi(u, NUMPY))
    steps = 2 * np.arange(half + 1) * c / a[..., None]
    slope = np.zeros_like(c)
    for parity in (0, 1):
        slope[..., parity:half:2] = steps[..., parity + 1 :: 2][..., ::-1].cumsum(axis=-1)[..., ::-1]
    return np.stack([c, slope])


@cache
def _radii(count: int) -> tuple[Vector, Vector]:
    """Nodes and weights of the mean over radii."""
    x, w = legendre.leggauss(count)
    root = (x + 1) / 2  # Closer nodes near 0 resolve a phi that varies fast.
    r = _RADIUS * root**2
    return r, _RADIUS * w * root * r * np.exp(-(r**2) / 2)


def _jumps(phi: Activation) -> Vector:
    """J_1 and J_2, from polynomials through slopes on either side of 0. Their errors cost speed, not accuracy."""
    right = 0.02 * np.arange(1, 7)
    above, below = (polynomial.polyfit(u, phi.value_and_slope(u)[1], 5)[:2] for u in (right, -right))
    return np.where(np.abs(above - below) > _SMOOTH, above - below, 0)


def _kappa(jumps: Vector, step: np.ndarray, ramp: np.ndarray, square: np.ndarray) -> Both:
    """What is made of kappa and of its slope, from the same of the powers 0, 1 and 2 of max(u, 0), the last halved."""
    return np.stack([jumps[0] * ramp + jumps[1] * square, jumps[0] * step + jumps[1] * ramp])


def _powers(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ramp = np.maximum(u, 0)
    return u > 0, ramp, ramp * ramp / 2


def _modes_of_ramps(count: int) -> list[Vector]:
    """Fourier coefficients of the powers 0, 1 and 2 of max(cos t, 0), for n from 0."""
    n = np.arange(-2, count + 2)
    modes = [np.sinc(n / 2) / 2]
    for _ in range(2):  # a factor of cos t
        modes.append(np.convolve(modes[-1], [0.5, 0, 0.5], "same"))
    return [mode[2:-2] for mode in modes]


def _of_kinks(
    jumps: Vector, s1: Float[np.ndarray, " n1"], s2: Float[np.ndarray, " n2"], theta: float
) -> Float[np.ndarray, "2 n1 n2"]:
    """E[kappa(u) kappa(v)] and E[kappa'(u) kappa'(v)], of a polynomial in r, cos t and cos(t - theta)."""
    x, w = legendre.leggauss(16)
    t = theta - pi / 2 + (pi - theta) / 2 * (x + 1)
    r, weight = _radii(64)
    weights = np.outer(weight, (pi - theta) / 2 * w / (2 * pi)).ravel()
    u, v = (np.multiply.outer(s, np.outer(r, np.cos(at)).ravel()) for s, at in ((s1, t), (s2, t - theta)))
    left, right = (_kappa(jumps, *_powers(part)) for part in (u, v))
    return (left * weights) @ right.swapaxes(1, 2)
