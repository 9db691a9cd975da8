"""A network linearised at its parameters: the one seam between networks and solvers.

J is the Jacobian of the N K outputs with respect to the parameters, Theta = J J' the empirical tangent kernel. The
products of an `MLP` are written out layer by layer, once for every array library: with `delta^l` the derivative of the
outputs with respect to the preactivations `z^l`, layer l adds `(delta^l delta^l') G^l` to the tangent kernel, where
`G^l = sigma_w^2 / n_{l-1} x^l x^l' + sigma_b^2` is N x N. So a product with the kernel goes backward and forward
through the layers and costs as much as two forward passes, and J is never formed.

Here the weights of an `MLP` are the transposes of Eq. 1's, so that a layer is x w and its units lie side by side in
memory (`turned`).

Shapes are those of one network; an `MLP` may have a leading axis of bodies before them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np

from rndlib.network import MLP
from rndlib.training.trees import Array, mapped

FORMED = 2**26
"""Most derivatives, points times heads times parameters, that are held at once: twice where a kernel is formed."""


class Linearised(ABC):
    """A network on N points: all that training needs of it. Changes of the parameters may leave out the last layer.

    Given its value, J v, J' v and J at some points, the other products follow; an `MLP` has faster ones.

    lib: The backend.
    X: The points, (N, *shape).
    params: The parameters; the last layer is the head, with the outputs on the first axis.
    value: f(X), (N, K).
    """

    lib: Any
    X: Array
    params: Any
    value: Array

    @abstractmethod
    def jvp(self, change: Any) -> Array:
        """J times a change of the parameters, (N, K)."""

    @abstractmethod
    def vjp(self, v: Array) -> Any:
        """J' v, in the shape of the parameters, for v (N, K)."""

    def rows(self, X: Array) -> Any:
        """J at some points: of every tensor of the parameters, (n, K, *tensor)."""
        raise NotImplementedError("its kernels are written out")

    def held(self) -> "Linearised":
        """The same with J held, if it is small: its products are then a fraction of a pass through the network."""
        small = self.value.shape[-2] * self.value.shape[-1] * _size(self.params) <= FORMED
        return Held(self) if small else self

    def multiplier(self, dtype: str) -> Callable[[Array], Array]:
        """The function v -> Theta v of several v, (vectors, N, K), in this precision. For one network at a time."""

        def product(one: Array) -> Array:
            return self.lib.cast(self.jvp(self.vjp(self.lib.cast(one, "float64"))), dtype)

        return lambda v: self.lib.map(product, v)

    def jvp_each(self, changes: Any) -> Array:
        """J times several changes, (columns, ...), of one network of one output: (N, columns)."""
        return self.lib.map(self.jvp, changes)[..., 0].mT

    def vjp_each(self, v: Array) -> Any:
        """J' v for several columns of v, (N, columns), of one network of one output: (columns, ...)."""
        return self.lib.map(self.vjp, v.mT[..., None])

    def between(self, other: Any) -> Array:
        """Theta between these points and others, (N, M), of one network of one output."""
        return _by_pairs(self.rows(self.X), other.rows(other.X), self.lib.xp).sum(0)

    def kernels(self) -> tuple[Array, Array]:
        """Theta over (point, head) pairs, (N, K, N, K), in two parts: the layers below the last, and the last."""
        held = self.held()
        if held is not self:
            return held.kernels()
        n, heads = self.value.shape
        blocks = chunked(self.lib.xp, self.X, max(1, FORMED // (heads * _size(self.params))))

        def row(x: Array) -> Array:
            left = self.rows(x)
            return self.lib.over_points(lambda other: _by_pairs(self.rows(other), left, self.lib.xp), blocks).mT

        both = self.lib.over_points(row, blocks)[:, : n * heads, : n * heads]
        below, last = both.reshape(2, n, heads, n, heads)
        return below, last


class Held(Linearised):
    """A network of the user's own, linearised on few points, with J in memory."""

    def __init__(self, at: Linearised):
        self.lib, self.X, self.params, self.value, self.J = at.lib, at.X, at.params, at.value, at.rows(at.X)

    def jvp(self, change: Any) -> Array:
        total = self.lib.xp.zeros_like(self.value)
        for derivatives, layer in zip(self.J, change, strict=False):
            for a, moved in zip(derivatives, layer, strict=True):
                total = total + (_flat(a) @ moved.reshape(-1)).reshape(total.shape)
        return total

    def vjp(self, v: Array) -> Any:
        return mapped(lambda a: (v.reshape(-1) @ _flat(a)).reshape(a.shape[2:]), self.J)

    def kernels(self) -> tuple[Array, Array]:
        below, last = _by_pairs(self.J, self.J, self.lib.xp).reshape(2, *self.value.shape, *self.value.shape)
        return below, last


def turned(tree: Any) -> Any:
    """A tree with the weights of all its `Params`, which are its lists of layers (w, b), transposed."""
    if isinstance(tree, list):
        return [(w.mT, b) for w, b in tree]
    return type(tree)(map(turned, tree)) if isinstance(tree, tuple) else tree


def apply(lib: Any, net: MLP, params: Any, X: Array) -> Array:
    """f(X; theta) of Eq. 1, of one network or of a stack of them, (..., N, K)."""
    x = X
    for layer, (w, b) in enumerate(params, start=1):
        z = _affine(lib, net, net.sigma_w / sqrt(w.shape[-2]) * x, w, b)
        x = z if layer == net.depth else lib.phi(net.activation, z)
    return x


class LinearMLP(Linearised):
    """An `MLP` linearised at its parameters.

    For l = 1..L, `inputs` are sigma_w / sqrt(n_{l-1}) x^l, and for l = 1..L-1 `slopes` are sigma_w / sqrt(n_l)
    phi'(z^l): scales go with these, which are smaller than the weights.
    """

    def __init__(self, lib: Any, net: MLP, params: Any, X: Array):
        self.lib, self.net, self.weights = lib, net, [w for w, _ in params]
        self.transposed = [w.mT for w in self.weights]
        self.inputs, self.slopes = [], []
        x = z = lib.xp.broadcast_to(X, (*params[0][0].shape[:-2], *X.shape[-2:]))
        for layer, (w, b) in enumerate(params):
            if layer:
                x, slope = lib.value_and_slope(net.activation, z)
                self.slopes.append(net.sigma_w / sqrt(w.shape[-2]) * slope)
            self.inputs.append(net.sigma_w / sqrt(w.shape[-2]) * x)
            z = _affine(lib, net, self.inputs[-1], w, b)
        self.value = z

    @cached_property
    def grams(self) -> list[Array]:
        """G^l, (N, N), for l = 1..L."""
        return [self.lib.gram(x) + self.net.sigma_b**2 for x in self.inputs]

    def jvp(self, change: Any) -> Array:
        dz = None
        for layer, x in enumerate(self.inputs):
            dz = None if dz is None else (self.slopes[layer - 1] * dz) @ self.weights[layer]
            if layer < len(change):
                moved = _affine(self.lib, self.net, x, *change[layer])
                dz = moved if dz is None else dz + moved
        return self.lib.xp.zeros_like(self.value) if dz is None else dz

    def vjp(self, v: Array) -> Any:
        each = zip(_backward(v, self.transposed, self.slopes), self.inputs, strict=True)
        return [(x.mT @ delta, self.net.sigma_b * delta.sum(-2)) for delta, x in each]

    def held(self) -> Linearised:
        return self

    def between(self, other: Any) -> Array:
        sides = zip(self._of_one_output(), self.inputs, other._of_one_output(), other.inputs, strict=True)
        return sum((delta @ d.mT) * (x @ y.mT + self.net.sigma_b**2) for delta, x, d, y in sides)

    def kernels(self) -> tuple[Array, Array]:
        xp, (n, heads) = self.lib.xp, self.value.shape[-2:]
        lead = self.value.shape[:-2]
        last = self.grams[-1][..., :, None, :, None] * self.lib.constant(np.eye(heads), self.value)[:, None]
        below, delta = xp.zeros_like(last), self.transposed[-1][..., None, :, :]
        for layer in reversed(range(len(self.slopes))):
            flat = (delta * self.slopes[layer][..., :, None, :]).reshape(*lead, n * heads, -1)
            below = below + self.lib.gram(flat).reshape(last.shape) * self.grams[layer][..., :, None, :, None]
            if layer:
                delta = (flat @ self.transposed[layer]).reshape(*lead, n, heads, -1)
        return below, last

    def multiplier(self, dtype: str) -> Callable[[Array], Array]:
        weights, slopes, grams = mapped(lambda a: self.lib.cast(a, dtype), (self.weights, self.slopes, self.grams))
        transposed = [w.mT for w in weights]  # formed once: XLA's products with a transposed view are slower

        def product(v: Array) -> Array:
            deltas = _backward(v, transposed, slopes)
            dz = grams[0] @ deltas[0]
            for w, slope, gram, delta in zip(weights[1:], slopes, grams[1:], deltas[1:], strict=True):
                dz = (slope * dz) @ w + gram @ delta
            return dz

        return product

    def jvp_each(self, changes: Any) -> Array:
        total = 0.0
        for (dw, db), x, delta in zip(changes, self.inputs, self._of_one_output(), strict=False):
            # sum_pq x_np dw_cpq delta_nq, whose product with dw is formed for the wider side.
            narrow, wide, dw = (x, delta, dw) if x.shape[1] <= delta.shape[1] else (delta, x, dw.mT)
            inner = (dw.reshape(-1, wide.shape[1]) @ wide.mT).reshape(*dw.shape[:2], -1)
            total = total + (inner * narrow.mT).sum(1).mT + self.net.sigma_b * (delta @ db.mT)
        return total

    def vjp_each(self, v: Array) -> Any:
        gradients = []
        for x, delta in zip(self.inputs, self._of_one_output(), strict=True):
            narrow, wide = (x, delta) if x.shape[1] <= delta.shape[1] else (delta, x)
            weighted = (v.mT[:, None, :] * narrow.mT).reshape(-1, len(x))
            dw = (weighted @ wide).reshape(v.shape[1], narrow.shape[1], -1)
            gradients.append((dw if narrow is x else dw.mT, self.net.sigma_b * (v.mT @ delta)))
        return gradients

    def _of_one_output(self) -> list[Array]:
        """d/dz^l of the only output at each point, (N, n_l), for l = 1..L."""
        return _backward(self.lib.xp.ones_like(self.value), self.transposed, self.slopes)


def chunked(xp: Any, rows: Array, size: int, last: float | None = None) -> Array:
    """Rows in chunks of at most this size, (chunks, size, ...), filled up by copies of the last row, or by a number."""
    size = min(size, len(rows))
    missing = -len(rows) % size
    if missing:
        fill = rows[-1:] if last is None else xp.full_like(rows[-1:], last)
        rows = xp.concatenate([rows, xp.broadcast_to(fill, (missing, *rows.shape[1:]))])
    return rows.reshape(-1, size, *rows.shape[1:])


def _by_pairs(left: Any, right: Any, xp: Any) -> Array:
    """J J' between the points of two J, over (point, head) pairs: of the layers below the last, and of the last."""
    *below, last = (
        sum(_flat(a) @ _flat(b).mT for a, b in zip(*layers, strict=True)) for layers in zip(left, right, strict=True)
    )
    return xp.stack([sum(below, xp.zeros_like(last)), last])


def _flat(a: Array) -> Array:
    """The derivatives by one tensor, (N, K, *tensor), as a matrix (N K, size)."""
    return a.reshape(a.shape[0] * a.shape[1], -1)


def _size(params: Any) -> int:
    return sum(prod(a.shape) for layer in params for a in layer)


def _affine(lib: Any, net: MLP, x: Array, w: Array, b: Array) -> Array:
    return lib.product(x, w) + net.sigma_b * b[..., None, :]


def _backward(v: Array, transposed: list[Array], slopes: list[Array]) -> list[Array]:
    """d/dz^l of <v, f(X)>, for l = 1..L, from the transposes of the weights."""
    deltas = [v]
    for w, slope in zip(transposed[:0:-1], slopes[::-1], strict=True):
        deltas.append((deltas[-1] @ w) * slope)
    return deltas[::-1]
