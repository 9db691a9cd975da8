"""Networks (Eq. 1) and their tangents at their parameters, for a batch of bodies at once.

The mathematics is that of the JAX backend: layer l adds `(delta^l delta^l') G^l` to the tangent kernel. Here the bodies
are a leading axis of every array: PyTorch starts each operation from Python, which for one narrow network takes longer
than the operation, and `torch.func.vmap` would double that. Scales go with the inputs, which are small, and not with
the weights: nothing of the parameters' size is allocated but the parameters.
"""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.activations import value, value_and_slope

# Fan-in and fan-out differ from layer to layer: names with an underscore bind nothing.
Params = list[tuple[Float[Tensor, "*stack _fan_out _fan_in"], Float[Tensor, "*stack _fan_out"]]]
Bodies = list[tuple[Float[Tensor, "bodies _fan_out _fan_in"], Float[Tensor, "bodies _fan_out"]]]


class _Evaluated(NamedTuple):
    """Eq. 1 of a batch of networks, evaluated on N points.

    inputs: sigma_w / sqrt(n_{l-1}) x^l, (bodies, N, n_{l-1}), for l = 1..L.
    preactivations: z^l, (bodies, N, n_l), for l = 1..L; the last is f(X).
    slopes: sigma_w / sqrt(n_l) phi'(z^l), (bodies, N, n_l), for l = 1..L-1.
    weights: w^l, (bodies, n_l, n_{l-1}), for l = 1..L, those of the networks themselves.
    grams: G^l = sigma_w^2 / n_{l-1} x^l x^l' + sigma_b^2, (bodies, N, N), for l = 1..L.
    """

    inputs: list[Tensor]
    preactivations: list[Tensor]
    slopes: list[Tensor]
    weights: list[Tensor]
    grams: list[Tensor]


def apply(net: MLP, params: Params, X: Float[Tensor, "n d"]) -> Float[Tensor, "*stack n heads"]:
    """f(X; theta), Eq. 1, of one network or of a stack of them."""
    x = X
    for layer, (w, b) in enumerate(params, start=1):
        z = (net.sigma_w / sqrt(w.shape[-1]) * x) @ w.mT + net.sigma_b * b[..., None, :]
        x = z if layer == net.depth else value(net.activation)(z)
    return x


def body_tangent(net: MLP, params: Params, directions: Params, X: Float[Tensor, "n d"]) -> Float[Tensor, "n heads"]:
    """The Bayesian target g~ of Proposition 4.1: J_theta f(X) psi, with the last layer's part of psi zero.

    Of one network, and forward by hand: on its first call `torch.func.jvp` loads decompositions for seconds, with a
    DeprecationWarning from PyTorch's own code.
    """
    x, dx = X, torch.zeros_like(X)
    for (w, b), (dw, db) in zip(params[:-1], directions, strict=True):
        scale = net.sigma_w / sqrt(w.shape[1])
        dz = (scale * x) @ dw.mT + (scale * dx) @ w.mT + net.sigma_b * db
        x, slope = value_and_slope(net.activation)((scale * x) @ w.mT + net.sigma_b * b)
        dx = slope * dz
    w, _ = params[-1]
    return (net.sigma_w / sqrt(w.shape[1]) * dx) @ w.mT


def linearise(net: MLP, params: Bodies, X: Float[Tensor, "*stack n d"]) -> "LinearMLP":
    """The networks on X, the same for all bodies or one for each, and their tangents there."""
    inputs, preactivations, slopes, grams = [], [], [], []
    x = X.expand(len(params[0][0]), *X.shape[-2:])
    for layer, (w, b) in enumerate(params, start=1):
        scale = net.sigma_w / sqrt(w.shape[-1])
        inputs.append(scale * x)
        grams.append(inputs[-1] @ inputs[-1].mT + net.sigma_b**2)
        preactivations.append(inputs[-1] @ w.mT + net.sigma_b * b[:, None])
        if layer < net.depth:
            x, slope = value_and_slope(net.activation)(preactivations[-1])
            slopes.append(net.sigma_w / sqrt(w.shape[-2]) * slope)
    return LinearMLP(net, _Evaluated(inputs, preactivations, slopes, [w for w, _ in params], grams))


