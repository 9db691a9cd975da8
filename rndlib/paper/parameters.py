"""The parameters of a notebook: a value that does not fit stops it in its first code cell, with one sentence.

A notebook declares them in the cell tagged `parameters`, as `width: int = 64  # units in each hidden layer`. papermill
and people replace values. A name that no notebook declares gets a warning from papermill, and is ignored.
"""

import ast
from collections.abc import Mapping
from typing import Any, get_args, get_origin

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number, such as 64"),
    float: ((int, float), "a number, such as 0.5 (YAML takes 1e-3 for a text: write 0.001)"),
    str: ((str,), "a text, such as silu"),
    bool: ((bool,), "true or false"),
}


def check(scope: Mapping[str, Any], *conditions: str) -> None:
    """Refuse parameters of another type than declared, and those that break one of the conditions.

    scope : `globals()` of the notebook; its annotations are the declarations.
    conditions : expressions in the names of parameters, such as `"n_joint <= n_points"`, that must be true.

    Raises ValueError.
    """
    for name, declared in scope.get("__annotations__", {}).items():
        value = scope[name]
        listed = get_origin(declared) is list
        kind = get_args(declared)[0] if listed else declared
        types, wanted = _KINDS[kind]
        items = value if listed and isinstance(value, list) else [value]
        if listed != isinstance(value, list) or not all(_fits(item, types) for item in items):
            if listed:
                wanted = f"a list, with papermill as in -y '{name}: [...]', of which each item is {wanted}"
            raise ValueError(f"{name} = {value!r} is not of type {_said(declared)}: give {wanted}")
    for condition in conditions:
        if not eval(condition, dict(scope)):
            names = sorted({node.id for node in ast.walk(ast.parse(condition)) if isinstance(node, ast.Name)})
            given = ", ".join(f"{name} = {scope[name]!r}" for name in names if name in scope["__annotations__"])
            raise ValueError(f"{given}: give values with {condition}")


def _fits(item: Any, types: tuple[type, ...]) -> bool:
    """Whether a value is of one of the types; true and false are no numbers, and nan is none either."""
    return (isinstance(item, types) and (bool in types or not isinstance(item, bool))) and item == item


def _said(declared: Any) -> str:
    return str(declared) if get_origin(declared) else declared.__name__
