"""float64 inside the backend's own calls only: the user's jax configuration is left as it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def _x64() -> AbstractContextManager[Any]:
    public = getattr(jax, "enable_x64", None)
    if public is not None:
        return public(True)
    from jax.experimental import enable_x64  # its place before jax 0.8

    return enable_x64()


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with 64-bit types enabled in this thread during the call."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with _x64():
            return function(*args, **kwargs)

    return wrapped
