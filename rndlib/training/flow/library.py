"""The parts of an array library that the steps of training use, so that they are written once for all libraries."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Library(NamedTuple):
    """An array library, for names and control flow that differ between libraries."""

    xp: Any  # its namespace, for functions that all libraries have: `where`, `einsum`, `linalg.eigh`
    cast: Callable[[Any, str], Any]  # an array in another precision, by its NumPy name
    constant: Callable[[Any, Any], Any]  # a number, or a sequence of them, as an array on the device of another one
    cond: Callable[[Any, Callable[[Any], Any], Callable[[Any], Any], Any], Any]  # predicate, yes, no, value
    while_loop: Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]  # condition, body, state
    inverse_factor: Callable[[Any], Any]  # L^-1 of a matrix L L', or NaN if it is not positive definite
    kernel_products: Callable[[Any, Any], Any]  # Theta v of `Linearised` for v (vectors, N, K)
    pull_backs: Callable[[Any, Any], list[Any]]  # J' v for each of several v
