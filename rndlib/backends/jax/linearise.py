"""One network (Eq. 1) and its tangent at a parameter vector, without ever forming the Jacobian.

With `delta^l` the derivative of the outputs with respect to the preactivations `z^l`, layer l adds
`(delta^l delta^l') G^l` to the tangent kernel, where `G^l = sigma_w^2 / n_{l-1} x^l x^l' + sigma_b^2` is N x N. So
a product with the kernel goes backward and forward through the layers and costs what two forward passes do.
"""

from math import sqrt
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from rndlib.backends.jax.activations import VALUE_AND_SLOPE
from rndlib.network import MLP

# Fan-in and fan-out differ from layer to layer: names with an underscore bind nothing.
Params = list[tuple[Float[Array, "_fan_out _fan_in"], Float[Array, "_fan_out"]]]
Bodies = list[tuple[Float[Array, "bodies _fan_out _fan_in"], Float[Array, "bodies _fan_out"]]]


# Up to this fan-in a sum of outer products beats XLA's matrix product, whose inner loop is then too short.
_NARROW = 8


class Linear(NamedTuple):
    """What the tangent of a network on N points needs: Eq. 1 evaluated at its parameters.

    inputs: x^l, (N, n_{l-1}), for l = 1..L.
    slopes: phi'(z^l), (N, n_l), for l = 1..L-1.
    weights: sigma_w / sqrt(n_{l-1}) w^l, (n_l, n_{l-1}), for l = 1..L.
    transposed: their transposes, (n_{l-1}, n_l): XLA's CPU product with a transposed view is several times slower.
    grams: G^l, (N, N), for l = 1..L.
    """

    inputs: list[Array]
    slopes: list[Array]
    weights: list[Array]
    transposed: list[Array]
    grams: list[Array]


def _across(x: Array, w: Array) -> Array:
    """x w', with x (N, n_{l-1}) and w (n_l, n_{l-1})."""
    if w.shape[1] <= _NARROW:
        return sum((x[:, j : j + 1] * w[:, j] for j in range(1, w.shape[1])), x[:, :1] * w[:, 0])
    return x @ w.T


def _affine(net: MLP, w: Array, b: Array, x: Array) -> Array:
    return _across(x, net.sigma_w / sqrt(w.shape[1]) * w) + net.sigma_b * b


def apply(net: MLP, params: Params, X: Float[Array, "n d"]) -> Float[Array, "n heads"]:
    """f(X; theta), Eq. 1."""
    x = X
    for w, b in params[:-1]:
        x, _ = VALUE_AND_SLOPE[net.activation](_affine(net, w, b, x))
    return _affine(net, *params[-1], x)


def body_tangent(net: MLP, params: Params, directions: Params, X: Float[Array, "n d"]) -> Float[Array, "n heads"]:
    """The Bayesian target g~ of Proposition rndntkgpinit: J_theta f(X) psi, with the last layer's part of psi zero."""
    x, dx = X, jnp.zeros_like(X)
    for l, ((w, b), (dw, db)) in enumerate(zip(params[:-1], directions, strict=True)):
        z = _affine(net, w, b, x)
        dz = _affine(net, dw, db, x)
        if l:  # the data itself does not move
            dz += net.sigma_w / sqrt(w.shape[1]) * dx @ w.T
        x, slope = VALUE_AND_SLOPE[net.activation](z)
        dx = slope * dz
    w, _ = params[-1]
    return net.sigma_w / sqrt(w.shape[1]) * dx @ w.T


def linearise(net: MLP, params: Params, X: Float[Array, "n d"]) -> tuple[Float[Array, "n heads"], Linear]:
    """f(X; theta) and its tangent there."""
    inputs, slopes, weights, grams = [], [], [], []
    x = z = X
    for l, (w, b) in enumerate(params):
        if l:
            x, slope = VALUE_AND_SLOPE[net.activation](z)
            slopes.append(slope)
        inputs.append(x)
        weights.append(net.sigma_w / sqrt(w.shape[1]) * w)
        grams.append(net.sigma_w**2 / w.shape[1] * x @ x.T + net.sigma_b**2)
        z = _affine(net, w, b, x)
    return z, Linear(inputs, slopes, weights, [w.T for w in weights], grams)


def _backward(at: Linear, v: Array) -> list[Array]:
    """d/dz^l of <v, f(X)>, for l = L..1."""
    deltas = [v]
    for w, slope in zip(at.weights[:0:-1], at.slopes[::-1], strict=True):
        deltas.append((deltas[-1] @ w) * slope)
    return deltas


def pull_back(net: MLP, at: Linear, v: Float[Array, "n heads"]) -> Params:
    """J' v, in parameter space."""
    return [
        (net.sigma_w / sqrt(x.shape[1]) * delta.T @ x, net.sigma_b * delta.sum(0))
        for delta, x in zip(_backward(at, v)[::-1], at.inputs, strict=True)
    ]


def push_forward(net: MLP, at: Linear, d_params: Params) -> Float[Array, "n heads"]:
    """J d_theta, in function space."""
    dz = jnp.zeros((at.inputs[0].shape[0], 0))
    for l, ((dw, db), x) in enumerate(zip(d_params, at.inputs, strict=True)):
        carried = (at.slopes[l - 1] * dz) @ at.transposed[l] if l else 0.0
        dz = carried + _affine(net, dw, db, x)
    return dz


def kernel_product(at: Linear, v: Float[Array, "n heads"]) -> Float[Array, "n heads"]:
    """Theta v = J J' v, with Theta the empirical tangent kernel over points and heads."""
    deltas = _backward(at, v)[::-1]
    dz = at.grams[0] @ deltas[0]
    for w, slope, gram, delta in zip(at.transposed[1:], at.slopes, at.grams[1:], deltas[1:], strict=True):
        dz = (slope * dz) @ w + gram @ delta
    return dz


def kernel_matrix(at: Linear) -> Float[Array, "n_heads n_heads"]:
    """Theta as a matrix over (point, head) pairs, point-major."""
    n, heads = at.inputs[0].shape[0], at.weights[-1].shape[0]
    total = jnp.einsum("ij,ab->iajb", at.grams[-1], jnp.eye(heads)).reshape(n * heads, n * heads)
    delta = jnp.broadcast_to(at.weights[-1], (n, *at.weights[-1].shape))
    for l in reversed(range(len(at.slopes))):
        delta = delta * at.slopes[l][:, None, :]
        flat = delta.reshape(n * heads, -1)
        total += (flat @ flat.T) * jnp.repeat(jnp.repeat(at.grams[l], heads, 0), heads, 1)
        delta = delta @ at.weights[l]
    return total
