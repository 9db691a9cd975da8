"""Nested lists and tuples of arrays: the parameters and states of training."""

from collections.abc import Callable
from typing import Any

Array = Any
"""An array of any library."""


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """The function of every array of nested lists and tuples, or of the corresponding arrays of several."""
    first = trees[0]
    if isinstance(first, list | tuple):
        return type(first)(mapped(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)
