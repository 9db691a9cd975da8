"""v = integral_0^h e^{-s Theta} r ds = Theta^{-1} (I - e^{-h Theta}) r, the step of a linear gradient flow.

For small N K, v comes from the kernel matrix: by an eigendecomposition, or by a resolvent where that takes less time.
For large N K (many heads on one body), it comes from a rational approximation of the exponential. Its shifted systems
are solved together by a preconditioned conjugate-gradient method that needs only products with Theta.
"""

from collections.abc import Callable
from math import nan
from typing import Any, NamedTuple

from rndlib.training.flow.library import Library
from rndlib.training.flow.resolvents import by_resolvents
from rndlib.training.problem import Spectrum

Array = Any


DENSE_ALONE, DENSE_PAIR, DENSE_MANY = 2500, 1000, 40
"""Largest N K for which the kernel matrix is formed: of one head, of two, and of more. Of one head, it is memory that
sets the limit: half a GiB for the matrix and its factors. At 1,000 points the other way takes seven times as long."""

TOGETHER = 2**22
"""Entries of kernel matrices up to which those of several bodies are formed together."""

EXPONENTIAL_ERROR = 1e-5
"""Error of the rational approximation of e^{-z}, uniformly in z >= 0."""

EIGENPROBLEM_LIMIT = 20
"""Largest N K at which the eigendecomposition of the kernel matrix takes less time than a resolvent."""

POLES = (
    1.1743116346598346 + 6.526200869899829j,
    -1.6873381583579419 + 3.8067462915239196j,
    -2.8994082716198113 + 1.2563830893762065j,
)
RESIDUES = (
    0.09009963548646076 - 0.23039550561783687j,
    -0.7495167014191546 + 2.67014006914332j,
    0.6581606783059976 - 7.441075383651719j,
)
"""Poles z_j and residues c_j with e^{-z} = 2 Re sum_j c_j / (z - z_j) for z >= 0, within EXPONENTIAL_ERROR.

They are one of each conjugate pair, from the AAA algorithm (Nakatsukasa, Sete and Trefethen, 2018).
"""

SOLVE_RTOL = 1e-4
"""Relative residual of the shifted systems, within the precision of float32: it is a relative change of one step, and
at convergence Newton's method, in float64, removes the remaining error."""

ITERATIONS, STARTS = 1000, 3
"""Iterations per start, and starts. About once in a thousand solves the method breaks down, and starts anew from its
last iterate."""


class _Iterate(NamedTuple):
    """State of the conjugate gradients, with a leading axis for the shifts: p is the direction, and rho = r' z.

    Shifts that are no longer `active` are left alone, because their products have sunk to rounding.
    """

    x: Array
    residual: Array
    p: Array
    rho: Array
    active: Array
    iteration: Array


def dense(n_samples: int, heads: int) -> bool:
    """Whether to form the kernel matrix of a body: up to where both ways take as long.

    For one head or two the limit is higher: with more points, kernels come too near to singular for float32.
    """
    return n_samples * heads <= {1: DENSE_ALONE, 2: DENSE_PAIR}.get(heads, DENSE_MANY)


def flow_integral(tangent: Array, r: Array, times: Array, noise: Array, spectrum: Spectrum, lib: Library) -> Array:
    """v for the kernel Theta + noise I, at each of the times, which are all finite or all infinite: (times, N, heads).

    r (N, heads) and v are in float64, whatever the precision of the kernel. Both r and the kernel may have a leading
    axis of bodies. With a kernel matrix, several times cost as much as one.
    """
    n_samples, heads = r.shape[-2:]
    unknowns, formed = n_samples * heads, dense(n_samples, heads)
    if formed and (r.ndim == 2 or len(r) * unknowns**2 <= TOGETHER):
        theta = lib.cast(tangent.kernel_matrix(), "float64")
        by = _by_eigenvectors if unknowns <= EIGENPROBLEM_LIMIT else by_resolvents
        return by(theta, r, times, noise, lib)
    if r.ndim > 2:
        each = zip(tangent.bodies(), r, strict=True)
        return lib.xp.stack([flow_integral(one, own, times, noise, spectrum, lib) for one, own in each], 1)
    single = tangent.in_float32()
    return lib.xp.stack([_by_conjugate_gradients(single, r, h, noise, spectrum, lib) for h in times])


def _by_eigenvectors(theta: Array, r: Array, times: Array, noise: Array, lib: Library) -> Array:
    xp = lib.xp
    # Not every LAPACK accepts infinities and NaN: they become NaN here, for which the caller raises.
    finite = xp.isfinite(theta).all(-1).all(-1)[..., None]
    values, vectors = xp.linalg.eigh(xp.where(finite[..., None], theta, 0.0))
    values = values + noise
    along = xp.einsum("...ij,...i->...j", vectors, r.reshape(values.shape))
    h = times.reshape(-1, *[1] * values.ndim)
    some_time = xp.where(xp.isinf(h), 1.0, h)
    # (1 - e^{-h lambda}) / lambda, and its limit h if lambda is zero or rounds to it (a finite time allows that).
    small = xp.abs(some_time * values) < 1e-12
    gain = xp.where(small, some_time, -xp.expm1(-some_time * values) / xp.where(small, 1.0, values))
    gain = xp.where(xp.isinf(h), 1 / values, gain)
    v = xp.einsum("...ij,t...j->t...i", vectors, gain * along)
    return xp.where(finite, v, nan).reshape(-1, *r.shape)


