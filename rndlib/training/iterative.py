"""Preconditioned conjugate gradients, and (Theta + noise I)^-1 r by them, from products with Theta alone.

All columns of r are solved at the same time. The number of iterations grows with the root of the condition number, so
the large eigenvalues are taken out first, by a Nystroem approximation of Theta from some of its columns (Frangella,
Tropp and Udell, 2023). It also tells about how many products are left to do.
"""

from collections.abc import Callable
from math import inf, log, sqrt
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.cores import one_thread_each
from rndlib.training.trees import Array

RTOL, ITERATIONS = 1e-6, 1000
"""Residual of each column afterwards, relative to the one before, and most products."""

Rows = Float[np.ndarray, "columns n"]
Some = Callable[[np.ndarray], Rows]
"""The columns of Theta with these numbers, in rows."""


class _Iterate(NamedTuple):
    x: Array
    residual: Array
    direction: Array
    rho: Array  # residual' times the preconditioned residual
    active: Array
    iteration: Array


def conjugate_gradients(
    multiply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    r: Array,
    rtol: float,
    iterations: int,
    lib: Any,
    restart: float,
) -> tuple[Array, Array]:
    """x with A x = r, up to a relative residual of `rtol`, and which systems were not solved.

    Systems have the leading axis of r, and `multiply` and `precondition` work on all of them. Matrices are symmetric,
    real or complex: the recurrences hold with the unconjugated product (COCG; van der Vorst and Melissen, 1990).
    """
    xp = lib.xp

    def along(numbers: Array) -> Array:
        return numbers.reshape(-1, *[1] * (r.ndim - 1))

    def dot(a: Array, b: Array) -> Array:
        return (a * b).reshape(len(r), -1).sum(1)

    allowed = rtol**2 * dot(r, r.conj()).real

    def step(state: _Iterate) -> _Iterate:
        x, residual, direction, rho, active, iteration = state
        # About once in a thousand solves in float32 the method breaks down, and starts anew from its last iterate. That
        # takes the place of a step: computed separately, its product would be compiled a second time.
        anew = (iteration > 0) & (iteration % restart == 0)
        q = multiply(xp.where(anew, x, direction))
        # Products of systems that are solved have sunk to rounding.
        alpha = along(xp.where(active & ~anew, rho / xp.where(active, dot(direction, q), 1.0), 0.0))
        residual = xp.where(anew & along(active), r - q, residual - alpha * q)
        z = precondition(residual)
        following = dot(residual, z)
        beta = along(xp.where(active, following / xp.where(active, rho, 1.0), 0.0))
        direction, x = xp.where(anew, z, z + beta * direction), xp.where(anew, x, x + alpha * direction)
        left = dot(residual, residual.conj()).real > allowed
        return _Iterate(x, residual, direction, xp.where(active, following, rho), left, iteration + 1)

    z = precondition(r)
    first = _Iterate(xp.zeros_like(r), r, z, dot(r, z), allowed > 0, lib.constant(0, r))
    last = lib.while_loop(lambda s: s.active.any() & (s.iteration < iterations), step, first)
    return last.x, last.active


class Nystroem(NamedTuple):
    """B'B, which is near to Theta: its smallest and largest eigenvalue, and the inverse of B'B + s I up to a factor.

    All other eigenvalues of Theta count as the smallest of B'B, so s is that and the `noise`.
    """

    noise: float
    smallest: float
    largest: float
    precondition: Callable[[Rows], Rows]

    @classmethod
    def of(cls, some: Some, n: int, noise: float, rank: int) -> "Nystroem":
        """That of `rank` columns, always the same."""
        numbers = np.random.default_rng(0).permutation(n)[:rank]
        C = some(numbers)
        inner = C[:, numbers]
        # A shift by rounding keeps it positive definite.
        inner.flat[:: len(inner) + 1] += len(inner) * np.finfo(float).eps * float(np.linalg.norm(inner))
        lower = linalg.cholesky(inner, lower=True)
        B = linalg.solve_triangular(lower, C, lower=True, overwrite_b=True, check_finite=False)
        square = B @ B.T
        values = linalg.eigvalsh(square)
        square.flat[:: len(square) + 1] += max(noise + max(values[0], 0.0), np.finfo(float).eps * values[-1])
        factor = linalg.cho_factor(square)
        return cls(noise, float(values[0]), float(values[-1]), lambda v: v - linalg.cho_solve(factor, B @ v.T).T @ B)

    @property
    def products(self) -> float:
        """About how many products with Theta conjugate gradients take.

        With condition number c, k of them leave 2 e^{-2 k / sqrt(c)} of the error, and the preconditioner leaves about
        four times the smallest eigenvalue that it takes out.
        """
        return log(2 / RTOL) / 2 * sqrt(1 + 4 * max(self.smallest, 0.0) / self.noise) if self.noise else inf


def solve(pull: Callable[[Rows], Any], push: Callable[[Any], Rows], nystroem: Nystroem, r: Rows) -> tuple[Any, Rows]:
    """J' v with (Theta + noise I) v = r, up to RTOL, and the residuals of v. `pull` multiplies by J', `push` by J.

    Raises a ValueError if the vectors have not converged after ITERATIONS products, or only by a recurrence that has
    lost the residual to rounding.
    """
    noise = nystroem.noise
    with one_thread_each():  # its threads would wait, by spinning, on the cores that the products need
        v, unsolved = conjugate_gradients(
            lambda v: push(pull(v)) + noise * v, nystroem.precondition, r, RTOL, ITERATIONS, _NUMPY, inf
        )
    changes, n = pull(v), r.shape[1]
    residual = r - noise * v - push(changes)
    before = np.maximum(np.linalg.norm(r, axis=1), np.finfo(float).tiny)
    left = float((np.linalg.norm(residual, axis=1) / before).max())
    if not unsolved.any() and left <= 10 * RTOL:
        return changes, residual
    # The inverse of `products`; and rounding leaves eps times the largest eigenvalue, over the noise.
    enough = max(
        4 * nystroem.smallest * (log(2 / RTOL) / (2 * ITERATIONS)) ** 2,
        n * np.finfo(float).eps * nystroem.largest / RTOL,
    )
    raise ValueError(
        f"X: the tangent kernel of its {n} rows is too close to singular to train without forming it (conjugate "
        f"gradients leave a residual of {left:.0e}): give noise_std of about {enough**0.5:.2g} or more where it is "
        "offered, or more memory"
    )


def _while(condition: Callable[..., bool], step: Callable[..., object], state: object) -> object:
    while condition(state):
        state = step(state)
    return state


_NUMPY = SimpleNamespace(xp=np, while_loop=_while, constant=lambda value, like: np.asarray(value))
