"""The derivatives of a function of the user's own with respect to its weights, in factors (`rndlib.factors`).

The function is traced at one point. Where a matrix product reads a tensor of weights, or a part of it, and the point's
data, the data and the derivative with respect to the product are the two factors. Derivatives with respect to other
parts, such as biases, are formed. Between a tensor and its use may stand what moves, selects, or scales its entries by
common numbers: J J' then is the sum over parts, each times its scale squared. A tensor for which this does not hold,
say as it is used twice, has its derivative formed as a whole.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import Literal

from rndlib.factors import Factors, formed, shorter

_LINEAR = {
    "mul", "div", "neg", "reshape", "transpose", "squeeze", "slice", "dynamic_slice", "copy", "rev",
    "convert_element_type", "broadcast_in_dim",
}  # fmt: skip
_INLINED = {"pjit", "jit", "closed_call"}


def factors(function: Callable[[Any, Any], Any], params: Any, X: Any) -> list[list[Factors]]:
    """The factors of every array of `params`, those of its parts one after the other.

    function : `function(params, X)` returns (N, K); the outputs at a point depend on that point alone. Factors have
        N K rows, all outputs of a point together.
    """
    leaves, tree = jax.tree.flatten(params)
    traced = jax.make_jaxpr(lambda leaves, x: function(jax.tree.unflatten(tree, leaves), x[None])[0])(leaves, X[0])
    parts, scales, whole = [], [], set()
    while not parts or None in scales:
        whole |= {part.leaf for part, scale in zip(parts, scales, strict=True) if scale is None}
        run = _Run(whole)
        run(traced, leaves, X[0])
        parts = run.parts
        scales = _scales(parts, leaves)

    def outputs(given: list[Any], x: Any) -> tuple[Any, list[Any]]:
        run = _Run(whole, given)
        return run(traced, leaves, x), [part.read for part in run.parts]

    given = [part.value if part.read is None else jnp.zeros(part.written, part.value.dtype) for part in parts]
    derivatives, reads = jax.vmap(jax.jacrev(outputs, has_aux=True), (None, 0))(given, X)
    found: list[list[Factors]] = [[] for _ in leaves]
    for part, scale, d, a in zip(parts, scales, derivatives, reads, strict=True):
        rows, heads = d.shape[0] * d.shape[1], d.shape[1]
        if a is None:
            found[part.leaf].append(formed(scale * d.reshape(rows, -1)))
        else:
            d = d.reshape(rows, -1, *part.written[-1:]) if part.last else d.reshape(rows, part.fan_out, -1).mT
            found[part.leaf].append(shorter(jnp.repeat(a, heads, 0), scale * d.reshape(rows, a.shape[1], -1)))
    return found


@dataclass
class _Weight:
    """A part of the tensor number `leaf`, its value, and the linear function that makes it of the tensor."""

    leaf: int
    value: Any
    of_tensor: Callable[[Any], Any]


@dataclass
class _Data:
    """What depends on the point."""

    value: Any


@dataclass
class _Part:
    """A use of weights; if in a matrix product, what it reads (S, fan-in), and the shape that it is written in."""

    leaf: int
    value: Any
    of_tensor: Callable[[Any], Any]
    read: Any = None
    written: tuple[int, ...] = ()
    fan_out: int = 0
    last: bool = True


class _Run:
    """One evaluation, which lists the uses of weights in order; with `given`, they are replaced by these, or moved."""

    def __init__(self, whole: set[int], given: list[Any] | None = None):
        self.whole, self.given = whole, given
        self.parts: list[_Part] = []

    def __call__(self, traced: Any, leaves: list[Any], x: Any) -> Any:
        weights = [_Weight(index, leaf, lambda a: a) for index, leaf in enumerate(leaves)]
        inputs = [_Data(self._used(w)) if w.leaf in self.whole else w for w in weights]
        (out,) = self._evaluate(traced.jaxpr, traced.consts, [*inputs, _Data(x)])
        return self._plain(out)

    def _evaluate(self, jaxpr: Any, constants: Any, inputs: list[Any]) -> list[Any]:
        known = dict(zip(jaxpr.constvars, constants, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for step in jaxpr.eqns:
            results = self._step(step, [value(atom) for atom in step.invars])
            known.update(zip(step.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def _step(self, step: Any, values: list[Any]) -> list[Any]:
        name = step.primitive.name
        weights = [index for index, value in enumerate(values) if isinstance(value, _Weight)]
        data = [index for index, value in enumerate(values) if isinstance(value, _Data)]
        if name in _INLINED:
            inner = step.params["jaxpr"] if "jaxpr" in step.params else step.params["call_jaxpr"]
            return self._evaluate(inner.jaxpr, inner.consts, values)
        if not weights and not data:
            with jax.ensure_compile_time_eval() if not _traced(values) else nullcontext():
                return _bound(step, values)
        if len(weights) == 1 and not data and _moves(step, values):
            (index,) = weights
            return [_moved(step, values, index)]
        if name == "dot_general" and len(weights) == len(data) == 1 and not any(step.params["dimension_numbers"][1]):
            return [_Data(self._product(step, values, weights[0]))]
        return [_Data(result) for result in _bound(step, [self._plain(value) for value in values])]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, _Data):
            return value.value
        return self._used(value) if isinstance(value, _Weight) else value

    def _used(self, weight: _Weight) -> Any:
        """The value of weights that are used otherwise than in a matrix product with data."""
        self.parts.append(_Part(weight.leaf, weight.value, weight.of_tensor))
        return weight.value if self.given is None else self.given[len(self.parts) - 1]

    def _product(self, step: Any, values: list[Any], index: int) -> Any:
        weight, data = values[index], values[1 - index].value
        summed = step.params["dimension_numbers"][0][1 - index]
        (result,) = _bound(step, [weight.value, data] if index == 0 else [data, weight.value])
        fan_in = prod(data.shape[axis] for axis in summed)
        read = jnp.moveaxis(data, summed, range(-len(summed), 0)).reshape(-1, fan_in)
        fan_out = weight.value.size // fan_in
        self.parts.append(_Part(weight.leaf, weight.value, weight.of_tensor, read, result.shape, fan_out, index == 1))
        return result if self.given is None else result + self.given[len(self.parts) - 1]


def _bound(step: Any, values: list[Any]) -> list[Any]:
    functions, params = step.primitive.get_bind_params(step.params)
    result = step.primitive.bind(*functions, *values, **params)
    return list(result) if step.primitive.multiple_results else [result]


def _moves(step: Any, values: list[Any]) -> bool:
    """Whether an operation may only move, select or scale the entries of one tensor of weights."""
    (weight,) = (value for value in values if isinstance(value, _Weight))
    divides = step.primitive.name == "div" and values[0] is not weight
    grows = step.outvars[0].aval.size > weight.value.size
    known = not _traced([value for value in values if value is not weight])
    return step.primitive.name in _LINEAR and known and not divides and not grows


def _traced(values: list[Any]) -> bool:
    return any(isinstance(value, Tracer) for value in values)


def _moved(step: Any, values: list[Any], index: int) -> _Weight:
    def apply(a: Any) -> Any:
        return _bound(step, [*values[:index], a, *values[index + 1 :]])[0]

    weight = values[index]
    return _Weight(weight.leaf, apply(weight.value), lambda tensor: apply(weight.of_tensor(tensor)))


def _scales(parts: list[_Part], leaves: list[Any]) -> list[float | None]:
    """The scale of every part; None for those of a tensor whose parts are not what they should be.

    With H the linear function from tensor to parts, H H' must be diagonal and the same for all entries of a part. It
    is applied to random numbers, for which nothing else would look like that.
    """
    scales: list[float | None] = [None] * len(parts)
    generator = np.random.default_rng(0)
    with jax.ensure_compile_time_eval():
        for leaf, tensor in enumerate(leaves):
            own = [index for index, part in enumerate(parts) if part.leaf == leaf]
            if not own:
                continue

            def of_tensor(a: Any, own: list[int] = own) -> list[Any]:
                return [parts[index].of_tensor(a) for index in own]

            shapes = jax.eval_shape(of_tensor, jax.ShapeDtypeStruct(tensor.shape, tensor.dtype))
            probe = [jnp.asarray(generator.standard_normal(shape.shape), shape.dtype) for shape in shapes]
            (back,) = jax.linear_transpose(of_tensor, jax.ShapeDtypeStruct(tensor.shape, tensor.dtype))(probe)
            each = [(float(jnp.vdot(a, b) / jnp.vdot(a, a)), a, b) for a, b in zip(probe, of_tensor(back), strict=True)]
            if all(float(jnp.abs(b - square * a).max()) <= 1e-4 * abs(square) for square, a, b in each):
                for index, (square, _, _) in zip(own, each, strict=True):
                    scales[index] = square**0.5
    return scales
