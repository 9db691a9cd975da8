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

    erf, gelu           1e-11  closed forms; of erf, up to variances of 1e6 (1e-3 at 1e12)
    relu, leaky_relu    3e-8   closed forms; below 1e-12 unless the angle of two points, or of one and the other's
                               opposite, is below 1e-3: in float64, scalar products resolve an angle a to about
                               1e-15 / a, and angles below 6e-8 not at all (such points count as collinear)
    others              1e-10  by quadrature and interpolation (`rndlib.theory.quadrature`), in general some 1e-12; 1e-9
                               for elu, and 3e-8, as relu, if the slope jumps at 0. An activation that cannot be
                               integrated to this accuracy is refused
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks, cores
from rndlib.any_network import AnyNetwork, spawned
from rndlib.cores import parallel, slices
from rndlib.network import MLP
from rndlib.theory.expectations import Between, between

_AT_ONCE = 2**15  # entries, so that arrays stay in cache

Points = Float[np.ndarray, "n d"]
Matrix = Float[np.ndarray, "n1 n2"]
Layers = list[Float[np.ndarray, " n"]]  # kappa^l(x, x)
Both = tuple[np.ndarray, np.ndarray]  # nngp and ntk


@dataclass(frozen=True)
class Kernel:
    """The kernels at the same points, float64: matrices `(N1, N2)` from `kernel`, vectors `(N,)` from `diagonal`.

    nngp: kappa, covariance of the network's function at initialisation; also the tangent kernel of the last layer.
    ntk: Theta, the tangent kernel of all parameters.
    body: ntk - nngp, the tangent kernel of the parameters below the last layer; 0 at depth 1.

    >>> from rndlib import MLP, kernels
    >>> k = kernels.diagonal(MLP(in_dim=2), [[1.0, 2.0]])
    >>> k.nngp.round(3), k.ntk.round(3), k.body.round(3)
    (array([5.784]), array([11.881]), array([6.097]))
    """

    nngp: Float[np.ndarray, "*points"]
    ntk: Float[np.ndarray, "*points"]

    @property
    def body(self) -> Float[np.ndarray, "*points"]:
        """As above, computed at each call.

        >>> import numpy as np
        >>> from rndlib import kernels
        >>> kernels.Kernel(nngp=np.ones(2), ntk=np.full(2, 3.0)).body
        array([2., 2.])
        """
        return self.ntk - self.nngp


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
    return Kernel(*matrices(net, X1, X2))


def ntk(net: MLP, X1: ArrayLike, X2: ArrayLike | None = None) -> Matrix:
    """The `ntk` of `kernel` alone, (N1, N2), in half the memory. Raises as `kernel`.

    >>> from rndlib import MLP, kernels
    >>> kernels.ntk(MLP(in_dim=2), [[1.0, 0.0]], [[0.0, 1.0]]).round(3)
    array([[0.14]])
    """
    return matrices(net, X1, X2, slice(1, 2))[0]


def diagonal(net: MLP, X: ArrayLike) -> Kernel:
    """The kernels of each row of `X` `(N, in_dim)` with itself: vectors `(N,)`. Raises as in `kernel`.

    >>> from rndlib import MLP, kernels
    >>> kernels.diagonal(MLP(in_dim=2), [[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]).ntk.round(3)
    array([ 1.93 ,  1.93 , 22.197])
    """
    return Kernel(*_alone(net, "X", checks.points("X", X, (net.in_dim,)))[2])


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

    `ntk` is the mean over draws of the initial weights of J S^2 J', the tangent kernel of training
    (`rndlib.any_network`). `nngp` is the head's part of it, which has the mean of f(x) f(x') at initialisation, and
    `body` the rest. Calls with the same `draws` and `seed` average over the same networks.

    Parameters
    ----------
    net: a `rndlib.torch.Module` or a `rndlib.jax.Function`.
    X, X_test: points (N, *shape) and (T, *shape).
    draws: networks to average over, >= 1.
    seed: of their initial weights, >= 0.
    memory: bytes for the derivatives of one draw, and as many for their products, which are taken for as many points
        at once as it holds; the N x P Jacobian of P weights is never stored. Every core works on a draw of its own.

    Raises
    ------
    ValueError: The theorems do not hold for the network, or `memory` does not hold the derivatives of two points.

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
    if not isinstance(net, AnyNetwork):
        raise ValueError(
            f"net = {net!r}: give a rndlib.torch.Module or a rndlib.jax.Function; an MLP has kernels.kernel"
        )
    X = checks.points("X", X)
    mirrored = X_test is None
    other = X if X_test is None else checks.points("X_test", X_test, X.shape[1:])
    net.examine(X)
    count, seed = checks.whole("draws", draws, at_least=1), checks.whole("seed", seed, at_least=0)
    least, below = 16 * net.parameters(1), net.hidden_parameters  # bytes, for the derivatives of two points
    rows = checks.whole("memory", memory, at_least=1) // least
    checks.require(rows > 0, f"memory = {memory}: give at least {least} bytes, for the derivatives of two points")

    def one(draw: int) -> Float[np.ndarray, "2 n t"]:
        found, omega = np.zeros((2, len(X), len(other))), net.draw(1, spawned(seed, draw))
        for i in slices(len(X), rows):
            left = net.jacobian(omega, X[i])[:, 0]
            for j in slices(len(other), rows, start=i.start if mirrored else 0):
                right = left if mirrored and i == j else net.jacobian(omega, other[j])[:, 0]
                for part, of in zip(found, (slice(below, None), slice(None)), strict=True):
                    part[i, j] = block = left[:, of] @ right[:, of].T
                    if mirrored:
                        part[j, i] = block.T
        return found

    total = np.zeros((2, len(X), len(other)))
    for some in slices(count, cores.count()):
        for found in parallel(one, range(some.start, some.stop)):
            total += found
    return Kernel(*total / count)


