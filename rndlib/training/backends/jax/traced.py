"""A network of the user's own and its tangent at a parameter vector, by JAX's own differentiation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, vmap
from jaxtyping import Array, Float

FORMED = 2**26
"""Most derivatives, points times heads times parameters, that are held at once to form a kernel."""


class Traced:
    """A function of parameters, linearised on N points: `rndlib.training.protocols.Linearised` for any network.

    function : `function(params, X)` returns (N, heads); the outputs at a point depend on that point alone.
    params : layers of tensors, of which the last is the head, with the outputs on the first axis.
    """

    def __init__(self, function: Callable[[Any, Any], Any], params: Any, X: Float[Array, "n *shape"]):
        self.function, self.params, self.X = function, params, X
        self.values, self.push_forward = jax.linearize(lambda params: function(params, X), params)
        self._transposed = jax.linear_transpose(self.push_forward, params)

    def pull_back(self, v: Float[Array, "n heads"]) -> Any:
        return self._transposed(v)[0]

    def pull_back_each(self, v: Float[Array, "vectors n heads"]) -> Any:
        """J' v of several vectors v, on the leading axis of every array."""
        return vmap(self.pull_back)(v)

    def kernel_product(self, v: Float[Array, "n heads"]) -> Float[Array, "n heads"]:
        return self.push_forward(self.pull_back(v))

    def kernel_matrix(self) -> Float[Array, "n_heads n_heads"]:
        n, heads = self.values.shape
        derivatives = vmap(jax.jacrev(lambda params, x: self.function(params, x[None])[0]), (None, 0))
        total = self._gram(lambda X: derivatives(self.params, X), heads)
        return total.reshape(n * heads, n * heads)

    def in_float32(self) -> "Traced":
        params, X = jax.tree.map(lambda a: a.astype(jnp.float32), (self.params, self.X))
        return Traced(self.function, params, X)

    def last_layer_gram(self) -> Float[Array, "n n"]:
        """The last layer's part of Theta for one head."""
        *body, head = self.params

        def output(head: Any, x: Any) -> Any:
            return self.function([*body, head], x[None])[0, 0]

        each = vmap(jax.grad(output), (None, 0))
        return self._gram(lambda X: jax.tree.map(lambda a: a[:, None], each(head, X)), 1)[:, 0, :, 0]

    def _gram(self, jacobian: Callable[[Any], Any], heads: int) -> Float[Array, "n heads n heads"]:
        """J J', with J of as many points at a time as `FORMED` allows: leaves (points, heads, *tensor)."""
        n, size = len(self.X), sum(a.size for a in jax.tree.leaves(self.params))
        rows = max(1, min(n, FORMED // (heads * size)))
        blocks = -(-n // rows)
        X = jnp.concatenate([self.X, jnp.broadcast_to(self.X[:1], (blocks * rows - n, *self.X.shape[1:]))])

        def flat(X: Any) -> list[Any]:
            # Without the barrier, XLA of jaxlib 0.5 simplifies the gram of some heads for ever.
            return lax.optimization_barrier([a.reshape(rows * heads, -1) for a in jax.tree.leaves(jacobian(X))])

        def product(left: list[Any], right: list[Any]) -> Any:
            return sum(a @ b.T for a, b in zip(left, right, strict=True))

        X = X.reshape(blocks, rows, *X.shape[1:])

        def row(i: Any, total: Any) -> Any:
            left = flat(X[i])

            def with_mirror(j: Any, total: Any) -> Any:
                part = product(left, flat(X[j]))
                return total.at[i, j].set(part).at[j, i].set(part.T)

            return lax.fori_loop(i + 1, blocks, with_mirror, total.at[i, i].set(product(left, left)))

        each = rows * heads
        total = lax.fori_loop(0, blocks, row, jnp.zeros((blocks, blocks, each, each), self.values.dtype))
        total = total.reshape(blocks, blocks, rows, heads, rows, heads).transpose(0, 2, 3, 1, 4, 5)
        return total.reshape(blocks * rows, heads, blocks * rows, heads)[:n, :, :n]