class LinearMLP:
    """A batch of networks of one `MLP`, linearised at their parameters, on N points, layer by layer."""

    def __init__(self, net: MLP, at: _Evaluated):
        self.net = net
        self.at = at

    @property
    def values(self) -> Float[Tensor, "bodies n heads"]:
        """f(X)."""
        return self.at.preactivations[-1]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "LinearMLP":
        """The same with a function applied to every array: some of the bodies, or another precision."""
        return LinearMLP(self.net, _Evaluated(*([function(a) for a in part] for part in self.at)))

    def in_float32(self) -> "LinearMLP":
        """The same, for products in float32."""
        return self.mapped(Tensor.float)

    def pull_back_(self, v: Float[Tensor, "bodies n heads"], params: Bodies, rate: float = 1.0) -> None:
        """params -= rate J' v, in place."""
        for (w, b), delta, x in zip(params, self._backward(v, self.at.slopes), self.at.inputs, strict=True):
            w.baddbmm_(delta.mT, x, alpha=-rate)
            b.sub_(delta.sum(1), alpha=rate * self.net.sigma_b)

    def linear_model(self, params: Bodies) -> Float[Tensor, "bodies n heads"]:
        """f(X; theta) + J (params - theta), with theta the parameters that the networks are linearised at."""
        at = self.at
        moved = torch.zeros_like(at.preactivations[0])
        for l, ((w, b), x, z) in enumerate(zip(params, at.inputs, at.preactivations, strict=True)):
            carried = (at.slopes[l - 1] * moved) @ at.weights[l].mT if l else 0.0
            moved = carried + x @ w.mT + self.net.sigma_b * b[:, None] - z
        return at.preactivations[-1] + moved

    def kernel_product(self, v: Float[Tensor, "bodies n vectors heads"]) -> Float[Tensor, "bodies n vectors heads"]:
        """Theta v = J J' v of several vectors v, with Theta the empirical tangent kernel over points and heads."""
        at = self.at
        bodies, n, vectors, heads = v.shape
        # The vectors count as further points, so that each weight matrix is read once.
        slopes = [slope.repeat_interleave(vectors, 1) for slope in at.slopes]
        deltas = self._backward(v.reshape(bodies, n * vectors, heads), slopes)

        def within(gram: Tensor, delta: Tensor) -> Tensor:
            return (gram @ delta.view(bodies, n, -1)).view(delta.shape)

        dz = within(at.grams[0], deltas[0])
        for w, slope, gram, delta in zip(at.weights[1:], slopes, at.grams[1:], deltas[1:], strict=True):
            dz = (slope * dz) @ w.mT + within(gram, delta)
        return dz.view(v.shape)

    def kernel_matrix(self) -> Float[Tensor, "bodies n_heads n_heads"]:
        """Theta as a matrix over (point, head) pairs, point-major."""
        at = self.at
        bodies, n, _ = at.inputs[0].shape
        heads = at.weights[-1].shape[1]
        identity = torch.eye(heads, dtype=at.grams[-1].dtype, device=at.grams[-1].device)
        total = at.grams[-1][:, :, None, :, None] * identity[:, None]  # (bodies, n, heads, n, heads)
        delta = at.weights[-1].repeat(1, n, 1)
        for l in reversed(range(len(at.slopes))):
            delta = (delta.view(bodies, n, heads, -1) * at.slopes[l][:, :, None]).flatten(1, 2)
            products = (delta @ delta.mT).view(bodies, n, heads, n, heads)
            total = total + products * at.grams[l][:, :, None, :, None]
            if l:
                delta = delta @ at.weights[l]
        return total.reshape(bodies, n * heads, n * heads)

    def last_layer_gram(self) -> Float[Tensor, "bodies n n"]:
        """The last layer's part of Theta for one head."""
        return self.at.grams[-1]

    def _backward(self, v: Tensor, slopes: list[Tensor]) -> list[Tensor]:
        """d/dz^l of <v, f(X)>, for l = 1..L."""
        deltas = [v]
        for w, slope in zip(self.at.weights[:0:-1], slopes[::-1], strict=True):
            deltas.append((deltas[-1] @ w) * slope)
        return deltas[::-1]
