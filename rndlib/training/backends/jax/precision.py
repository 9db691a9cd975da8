"""float64 inside the backend's own calls only: the user's jax configuration is left as it is."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

try:
    from jax import enable_x64  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:  # its place before jax 0.8
    from jax.experimental import enable_x64

P = ParamSpec("P")
R = TypeVar("R")


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with 64-bit types enabled in this thread during the call."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with enable_x64(True):
            return function(*args, **kwargs)

    return wrapped