def matrices(
    net: MLP,
    X1: ArrayLike,
    X2: ArrayLike | None,
    only: slice = slice(2),
    names: tuple[str, str] = ("X1", "X2"),
) -> list[Matrix]:
    """nngp and ntk, or one of them, each (N1, N2) and computed some rows at a time.

    Without X2, only the entries above the diagonal are computed, and mirrored. Raises as `kernel`.

    Parameters
    ----------
    only: which of the two to return.
    names: what errors call X1 and X2.

    >>> from rndlib import MLP, kernels
    >>> len(kernels.matrices(MLP(in_dim=2), [[1.0, 0.0]], None, only=slice(1, 2)))
    1
    """
    left = right = checks.points(names[0], X1, (net.in_dim,))
    q1, layers, on_diagonal = _alone(net, names[0], left)
    if X2 is not None:
        right = checks.points(names[1], X2, (net.in_dim,))
        q2 = _alone(net, names[1], right)[0]
        layers = [between(net.phi, *both) for both in zip(q1[:-1], q2[:-1], strict=True)]
    found = [np.empty((len(left), len(right))) for _ in range(2)[only]]

    def fill(rows: slice) -> None:
        cols = slice(rows.start if X2 is None else 0, len(right))
        steps = (lambda kappa, layer=layer: layer(kappa, rows, cols) for layer in layers)
        values = _recursion(net, _first_layer(net, left[rows] @ right[cols].T), steps)
        for part, value in zip(found, values[only], strict=True):
            if X2 is None:
                square = value[:, : len(value)]
                square[:] = np.triu(square) + np.triu(square, 1).T
                part.T[rows, cols] = value
            part[rows, cols] = value

    parallel(fill, slices(len(left), max(1, _AT_ONCE // len(right))))
    if X2 is None:
        for part, values in zip(found, on_diagonal[only], strict=True):
            np.fill_diagonal(part, values)
    return found


def _alone(net: MLP, name: str, X: Points) -> tuple[Layers, list[Between], Both]:
    """kappa^l(x, x) of each row of X for l = 1 .. L, the expectations between rows, and nngp and ntk of each.

    Raises
    ------
    ValueError: A variance is so large or so small that products of two overflow or underflow. The message calls X
        `name`.
    """
    q: list[np.ndarray] = []
    layers: list[Between] = []

    def note(kappa: np.ndarray) -> None:
        outside = ~((kappa < 1e150) & ((kappa > 1e-150) | (kappa == 0)))
        if outside.any():
            raise ValueError(
                f"{name}: row {outside.argmax()} has a variance of {kappa[outside.argmax()]:.3g} in layer "
                f"{len(q) + 1}, too close to the end of float64's range: rescale {name}, sigma_w or sigma_b"
            )
        q.append(kappa)

    def step(kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        note(kappa)
        layers.append(between(net.phi, kappa, kappa))
        return layers[-1].alone()

    with np.errstate(over="ignore", invalid="ignore"):
        found = _recursion(net, _first_layer(net, np.einsum("ij,ij->i", X, X)), [step] * (net.depth - 1))
        note(found[0])
    return q, layers, found


def _first_layer(net: MLP, products: Float[np.ndarray, "*points"]) -> Float[np.ndarray, "*points"]:
    products *= net.sigma_w * net.sigma_w / net.in_dim
    products += net.sigma_b * net.sigma_b
    return products


def _recursion(
    net: MLP, kappa: np.ndarray, steps: Iterable[Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]
) -> Both:
    """kappa^L and Theta^L, from kappa^1 and the expectations over each layer's units."""
    last = net._trained(0, kappa)
    theta = last.copy()  # of one layer, too, nngp and ntk are two arrays
    for layer, expectations in enumerate(steps, start=1):
        kappa, body = expectations(kappa)  # and their factors, in place
        kappa *= net.sigma_w**2
        kappa += net.sigma_b**2
        body *= net.sigma_w**2
        body *= theta
        last = net._trained(layer, kappa)
        theta = body + last
    return last, theta
