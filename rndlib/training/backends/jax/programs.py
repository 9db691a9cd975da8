"""`jax.jit` for programs that several threads need at the same time."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

import jax

Function = TypeVar("Function", bound=Callable[..., Any])

WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Compiler option for vectors of more than 256 bits, for elementwise arithmetic on large arrays."""


def program(**options: Any) -> Callable[[Function], Function]:
    """Compile a function of a network's settings and arrays, once for each network and set of shapes.

    `jax.jit` lets every thread that calls a new program compile it for itself, which takes longer than training most
    blocks. Here the first thread compiles and runs, and the others wait.
    """

    def decorate(function: Function) -> Function:
        compiled = jax.jit(function, static_argnames="net", compiler_options=options)
        locks: defaultdict[Hashable, Lock] = defaultdict(Lock)
        ready: set[Hashable] = set()

        @wraps(function)
        def call(net, *arrays):
            leaves, tree = jax.tree.flatten(arrays)
            key = (net, tree, *((a.shape, a.dtype) for a in leaves))
            if key in ready:
                return compiled(net, *arrays)
            with locks[key]:
                result = jax.block_until_ready(compiled(net, *arrays))
                ready.add(key)
            return result

        return call  # pyright: ignore[reportReturnType]

    return decorate
