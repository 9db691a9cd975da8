"""Networks (Eq. 1) and their tangents at their parameters, for a batch of bodies at once.

The mathematics is that of the JAX backend, with the bodies as a leading axis of every array: PyTorch starts each
operation from Python, which for one narrow network takes longer than the operation. Scales go with the inputs, which
are smaller than the weights.
"""

from collections.abc import Callable
from functools import cached_property
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.activations import value, value_and_slope
from rndlib.training.backends.torch.traced import Traced, TracedBody
from rndlib.training.trees import mapped

# Fan-in and fan-out differ from layer to layer; jaxtyping does not bind names with an underscore.
Params = list[tuple[Float[Tensor, "*stack _fan_out _fan_in"], Float[Tensor, "*stack _fan_out"]]]
Bodies = list[tuple[Float[Tensor, "bodies _fan_out _fan_in"], Float[Tensor, "bodies _fan_out"]]]


def apply(net: Any, params: Any, X: Float[Tensor, "n *shape"]) -> Float[Tensor, "*stack n heads"]:
    """f(X; theta), Eq. 1, of one network or of a stack of them. A network of the user's own comes in stacks only."""
    if not isinstance(net, MLP):
        return torch.stack([net.of_omega(one, X) for one in _unstacked(params)])
    x = X
    for layer, (w, b) in enumerate(params, start=1):
        z = (net.sigma_w / sqrt(w.shape[-1]) * x) @ w.mT + net.sigma_b * b[..., None, :]
        x = z if layer == net.depth else value(net.activation)(z)
    return x


def linearised(
    net: Any, params: Any, X: Float[Tensor, "..."], own: bool = False
) -> tuple[Float[Tensor, "bodies n heads"], "LinearMLP | Traced"]:
    """f(X; theta) and its tangent there, with the same X for all bodies or, if `own`, one for each."""
    if not isinstance(net, MLP):
        points = X if own else [X] * len(params[-1][0])
        each = zip(_unstacked(params), points, strict=True)
        traced = Traced([TracedBody(net.of_omega, one, x) for one, x in each])
        return traced.values, traced
    inputs, slopes = [], []
    z, x = X, X.expand(len(params[0][0]), *X.shape[-2:])
    for layer, (w, b) in enumerate(params, start=1):
        inputs.append(net.sigma_w / sqrt(w.shape[-1]) * x)
        z = inputs[-1] @ w.mT + net.sigma_b * b[:, None]
        if layer < net.depth:
            x, slope = value_and_slope(net.activation)(z)
            slopes.append(net.sigma_w / sqrt(w.shape[-2]) * slope)
    return z, LinearMLP(net, inputs, slopes, [w for w, _ in params])


def _unstacked(params: Any) -> list[Any]:
    """The parameters of one body after the other."""
    return [mapped(lambda a, i=i: a[i], params) for i in range(len(params[-1][0]))]


