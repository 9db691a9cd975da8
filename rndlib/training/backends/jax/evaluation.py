"""Evaluation of a traced function step by step, by rules of one's own."""

from collections.abc import Callable
from typing import Any

from jax.extend.core import Literal


def evaluated(jaxpr: Any, constants: Any, inputs: list[Any], rule: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """The outputs, with `rule(step, values)` for the results of each step, also of those in functions that it calls."""
    known = dict(zip(jaxpr.constvars, constants, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for step in jaxpr.eqns:
        values = [value(atom) for atom in step.invars]
        if step.primitive.name in ("pjit", "jit"):
            called = step.params["jaxpr"]
            results = evaluated(called.jaxpr, called.consts, values, rule)
        else:
            results = rule(step, values)
        known.update(zip(step.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def bound(step: Any, values: list[Any]) -> list[Any]:
    """The results of a step as it is."""
    found = step.primitive.get_bind_params(step.params)
    functions, params = found if isinstance(found, tuple) else ((), found)  # one of the two, from JAX 0.10 on
    result = step.primitive.bind(*functions, *values, **params)
    return list(result) if step.primitive.multiple_results else [result]
