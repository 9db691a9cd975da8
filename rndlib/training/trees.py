"""Nested lists and tuples of arrays, and of None where there are none: the parameters and states of training."""

from collections.abc import Callable
from typing import Any

Array = Any
"""An array of any library."""


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """The function of every array of nested lists and tuples, or of the corresponding arrays of several."""
    first = trees[0]
    if isinstance(first, list | tuple):
        parts = [mapped(function, *each) for each in zip(*trees, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    return None if first is None else function(*trees)
