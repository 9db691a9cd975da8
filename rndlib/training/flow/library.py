"""The parts of an array library that the steps of training use, so that they are written once for all libraries."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Library(NamedTuple):
    """An array library, for names and control flow that differ between libraries.

    xp: Its namespace, for functions that all of them have: `where`, `einsum`, `linalg.eigh`.
    cast: An array in another precision, by its NumPy name.
    constant: A number, or a sequence of numbers, as an array on the device of another one.
    cond: `cond(predicate, yes, no, value)` is `yes(value)` or `no(value)`.
    while_loop: `while_loop(condition, body, state)` is the first state that does not meet the condition.
    kernel_products: `kernel_products(tangent, vs)` are the products of a `TangentKernel` with (vectors, N, K).
    pull_backs: `pull_backs(tangent, vs)` is J' v for each of several v, as a list.
    """

    xp: Any
    cast: Callable[[Any, str], Any]
    constant: Callable[[Any, Any], Any]
    cond: Callable[[Any, Callable[[Any], Any], Callable[[Any], Any], Any], Any]
    while_loop: Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]
    kernel_products: Callable[[Any, Any], Any]
    pull_backs: Callable[[Any, Any], list[Any]]
