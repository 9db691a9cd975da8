"""One network (Eq. 1) and its tangent at a parameter vector, without ever forming the Jacobian.

With `delta^l` the derivative of the outputs with respect to the preactivations `z^l`, layer l adds
`(delta^l delta^l') G^l` to the tangent kernel, where `G^l = sigma_w^2 / n_{l-1} x^l x^l' + sigma_b^2` is N x N. So
a product with the kernel goes backward and forward through the layers and costs as much as two forward passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, vmap
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from rndlib.any_network import Network
from rndlib.network import MLP
from rndlib.training.backends.jax.activations import value_and_slope
from rndlib.training.backends.jax.traced import Traced
from rndlib.training.trees import mapped

# Fan-in and fan-out differ from layer to layer; jaxtyping does not bind names with an underscore. Weights are the
# transposes of Eq. 1's, so that a layer is x w and its units lie side by side in memory.
Given = np.ndarray | Array
"""Arguments of a compiled program, which converts NumPy's arrays ten times as fast as `jnp.asarray`."""

Params = list[tuple[Float[Array, "_fan_in _fan_out"], Float[Array, "_fan_out"]]]
Bodies = Sequence[tuple[Float[Given, "bodies _fan_in _fan_out"], Float[Given, "bodies _fan_out"]]]

# Up to this fan-in a sum of outer products is faster than XLA's matrix product, whose inner loop is then too short.
_NARROW = 8
# With at most this number of rows and many units, products with one row at a time are faster, too, in float32.
_FEW, _MANY = 32, 64


def to_jax(net: Network, params: Sequence[Any], dtype: str = "float64") -> list[tuple[np.ndarray, ...]]:
    """Parameters or directions of any network, with or without bodies, in the form that `linearised` takes.

    Those of an `MLP` are transposed views: a compiled program copies them anyway, and three times as fast as NumPy.
    """
    if isinstance(net, MLP):
        return [(np.swapaxes(np.asarray(w, dtype), -1, -2), np.asarray(b, dtype)) for w, b in params]
    return mapped(lambda a: np.asarray(a, dtype), params)


def to_numpy(net: Network, params: Sequence[Any]) -> list[tuple[np.ndarray, ...]]:
    """The inverse of `to_jax`."""
    if isinstance(net, MLP):
        return [(np.swapaxes(np.asarray(w), -1, -2), np.asarray(b)) for w, b in params]
    return mapped(np.asarray, params)


def scaled(net: MLP, params: Params) -> Params:
    """The layers of Eq. 1 with their factors, sigma_w / sqrt(n_{l-1}) w^l and sigma_b b^l."""
    return [(net.sigma_w / sqrt(w.shape[0]) * w, net.sigma_b * b) for w, b in params]


def _across(x: Array, w: Array) -> Array:
    """x w, with x (N, n_{l-1}) and w (n_{l-1}, n_l)."""
    if w.shape[0] <= _NARROW:
        return sum((x[:, j : j + 1] * w[j] for j in range(1, w.shape[0])), x[:, :1] * w[0])
    return x @ w


def gram(x: Float[Array, "rows units"]) -> Float[Array, "rows rows"]:
    """x x'."""
    if x.dtype != jnp.float32 or x.shape[0] > _FEW or x.shape[1] < _MANY:
        return x @ x.T
    return lax.platform_dependent(x, cpu=lambda x: lax.map(lambda row: x @ row, x), default=lambda x: x @ x.T)


def linearised(
    net: Any, params: Any, X: Float[Array, "n *shape"]
) -> tuple[Float[Array, "n heads"], "LinearMLP | Traced"]:
    """f(X; theta) and its tangent there. The compiler drops the parts that are not used."""
    if not isinstance(net, MLP):
        traced = Traced(net.of_omega, params, X)
        return traced.values, traced
    inputs, slopes, weights, grams = [], [], [], []
    x = z = X
    for l, (w, b) in enumerate(scaled(net, params)):
        if l:
            x, slope = value_and_slope(net.activation)(z)
            slopes.append(slope)
        inputs.append(x)
        weights.append(w)
        grams.append(net.sigma_w**2 / len(w) * gram(x) + net.sigma_b**2)
        z = _across(x, w) + b
    return z, LinearMLP(net, inputs, slopes, weights, [w.T for w in weights], grams)


def _along(
    x: Float[Array, "n _fan_in"], w: Float[Array, "columns _fan_in _fan_out"], delta: Float[Array, "n _fan_out"]
) -> Float[Array, "n columns"]:
    """x_p' w delta_p for each column."""
    if delta.shape[1] == 1:
        return (x * delta) @ w[:, :, 0].T
    if x.shape[1] <= _NARROW:
        return sum(
            (x[:, j : j + 1] * (delta @ w[:, j].T) for j in range(1, x.shape[1])), x[:, :1] * (delta @ w[:, 0].T)
        )
    return lax.map(lambda one: ((x @ one) * delta).sum(1), w).T


