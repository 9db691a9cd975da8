"""E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for a Gaussian pair, in closed form if there is one.

Let (u, v) ~ N(0, [[q, c], [c, q']]) and phi be one of the mixtures of `rndlib.theory.mixtures`. For noise variances
a, b write D = (q + a)(q' + b) - c^2, the determinant of the pair's covariance once noise is added. Then
P = P(noise_a < u, noise_b < v) = 1/4 + arctan(c / sqrt D) / 2 pi, an orthant probability (Sheppard, 1899), and

    sign:  E[phi phi]   = 2/pi arctan(c / sqrt D)
           E[phi' phi'] = 2/pi / sqrt D
    ramp:  E[phi phi]   = c P + (q q' - c^2 + c^2 (a/(q + a) + b/(q' + b))) / (2 pi sqrt D)
           E[phi' phi'] = P + c (a/(q + a) + b/(q' + b) + a b / D) / (2 pi sqrt D)

each summed over a and b with their weights. The derivatives follow from the values by Price's theorem,
d/dc E[phi phi] = E[phi' phi']; the ramp's value from the sign's by Gaussian integration by parts. One sign term
with a = 1/2 is Williams' (1997) kernel of erf, a ramp without noise the arc-cosine kernel of Cho and Saul (2009).
"""

import numpy as np
from jaxtyping import Float

from rndlib.activations import ACTIVATIONS, Activation
from rndlib.theory import quadrature
from rndlib.theory.interpolation import Tile
from rndlib.theory.mixtures import Mixture, closed_form

# float64 gives the determinant q q' - c^2 with an error of a few times eps q q'. It counts as zero up to this multiple,
# so that a repeated point has the kernel of the point with itself although c and q were summed in different orders.
# This matters for relu only, which takes an angle of two points below 6e-8 as 0.
_COLLINEAR = 16 * np.finfo(float).eps

AT_ONCE = 65536
"""Entries to compute together, times terms of the mixture: an array of this size fits a core's L2 cache. With smaller
arrays, threads spend most time waiting for Python's lock."""

Side = Float[np.ndarray, "#rows #cols"]


def expectations(activation: str | Activation, q1: Side, q2: Side, c: Tile) -> tuple[Tile, Tile]:
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for variances `q1`, `q2` (broadcast against `c`) and covariances `c`.

    Activations without a closed form use `rndlib.theory.quadrature`, which needs one variance per row and one per
    column.
    """
    mixture = closed_form(activation)
    if mixture is None:
        phi = ACTIVATIONS[activation] if isinstance(activation, str) else activation
        return quadrature.between(phi, q1.ravel(), q2.ravel()).strip(slice(None))(slice(None), c)
    scale = q1 * q2
    det = scale - c**2
    det[det <= _COLLINEAR * scale] = 0
    if not mixture.terms()[0].any():  # a ramp without noise
        root = np.sqrt(det)
        P = 0.25 + np.arctan2(c, root) / (2 * np.pi)
        return c * P + root / (2 * np.pi), P
    value, slope = continued(mixture, q1, q2, c, det)
    return (value, slope) if mixture.family == "sign" else (value + c / 4, slope + 0.25)


def continued(mixture: Mixture, q1: Side, q2: Side, c: Tile, det: Tile) -> tuple[Tile, Tile]:
    """The expectations of a mixture with noise, those of a ramp minus c / 4 and 1 / 4, given `det` = q q' - c^2.

    The formulas hold for c^2 < (q + a)(q' + a), a the smallest noise, and so beyond all covariances of two variables.
    """
    noise, weight = mixture.terms()
    # One a at a time, all b stacked along the first axis: few calls on arrays that stay in cache, and the sum over
    # b is a matrix product.
    b = noise[:, None, None]
    sums = np.zeros((4, c.size))
    angle, inverse, inverse_share, inverse_cubed = sums
    share2 = b / (q2 + b)
    for a, weight_a in zip(noise, weight, strict=True):
        ab_weight = weight_a * weight
        D = det + b * (q1 + a)
        D += a * q2
        root = np.sqrt(D)
        angle += ab_weight @ np.arctan2(c, root).reshape(noise.size, -1)
        np.divide(1, root, out=root)
        summed = ab_weight @ root.reshape(noise.size, -1)
        inverse += summed
        if mixture.family == "ramp":
            np.divide(root, D, out=D)
            inverse_cubed += (a * noise * ab_weight) @ D.reshape(noise.size, -1)
            np.multiply(root, share2, out=root)
            inverse_share += ab_weight @ root.reshape(noise.size, -1)
            inverse_share += (summed.reshape(c.shape) * (a / (q1 + a))).ravel()
    if mixture.family == "sign":
        return 2 / np.pi * angle.reshape(c.shape), 2 / np.pi * inverse.reshape(c.shape)
    angle, inverse, inverse_share, inverse_cubed = sums.reshape(4, *c.shape) / (2 * np.pi)
    return c * angle + det * inverse + c**2 * inverse_share, angle + c * (inverse_share + inverse_cubed)
