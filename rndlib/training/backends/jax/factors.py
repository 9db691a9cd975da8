"""The derivatives of any function with respect to its weights, in factors where it allows them (`rndlib.factors`).

The function is traced at one point. A tensor of weights that is used once, in a matrix product or a convolution, has
factors: what it is multiplied with, and the derivative with respect to the result. It may be reshaped or multiplied by
a number before. The derivatives of all other tensors are formed: biases, gains, what is used twice or sliced, and
whatever goes through a loop.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rndlib.factors import Factors, formed, shorter
from rndlib.training.backends.jax.convolutions import is_plain, patches, positions_first
from rndlib.training.backends.jax.evaluation import bound, evaluated

_MOVES = {"reshape", "transpose", "squeeze", "broadcast_in_dim", "convert_element_type", "copy", "rev", "neg"}


def factors(function: Callable[[Any, Any], Any], params: Any, X: Any) -> list[Factors]:
    """The factors of each array of `params`, in the order of `jax.tree.leaves`.

    function : `function(params, X)` returns (N, outputs); the outputs at a point depend on that point alone.
    """
    leaves, tree = jax.tree.flatten(params)
    traced = jax.make_jaxpr(lambda leaves, x: function(jax.tree.unflatten(tree, leaves), x[None])[0])(leaves, X[0])
    looked = _Run(traced, {})
    jax.eval_shape(lambda leaves, x: looked(dict(enumerate(map(_Weight, range(len(leaves)), leaves))), x), leaves, X[0])
    once = {leaf: shape for leaf, shape in looked.written.items() if leaf not in looked.otherwise}

    def outputs(given: dict[int, Any], x: Any) -> Any:
        run = _Run(traced, given)
        out = run({i: _Weight(i, leaf) if i in once else given[i] for i, leaf in enumerate(leaves)}, x)
        return out, run.read

    given = {i: jnp.zeros(once[i], leaf.dtype) if i in once else leaf for i, leaf in enumerate(leaves)}
    derivatives, read = jax.vmap(jax.jacrev(outputs, has_aux=True), (None, 0))(given, X)
    return [shorter(read[i], d) if i in once else formed(d, *d.shape[:2]) for i, d in derivatives.items()]


@dataclass(frozen=True)
class _Weight:
    """The tensor number `leaf`, reshaped and multiplied by `factor`."""

    leaf: int
    value: Any
    factor: Any = 1.0


class _Run:
    """One evaluation. The results of products with weights are moved by what is given for them, (S, fan-out).

    It notes what weights read and the shapes of what they write, (S, fan-in) and (S, fan-out), and which of them are
    used otherwise or more than once.
    """

    def __init__(self, traced: Any, given: dict[int, Any]):
        self.traced, self.given = traced, given
        self.read: dict[int, Any] = {}
        self.written: dict[int, tuple[int, int]] = {}
        self.otherwise: set[int] = set()

    def __call__(self, leaves: dict[int, Any], x: Any) -> Any:
        (out,) = evaluated(self.traced.jaxpr, self.traced.consts, [*leaves.values(), x], self._step)
        return self._plain(out)

    def _step(self, step: Any, values: list[Any]) -> list[Any]:
        name, weights = step.primitive.name, [i for i, value in enumerate(values) if isinstance(value, _Weight)]
        if len(weights) == 1:
            (index,), weight = weights, values[weights[0]]
            others = values[:index] + values[index + 1 :]
            bare = [*values[:index], weight.value, *values[index + 1 :]]
            if name in _MOVES and step.outvars[0].aval.size == weight.value.size:
                sign = -1.0 if name == "neg" else 1.0
                return [replace(weight, value=bound(step, bare)[0], factor=sign * weight.factor)]
            if name in ("mul", "div") and np.ndim(others[0]) == 0 and (name == "mul" or index == 0):
                factor = weight.factor * others[0] if name == "mul" else weight.factor / others[0]
                return [replace(weight, value=bound(step, bare)[0], factor=factor)]
            if (
                len(values) == 2
                and weight.leaf not in self.written
                and (found := _product(step, others[0], weight.value, index))
            ):
                return [self._moved(weight, bound(step, bare)[0], *found)]
        return bound(step, [self._plain(value) for value in values])

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, _Weight):
            return value
        self.otherwise.add(value.leaf)
        return value.value

    def _moved(self, weight: _Weight, result: Any, read: Any, order: list[int]) -> Any:
        self.read[weight.leaf] = weight.factor * read
        self.written[weight.leaf] = len(read), result.size // len(read)
        if weight.leaf not in self.given:
            return result
        shape = [result.shape[axis] for axis in order]
        moved = self.given[weight.leaf].reshape(shape).transpose(np.argsort(order))
        return result + moved.astype(result.dtype)


def _product(step: Any, data: Any, weight: Any, index: int) -> tuple[Any, list[int]] | None:
    """What the weights, operand `index`, read at each position, and the axes of the result: positions, then outputs."""
    axes, given = list(range(step.outvars[0].aval.ndim)), step.params
    if step.primitive.name == "dot_general" and not given["dimension_numbers"][1][0]:
        summed = given["dimension_numbers"][0][1 - index]
        read = jnp.moveaxis(data, summed, range(-len(summed), 0)).reshape(-1, prod(data.shape[a] for a in summed))
        outputs = weight.ndim - len(summed)
        return read, axes if index else axes[outputs:] + axes[:outputs]
    if index == 1 and weight.size and is_plain(step):
        read = patches(step, data, weight.shape)
        return read.reshape(-1, read.shape[-1]), positions_first(step)
    return None
