"""JAX's settings inside the backend's own calls, float64 among them: the user's configuration is left as it is."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax

try:
    from jax import enable_x64  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:  # its place before jax 0.8
    from jax.experimental import enable_x64

P = ParamSpec("P")
R = TypeVar("R")

_checking_leaks: Any = jax.checking_leaks
_SETTINGS: list[Callable[[], Any]] = [
    lambda: enable_x64(True),
    lambda: jax.numpy_rank_promotion("allow"),
    lambda: jax.numpy_dtype_promotion("standard"),
    lambda: jax.threefry_partitionable(True),  # the same seed, the same weights
    lambda: jax.disable_jit(False),
    lambda: jax.debug_nans(False),  # a kernel that is not positive definite shows in a NaN
    lambda: jax.debug_infs(False),
    lambda: _checking_leaks.func(False),
    lambda: jax.transfer_guard("allow"),
    lambda: jax.default_matmul_precision("highest"),
]


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function in this thread with 64-bit types, and with other settings as the backend and its users take them.

    Those of the process may be any: stricter promotion, checks of NaN and of leaks, programs that are not compiled.
    """

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            for setting in _SETTINGS:
                stack.enter_context(setting())
            return function(*args, **kwargs)

    return wrapped
