"""Nested lists and tuples of arrays: the parameters and states of training."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """The function of every array of nested lists and tuples, or of the corresponding arrays of several."""
    first = trees[0]
    if isinstance(first, list | tuple):
        return type(first)(mapped(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def chosen(bodies: Bool[np.ndarray, " bodies"], ours: Any, theirs: Any) -> Any:
    """Two trees of arrays with the bodies first, joined: ours for the chosen bodies, theirs for the rest."""
    return mapped(lambda a, b: np.where(bodies.reshape(-1, *[1] * (a.ndim - 1)), a, b), ours, theirs)
