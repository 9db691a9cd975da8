"""A network of the user's own and its tangent at a parameter vector, by JAX's own differentiation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, vmap
from jaxtyping import Array, Float

from rndlib.factors import Factors, at_once, product, sizes
from rndlib.training.backends.jax.factors import factors

FORMED = 2**26
"""Most numbers that are held at once: twice in the factors of derivatives that form a kernel, and in rows of J."""


class Traced:
    """A function of parameters, linearised on N points: `rndlib.training.protocols.Linearised` for any network.

    function : `function(params, X)` returns (N, heads); the outputs at a point depend on that point alone.
    params : layers of tensors, of which the last is the head, with the outputs on the first axis.
    """

    def __init__(self, function: Callable[[Any, Any], Any], params: Any, X: Float[Array, "n *shape"]):
        self.function, self.params, self.X = function, params, X
        self.values, self._pushed = jax.linearize(lambda params: function(params, X), params)
        self._transposed = jax.linear_transpose(self._pushed, params)

    def push_forward(self, change: Any) -> Float[Array, "n heads"]:
        return self._pushed([*change, *jax.tree.map(jnp.zeros_like, self.params[len(change) :])])

    def pull_back(self, v: Float[Array, "n heads"]) -> Any:
        return self._transposed(v)[0]

    def pull_back_each(self, v: Float[Array, "vectors n heads"]) -> Any:
        """J' v of several vectors v, on the leading axis of every array."""
        return vmap(self.pull_back)(v)

    def push_forward_columns(self, changes: Any) -> Float[Array, "n columns"]:
        """J times several changes of the parameters of one output. Each row of J is formed once, for all of them."""
        flat = jax.tree.map(lambda a: a.reshape(len(a), -1), changes)

        def products(x: Any) -> Any:
            J = self._rows(x)[: len(flat)]
            each = jax.tree.map(lambda rows, change: rows.reshape(len(rows), -1) @ change.T, J, flat)
            return sum(jax.tree.leaves(each))

        columns = lax.map(products, self._blocks(self._most_rows))
        return columns.reshape(-1, columns.shape[-1])[: len(self.X)]

    def pull_back_columns(self, v: Float[Array, "columns n"]) -> Any:
        """J' v of several vectors v, of one output, by the rows of J."""

        def added(total: Any, block: Any) -> Any:
            x, some = block
            return jax.tree.map(lambda a, J: a + jnp.tensordot(some, J, ((0,), (0,))), total, self._rows(x)), None

        none = jax.tree.map(lambda a: jnp.zeros((len(v), *a.shape), a.dtype), self.params)
        blocks = self._blocks(self._most_rows)
        rows = blocks.shape[1]
        padded = jnp.concatenate([v.T, jnp.zeros((blocks.shape[0] * rows - len(v.T), len(v)), v.dtype)])
        return lax.scan(added, none, (blocks, padded.reshape(-1, rows, len(v))))[0]

    @property
    def _most_rows(self) -> int:
        return FORMED // sum(a.size for a in jax.tree.leaves(self.params))

    def _rows(self, x: Float[Array, "rows *shape"]) -> Any:
        """J of one output at some points, which come first in every array."""
        return vmap(jax.grad(lambda params, x: self.function(params, x[None])[0, 0]), (None, 0))(self.params, x)

    def _blocks(self, most: int) -> Float[Array, "blocks rows *shape"]:
        """The points in blocks of at most so many, at least one; the last is filled with the first point."""
        X, rows = self.X, max(1, min(len(self.X), most))
        filled = jnp.concatenate([X, jnp.broadcast_to(X[:1], (-len(X) % rows, *X.shape[1:]))])
        return filled.reshape(-1, rows, *X.shape[1:])

    def kernel_product(self, v: Float[Array, "n heads"]) -> Float[Array, "n heads"]:
        return self.push_forward(self.pull_back(v))

    def kernel_matrix(self) -> Float[Array, "n_heads n_heads"]:
        size = self.values.size
        return self._gram(self.function, self.params).reshape(size, size)

    def in_float32(self) -> "Traced":
        params, X = jax.tree.map(lambda a: a.astype(jnp.float32), (self.params, self.X))
        return Traced(self.function, params, X)

    def last_layer_gram(self) -> Float[Array, "n n"]:
        """The last layer's part of Theta for one head."""
        *body, head = self.params
        return self._gram(lambda head, X: self.function([*body, head], X)[:, :1], head)[:, 0, :, 0]

    def _gram(self, function: Callable[[Any, Any], Any], params: Any) -> Float[Array, "n heads n heads"]:
        """J J' of a function of some parameters, with J of as many points at a time as `FORMED` allows."""
        one = jax.eval_shape(partial(factors, function, params), self.X[:1])
        X = self._blocks(at_once(sizes(one), 2 * FORMED))
        n, heads, (blocks, rows) = len(self.X), one[0][1].shape[1], X.shape[:2]

        def each(X: Any) -> list[Factors]:
            # Without the barrier, XLA of jaxlib 0.5 simplifies the gram of some heads for ever.
            return lax.optimization_barrier(factors(function, params, X))

        def products(left: list[Factors], right: list[Factors]) -> Any:
            return sum(map(product, left, right))

        def row(i: Any, total: Any) -> Any:
            left = each(X[i])

            def with_mirror(j: Any, total: Any) -> Any:
                part = products(left, each(X[j]))
                return total.at[i, :, :, j].set(part).at[j, :, :, i].set(part.transpose(2, 3, 0, 1))

            return lax.fori_loop(i + 1, blocks, with_mirror, total.at[i, :, :, i].set(products(left, left)))

        total = jnp.zeros((blocks, rows, heads, blocks, rows, heads), self.values.dtype)
        total = lax.fori_loop(0, blocks, row, total)
        return total.reshape(blocks * rows, heads, blocks * rows, heads)[:n, :, :n]