@partial(register_dataclass, data_fields=["inputs", "slopes", "weights", "transposed", "grams"], meta_fields=["net"])
@dataclass
class LinearMLP:
    """An `MLP` linearised at its parameters, on N points: `rndlib.training.protocols.Linearised`, layer by layer."""

    net: MLP
    inputs: list[Array]  # x^l, (N, n_{l-1}), for l = 1..L
    slopes: list[Array]  # phi'(z^l), (N, n_l), for l = 1..L-1
    weights: list[Array]  # sigma_w / sqrt(n_{l-1}) w^l, transposed, (n_{l-1}, n_l)
    transposed: list[Array]  # their transposes: XLA's CPU product with a transposed view is several times slower
    grams: list[Array]  # G^l, (N, N)

    def push_forward(self, change: Params) -> Float[Array, "n heads"]:
        layers = scaled(self.net, change)
        dz = jnp.zeros((self.inputs[0].shape[0], self.weights[0].shape[1]), self.inputs[0].dtype)
        for l, x in enumerate(self.inputs):
            dz = (self.slopes[l - 1] * dz) @ self.weights[l] if l else dz
            if l < len(layers):
                dw, db = layers[l]
                dz = dz + _across(x, dw) + db
        return dz

    def pull_back(self, v: Float[Array, "n heads"]) -> Params:
        net = self.net
        return [
            (net.sigma_w / sqrt(x.shape[1]) * (x.T @ delta), net.sigma_b * delta.sum(0))
            for delta, x in zip(self._backward(v)[::-1], self.inputs, strict=True)
        ]

    def pull_back_each(
        self, v: Float[Array, "vectors n heads"]
    ) -> list[tuple[Float[Array, "vectors _fan_in _fan_out"], Float[Array, "vectors _fan_out"]]]:
        """J' v of several vectors v, on the leading axis of every array."""
        if v.shape[2] > 1:
            return vmap(self.pull_back)(v)
        net = self.net
        v = v[:, None, :, 0]
        *hidden, last = self.inputs
        # The derivatives of the single output are common to all vectors, and to `kernel_matrix`.
        gradients = []
        for delta, x in zip(self._of_one_output()[:-1], hidden, strict=True):
            weighted = jnp.concatenate([net.sigma_w / sqrt(x.shape[1]) * v * x.T, net.sigma_b * v], axis=1)
            gradient = (weighted.reshape(-1, v.shape[2]) @ delta).reshape(*weighted.shape[:2], -1)
            gradients.append((gradient[:, :-1], gradient[:, -1]))
        weights = net.sigma_w / sqrt(last.shape[1]) * (v[:, 0] @ last)
        return [*gradients, (weights[:, :, None], net.sigma_b * v.sum(2))]

    def push_forward_columns(self, changes: Any) -> Float[Array, "n columns"]:
        """J times several changes of the parameters of one output, on the leading axis of every array."""
        net, total = self.net, jnp.zeros(())
        for (dw, db), x, delta in zip(changes, self.inputs, self._of_one_output(), strict=False):
            total = total + net.sigma_w / sqrt(x.shape[1]) * _along(x, dw, delta) + net.sigma_b * (delta @ db.T)
        return total

    def pull_back_columns(self, v: Float[Array, "columns n"]) -> Any:
        """J' v of several vectors v, of one output, on the leading axis of every array."""
        return self.pull_back_each(v[:, :, None])

    def kernel_product(self, v: Float[Array, "n heads"]) -> Float[Array, "n heads"]:
        deltas = self._backward(v)[::-1]
        dz = self.grams[0] @ deltas[0]
        for w, slope, gram, delta in zip(self.weights[1:], self.slopes, self.grams[1:], deltas[1:], strict=True):
            dz = (slope * dz) @ w + gram @ delta
        return dz

    def kernel_matrix(self) -> Float[Array, "n_heads n_heads"]:
        n, heads = self.inputs[0].shape[0], self.weights[-1].shape[1]
        identity = jnp.eye(heads, dtype=self.grams[-1].dtype)
        total = jnp.einsum("ij,ab->iajb", self.grams[-1], identity).reshape(n * heads, n * heads)
        delta = jnp.broadcast_to(self.transposed[-1], (n, *self.transposed[-1].shape))
        for l in reversed(range(len(self.slopes))):
            delta = delta * self.slopes[l][:, None, :]
            flat = delta.reshape(n * heads, -1)
            total += gram(flat) * jnp.repeat(jnp.repeat(self.grams[l], heads, 0), heads, 1)
            delta = delta @ self.transposed[l]
        return total

    def in_float32(self) -> "LinearMLP":
        return jax.tree.map(lambda a: a.astype(jnp.float32), self)

    def last_layer_gram(self) -> Float[Array, "n n"]:
        """The last layer's part of Theta for one head."""
        return self.grams[-1]

    def _of_one_output(self) -> list[Array]:
        """d/dz^l of the only output at each point, for l = 1..L."""
        return self._backward(jnp.ones_like(self.inputs[0][:, :1]))[::-1]

    def _backward(self, v: Array) -> list[Array]:
        """d/dz^l of <v, f(X)>, for l = L..1."""
        deltas = [v]
        for w, slope in zip(self.transposed[:0:-1], self.slopes[::-1], strict=True):
            deltas.append((deltas[-1] @ w) * slope)
        return deltas
