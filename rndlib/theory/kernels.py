"""Exact kernels of an infinitely wide network: NNGP, NTK, and the part of the NTK below the last layer.

With phi the activation, (u, v) ~ N(0, kappa^{l-1} at x and x'), and n_0 inputs, the recursion over layers is

    kappa^1 = sigma_w^2 / n_0 x.x' + sigma_b^2                Theta^1 = kappa^1
    kappa^l = sigma_w^2 E[phi(u) phi(v)] + sigma_b^2          Theta^l = Theta^{l-1} kdot^l + kappa^l
    kdot^l  = sigma_w^2 E[phi'(u) phi'(v)]

This is the recursion of Proposition B.3 with the indices of its proof; the statement prints kdot^{l-1} for kdot^l.

Accuracy
--------
Against two-dimensional quadrature, relative to the largest entry, for sigma_w up to 2, depth up to 4, and repeated,
nearly repeated and opposite points among the rest (tests/test_kernels.py), the error stays below

    erf, gelu    1e-11    closed forms
    silu, tanh   1e-10    a quadrature rule of ten nodes, good to 1e-11 of the scale of either expectation; between
                          many points interpolated to some 1e-14 (`rndlib.theory.interpolants`)
    relu         3e-8     closed form; below 1e-12 unless the angle of two points, or of one and the other's opposite,
                          is below 1e-3: in float64, scalar products resolve an angle a to about 1e-15 / a, and angles
                          below 6e-8 not at all (such points count as collinear)
    others       1e-9     quadrature with as many nodes as needed (`rndlib.theory.quadrature`); 3e-8, as relu, if the
                          slope jumps at 0. An activation that cannot be integrated to this accuracy is refused
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.cores import parallel, slices
from rndlib.network import MLP
from rndlib.theory.empirical import parts
from rndlib.theory.expectations import AT_ONCE, Side, expectations
from rndlib.theory.interpolants import interpolant
from rndlib.theory.interpolation import Series, Tile, Vector
from rndlib.theory.mixtures import closed_form
from rndlib.theory.quadrature import between, with_themselves

# Entries of a tile that is interpolated, and its rows, which share their polynomials.
_INTERPOLATED, _HIGH = 32768, 64
# NumPy is slow along a last axis shorter than this.
_SHORT = 64

Points = Float[np.ndarray, "n d"]
Matrix = Float[np.ndarray, "n1 n2"]
Layers = Float[np.ndarray, "depth n"]  # kappa^l(x, x), one row per layer
Sides = Float[np.ndarray, "depth #rows #cols"]
Cheap = Callable[[Tile], tuple[Tile, Tile]]


@dataclass(frozen=True)
class Kernel:
    """Three kernels at the same points, float64: matrices `(N1, N2)` from `kernel`, vectors `(N,)` from `diagonal`.

    nngp: kappa, covariance of the network's function at initialisation; also the tangent kernel of the last layer.
    ntk: Theta, the tangent kernel of all parameters.
    body: ntk - nngp, the tangent kernel of the parameters below the last layer; 0 at depth 1.

    >>> from rndlib import MLP, kernels
    >>> k = kernels.diagonal(MLP(in_dim=2), [[1.0, 2.0]])
    >>> bool(abs(k.body + k.nngp - k.ntk).max() < 1e-12)
    True
    """

    nngp: Float[np.ndarray, "*points"]
    ntk: Float[np.ndarray, "*points"]
    body: Float[np.ndarray, "*points"]


def kernel(net: MLP, X1: ArrayLike, X2: ArrayLike | None = None) -> Kernel:
    """Kernels between the rows of `X1` `(N1, in_dim)` and of `X2` `(N2, in_dim)`; of `X1` with itself without `X2`.

    Without `X2` the matrices are exactly symmetric and their diagonals are those of `diagonal`, bit for bit.

    Raises
    ------
    ValueError: Kernels overflow or underflow; an activation without a closed form varies too fast for quadrature, or
        has a kink elsewhere than at 0.

    >>> from rndlib import MLP, kernels
    >>> kernels.kernel(MLP(in_dim=2), [[1.0, 0.0], [0.0, 1.0]]).ntk.round(3)
    array([[1.93, 0.14],
           [0.14, 1.93]])
    """
    X1 = checks.points("X1", X1, net.in_dim)
    q1 = variances(net, "X1", X1)
    if X2 is None:
        parts = _matrices(net, X1, q1, X1, q1, symmetric=True)
        for part, on_diagonal in zip(parts, _diagonal(net, q1), strict=True):
            np.fill_diagonal(part, on_diagonal)
        return Kernel(*parts)
    X2 = checks.points("X2", X2, net.in_dim)
    q2 = variances(net, "X2", X2)
    if len(X2) >= min(len(X1), _SHORT):
        return Kernel(*_matrices(net, X1, q1, X2, q2))
    return Kernel(*(np.ascontiguousarray(part.T) for part in _matrices(net, X2, q2, X1, q1)))


def diagonal(net: MLP, X: ArrayLike) -> Kernel:
    """The kernels of each row of `X` `(N, in_dim)` with itself: three vectors `(N,)`. Raises as in `kernel`.

    >>> from rndlib import MLP, kernels
    >>> kernels.diagonal(MLP(in_dim=2), [[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]).ntk.round(3)
    array([ 1.93 ,  1.93 , 22.197])
    """
    X = checks.points("X", X, net.in_dim)
    return Kernel(*_diagonal(net, variances(net, "X", X)))


def empirical(
    net: AnyNetwork,
    X: ArrayLike,
    X_test: ArrayLike | None = None,
    *,
    draws: int = 16,
    seed: int = 0,
    memory: int = 2**28,
) -> Kernel:
    """Kernels of a network that the user wrote: `(N, T)` between X and X_test, or `(N, N)` of X with itself.

    `ntk` is the mean over draws of the initial weights of J S^2 J', the tangent kernel that training goes by
    (`rndlib.any_network`). `nngp` is the head's part of it, which has the mean of f(x) f(x') at initialisation, and
    `body` the rest. Calls with the same `draws` and `seed` average over the same networks.

    Parameters
    ----------
    net: a `rndlib.torch.Module` or a `rndlib.jax.Function`.
    X, X_test: points (N, *shape) and (T, *shape).
    draws: networks to average over, >= 1.
    seed: of their initial weights, >= 0.
    memory: bytes for derivatives, and as many for their products, which are taken for as many points at once as it
        holds; the N x P Jacobian of P weights is never stored. Of a `Function`, the derivatives with respect to
        matrices and filters are kept in factors (`rndlib.factors`).

    Raises
    ------
    ValueError: The network is not one that the theorems hold for, or `memory` does not hold the derivatives of two
        points.

    >>> import jax, numpy as np
    >>> from rndlib import kernels
    >>> from rndlib.jax import Function
    >>> def init(key, outputs):
    ...     first, last = jax.random.split(key)
    ...     return [jax.random.normal(first, (3, 64)) / 3**0.5, jax.random.normal(last, (64, outputs)) / 8]
    >>> net = Function(init, lambda params, x: jax.nn.silu(x @ params[0]) @ params[1])
    >>> kernels.empirical(net, np.eye(3)).ntk.shape
    (3, 3)
    """
    head, body = parts(net, X, X_test, draws, seed, memory)
    return Kernel(head, head + body, body)


def variances(net: MLP, name: str, X: Points) -> Layers:
    """kappa^l(x, x) of each row of `X` `(N, in_dim)` for l = 1 .. L, as `(L, N)`.

    Raises
    ------
    ValueError: A variance is so large or so small that products of two overflow or underflow. The message calls X
        `name`.

    >>> import numpy as np
    >>> from rndlib import MLP, kernels
    >>> kernels.variances(MLP(in_dim=2), "X", np.eye(2)).round(3)
    array([[1.135, 1.135],
           [0.939, 0.939]])
    """
    q = np.empty((net.depth, len(X)))
    with np.errstate(over="ignore", invalid="ignore"):
        q[0] = _first_layer(net, np.einsum("ij,ij->i", X, X))
        for layer in range(net.depth):
            outside = ~((q[layer] < 1e150) & ((q[layer] > 1e-150) | (q[layer] == 0)))
            if outside.any():
                raise ValueError(
                    f"{name}: row {outside.argmax()} has a variance of {q[layer, outside.argmax()]:.3g} in layer "
                    f"{layer + 1}, too near the end of float64's range: rescale {name}, sigma_w or sigma_b"
                )
            if layer + 1 < net.depth:
                for part in slices(len(X), _tile(net)):
                    here = q[layer : layer + 1, part]
                    q[layer + 1, part] = _next_layer(net, here, here, here, _with_themselves(net))[0][0]
    return q


def _matrices(
    net: MLP,
    X1: Float[np.ndarray, "n1 d"],
    q1: Float[np.ndarray, "depth n1"],
    X2: Float[np.ndarray, "n2 d"],
    q2: Float[np.ndarray, "depth n2"],
    symmetric: bool = False,
) -> list[Matrix]:
    """The three kernels, tile by tile. If `symmetric`, X2 is X1, and the entries below the diagonal are mirrored."""
    shape = len(X1), len(X2)
    parts = [np.empty(shape) for _ in range(3)]
    # With more nodes than half of the computed entries, interpolation saves nothing; a symmetric matrix computes half.
    most = shape[0] * shape[1] // (4 if symmetric else 2)
    layers = [_interpolated(net, q1[l], q2[l], most) for l in range(net.depth - 1)]
    cheaper = any(layer is not None for layer in layers)
    entries = _INTERPOLATED if cheaper else _tile(net)
    width = min(entries // (min(_HIGH, shape[0]) if cheaper else 1), shape[1])

    def fill(rows: slice) -> None:
        strips = [layer and layer.strip(rows) for layer in layers]
        for cols in slices(shape[1], width, start=rows.start if symmetric else 0):
            cheap = [strip and partial(strip, cols) for strip in strips]
            first = _first_layer(net, X1[rows] @ X2[cols].T)
            values = _recursion(net, first, q1[:, rows, None], q2[:, None, cols], cheap)
            for part, value in zip(parts, values, strict=True):
                if symmetric and cols.start == rows.start:
                    square = value[:, : len(value)]
                    square[:] = np.triu(square) + np.triu(square, 1).T
                part[rows, cols] = value
                if symmetric:
                    part.T[rows, cols] = value

    parallel(fill, slices(shape[0], entries // width))
    return parts


def _diagonal(net: MLP, q: Layers) -> tuple[Vector, Vector, Vector]:
    nngp, ntk, body = np.empty((3, q.shape[1]))
    cheap = [_with_themselves(net)] * (net.depth - 1)
    for part in slices(q.shape[1], _tile(net)):
        here = q[:, None, part]
        nngp[part], ntk[part], body[part] = (row[0] for row in _recursion(net, here[0], here, here, cheap))
    return nngp, ntk, body


def _with_themselves(net: MLP) -> Cheap | None:
    """The expectations of each point with itself, for an activation without a closed form."""
    return None if closed_form(net.activation) else partial(with_themselves, net.phi)


def _interpolated(net: MLP, q1: Float[np.ndarray, " n1"], q2: Float[np.ndarray, " n2"], most: int) -> Series | None:
    mixture = closed_form(net.activation)
    return interpolant(mixture, q1, q2, most) if mixture else between(net.phi, q1, q2)


def _tile(net: MLP) -> int:
    """Entries of a tile by the closed form, which has arrays of one number per entry and term of the mixture."""
    mixture = closed_form(net.activation)
    return AT_ONCE // (mixture.terms()[0].size if mixture else 64)


def _first_layer(net: MLP, products: Float[np.ndarray, "*points"]) -> Float[np.ndarray, "*points"]:
    products *= net.sigma_w * net.sigma_w / net.in_dim
    products += net.sigma_b * net.sigma_b
    return products


def _next_layer(net: MLP, q1: Side, q2: Side, kappa: Tile, cheap: Cheap | None) -> tuple[Tile, Tile]:
    """kappa^l and kdot^l from kappa^{l-1}, of variances `q1` and `q2`; `cheap` is a faster way to the expectations."""
    value, slope = cheap(kappa) if cheap else expectations(net.activation, q1, q2, kappa)
    return net.sigma_w**2 * value + net.sigma_b**2, net.sigma_w**2 * slope


def _recursion(net: MLP, kappa: Tile, q1: Sides, q2: Sides, cheap: Sequence[Cheap | None]) -> tuple[Tile, Tile, Tile]:
    """kappa^L, Theta^L and its part below the last layer, from kappa^1 and both sides' variances."""
    theta, body = kappa, np.zeros_like(kappa)
    for layer in range(net.depth - 1):
        kappa, kdot = _next_layer(net, q1[layer], q2[layer], kappa, cheap[layer])
        body = theta * kdot
        theta = body + kappa
    return kappa, theta, body