class LinearMLP:
    """A batch of networks of one `MLP`, linearised at their parameters, on N points, layer by layer.

    For l = 1..L, inputs are sigma_w / sqrt(n_{l-1}) x^l, slopes sigma_w / sqrt(n_l) phi'(z^l) (without L), weights w^l.
    """

    def __init__(self, net: MLP, inputs: list[Tensor], slopes: list[Tensor], weights: list[Tensor]):
        self.net, self.inputs, self.slopes, self.weights = net, inputs, slopes, weights

    @cached_property
    def grams(self) -> list[Float[Tensor, "bodies n n"]]:
        """G^l = sigma_w^2 / n_{l-1} x^l x^l' + sigma_b^2, for l = 1..L."""
        return [x @ x.mT + self.net.sigma_b**2 for x in self.inputs]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "LinearMLP":
        """The same with a function applied to every array."""
        return LinearMLP(self.net, *([function(a) for a in part] for part in (self.inputs, self.slopes, self.weights)))

    def bodies(self) -> list["LinearMLP"]:
        """The same of one body after the other, each with a leading axis of one."""
        return [self.mapped(lambda a, i=i: a[i : i + 1]) for i in range(len(self.weights[0]))]

    def in_float32(self) -> "LinearMLP":
        return self.mapped(Tensor.float)

    def push_forward(self, change: Any) -> Float[Tensor, "*stack n heads"]:
        dz = self.inputs[0].new_zeros(())
        for l, x in enumerate(self.inputs):
            dz = (self.slopes[l - 1] * dz) @ self.weights[l].mT if l else dz
            if l < len(change):
                dw, db = change[l]
                dz = dz + x @ dw.mT + self.net.sigma_b * db[..., None, :]
        return dz if change else self.inputs[-1].new_zeros(*self.inputs[-1].shape[:-1], self.weights[-1].shape[-2])

    def pull_back(self, v: Float[Tensor, "*stack n heads"]) -> Any:
        each = zip(self._backward(v, self.slopes), self.inputs, strict=True)
        return [(delta.mT @ x, self.net.sigma_b * delta.sum(-2)) for delta, x in each]

    def push_forward_each(self, changes: Any) -> Float[Tensor, "bodies vectors n heads"]:
        """J times several changes of the parameters, (bodies, vectors, ...)."""
        return self.mapped(lambda a: a[:, None]).push_forward(changes)

    def pull_back_each(self, v: Float[Tensor, "bodies vectors n heads"]) -> Any:
        """J' v of several vectors v, in the shape of the parameters, (bodies, vectors, ...)."""
        return self.mapped(lambda a: a[:, None]).pull_back(v)

    def kernel_product(self, v: Float[Tensor, "bodies vectors n heads"]) -> Float[Tensor, "bodies vectors n heads"]:
        """Theta v of several vectors v."""
        bodies, vectors, n, heads = v.shape
        # The vectors count as further points, so that each weight matrix is read once.
        slopes = [slope.repeat(1, vectors, 1) for slope in self.slopes]
        deltas = self._backward(v.reshape(bodies, vectors * n, heads), slopes)

        def within(gram: Tensor, delta: Tensor) -> Tensor:
            return (gram[:, None] @ delta.view(bodies, vectors, n, -1)).view(delta.shape)

        dz = within(self.grams[0], deltas[0])
        for w, slope, gram, delta in zip(self.weights[1:], slopes, self.grams[1:], deltas[1:], strict=True):
            dz = (slope * dz) @ w.mT + within(gram, delta)
        return dz.view(v.shape)

    def kernel_matrix(self) -> Float[Tensor, "bodies n_heads n_heads"]:
        bodies, n, _ = self.inputs[0].shape
        last, heads = self.last_layer_gram(), self.weights[-1].shape[1]
        identity = torch.eye(heads, dtype=last.dtype, device=last.device)
        total = last[:, :, None, :, None] * identity[:, None]  # (bodies, n, heads, n, heads)
        delta = self.weights[-1].repeat(1, n, 1)
        for l in reversed(range(len(self.slopes))):
            delta = (delta.view(bodies, n, heads, -1) * self.slopes[l][:, :, None]).flatten(1, 2)
            products = (delta @ delta.mT).view(bodies, n, heads, n, heads)
            total = total + products * self.grams[l][:, :, None, :, None]
            if l:
                delta = delta @ self.weights[l]
        return total.reshape(bodies, n * heads, n * heads)

    def last_layer_gram(self) -> Float[Tensor, "bodies n n"]:
        """The last layer's part of Theta for one head."""
        return self.grams[-1]

    def _backward(self, v: Tensor, slopes: list[Tensor]) -> list[Tensor]:
        """d/dz^l of <v, f(X)>, for l = 1..L."""
        deltas = [v]
        for w, slope in zip(self.weights[:0:-1], slopes[::-1], strict=True):
            deltas.append((deltas[-1] @ w) * slope)
        return deltas[::-1]