def _by_conjugate_gradients(
    tangent: Array, r: Array, h: Array, noise: Array, spectrum: Spectrum, lib: Library
) -> Array:
    xp = lib.xp
    size = xp.linalg.norm(r)
    unit = lib.cast(r / xp.where(size > 0, size, 1.0), "float32")

    def some_time(h: Array) -> Array:
        # (1 - R(z)) / z has the residues -c_j / z_j at R's poles and none at 0, since R(0) = 1.
        poles, residues = lib.constant(POLES, r), lib.constant(RESIDUES, r)
        # For times this short v is h r to eight digits, and shorter ones would move the shifts out of float32's range.
        shortest = 1e-9 / xp.max(spectrum.values)
        part = xp.where(h < shortest, h / shortest, 1.0)
        shifts = lib.cast(noise - poles / xp.where(h < shortest, shortest, h), "complex64")
        solutions = lib.cast(_solutions(tangent, unit, shifts, spectrum, lib), "complex128")
        return part * 2 * xp.einsum("s,snk->nk", -residues / poles, solutions).real

    def without_end(_: Array) -> Array:
        return lib.cast(_solutions(tangent, unit, lib.cast(noise, "float32")[None], spectrum, lib)[0], "float64")

    return size * lib.cond(xp.isinf(h), without_end, some_time, h)


def _solutions(tangent: Array, r: Array, shifts: Array, spectrum: Spectrum, lib: Library) -> Array:
    """(Theta + s)^{-1} r for every shift s, real or complex, (shifts, N, heads).

    The matrices are symmetric, so the conjugate-gradient recurrences hold with the unconjugated product (COCG for
    complex ones; van der Vorst and Melissen, 1990). The preconditioner is the infinite-width kernel of each head.
    """
    xp, dtype = lib.xp, str(shifts.dtype).removeprefix("torch.")
    vectors = lib.cast(spectrum.vectors, "float32")
    gains = 1 / (lib.cast(spectrum.values, "float32") + shifts[:, None])[..., None]

    def by_parts(product: Callable[[Array], Array], v: Array) -> Array:
        if dtype == "float32":
            return product(v)
        # Real and imaginary parts of all shifts as one batch: each matrix is then read once.
        both = product(xp.concatenate([v.real, v.imag]))
        return lib.cast(both[: len(v)] + 1j * both[len(v) :], dtype)

    def precondition(v: Array) -> Array:
        return by_parts(lambda v: vectors @ v, gains * by_parts(lambda v: vectors.T @ v, v))

    def multiply(v: Array) -> Array:
        return by_parts(lambda v: lib.kernel_products(tangent, v), v) + shifts[:, None, None] * v

    def dot(a: Array, b: Array) -> Array:
        return (a * b).sum((1, 2))

    allowed = SOLVE_RTOL**2 * (r**2).sum()

    def too_large(residual: Array) -> Array:
        return (residual * residual.conj()).real.sum((1, 2)) > allowed

    def step(state: _Iterate) -> _Iterate:
        x, residual, p, rho, active, iteration = state
        # A new start in place of a step: computed separately, its product would be compiled a second time.
        anew = (iteration > 0) & (iteration % ITERATIONS == 0)
        q = multiply(xp.where(anew, x, p))
        alpha = xp.where(active & ~anew, rho / xp.where(active, dot(p, q), 1.0), 0.0)
        residual = xp.where(anew & active[:, None, None], r - q, residual - alpha[:, None, None] * q)
        x = xp.where(anew, x, x + alpha[:, None, None] * p)
        z = precondition(residual)
        rho_next = dot(residual, z)
        beta = xp.where(active, rho_next / xp.where(active, rho, 1.0), 0.0)
        p = xp.where(anew, z, z + beta[:, None, None] * p)
        return _Iterate(x, residual, p, xp.where(active, rho_next, rho), too_large(residual), iteration + 1)

    residual = xp.broadcast_to(lib.cast(r, dtype), (len(shifts), *r.shape))
    z = precondition(residual)
    first = _Iterate(xp.zeros_like(z), residual, z, dot(residual, z), too_large(residual), lib.constant(0, r))
    last = lib.while_loop(lambda s: s.active.any() & (s.iteration < STARTS * ITERATIONS), step, first)
    # The caller raises for NaN: a solution that did not converge must not pass for one.
    return xp.where(last.active[:, None, None], nan, last.x)
