"""v = integral_0^h e^{-s Theta} r ds = Theta^{-1} (I - e^{-h Theta}) r, the step of a linear gradient flow.

Two ways to the same vector. Where N K is small, the eigendecomposition of the kernel matrix. Where it is large
(many heads on one body), a rational approximation of the exponential, whose shifted systems are solved together by
a preconditioned conjugate-gradient method that needs products with Theta only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib.training.backends.base import TangentKernel
from rndlib.training.flow.exponential import ITERATIONS, POLES, RESIDUES, SOLVE_RTOL, STARTS, Spectrum, dense


class _Iterate(NamedTuple):
    """Of the conjugate-gradient method, each with a leading axis for the shifts: p is the direction, rho = r' z.

    active: whether a shift's residual is still too large. A shift that is done is left alone: its products have sunk
    to rounding.
    """

    x: Array
    residual: Array
    p: Array
    rho: Array
    active: Array
    iteration: Array


def flow_integral(
    at: TangentKernel[Array], r: Float[Array, "n heads"], h: Float[Array, "*times"], noise: Array, spectrum: Spectrum
) -> Float[Array, "*times n heads"]:
    """v for the kernel Theta + noise I of the network linearised at `at`; h may be infinite.

    r is in float64, as v is, whatever the network was linearised in. Where the eigenproblem is solved, several times
    cost what one does; otherwise h is one.
    """
    if dense(*r.shape):
        return _dense(at, r, h[..., None], noise).reshape(*h.shape, *r.shape)
    return _rational(at, r, h, noise, spectrum)


def _dense(at: TangentKernel[Array], r: Array, h: Array, noise: Array) -> Array:
    values, vectors = jnp.linalg.eigh(at.kernel_matrix().astype(r.dtype) + noise * jnp.eye(r.size))
    finite = jnp.where(jnp.isinf(h), 1.0, h)
    # (1 - e^{-h lambda}) / lambda, and its limit h where lambda is zero or rounds to it (a finite time allows that).
    small = jnp.abs(finite * values) < 1e-12
    gain = jnp.where(small, finite, -jnp.expm1(-finite * values) / jnp.where(small, 1.0, values))
    gain = jnp.where(jnp.isinf(h), 1 / values, gain)
    return (gain * (vectors.T @ r.ravel())) @ vectors.T


def _rational(at: TangentKernel[Array], r: Array, h: Array, noise: Array, spectrum: Spectrum) -> Array:
    size = jnp.linalg.norm(r)
    unit = r / jnp.where(size > 0, size, 1.0)
    at, (unit, spectrum) = at.in_float32(), jax.tree.map(lambda a: a.astype(jnp.float32), (unit, spectrum))

    def some_time(h: Array) -> Array:
        # (1 - R(z)) / z has the residues -c_j / z_j at R's poles and none at 0, since R(0) = 1.
        poles, residues = np.array(POLES), np.array(RESIDUES)
        # v is h r to eight digits for times this short, and shorter ones would take the shifts out of float32's range.
        shortest = 1e-9 / jnp.max(spectrum.values)
        part = jnp.where(h < shortest, h / shortest, 1.0)
        shifts = (noise - jnp.asarray(poles) / jnp.maximum(h, shortest)).astype(jnp.complex64)
        solutions = _conjugate_gradient(at, unit, shifts, spectrum)
        return part * 2 * jnp.einsum("s,snk->nk", jnp.asarray(-residues / poles), solutions).real

    def without_end(_: Array) -> Array:
        return _conjugate_gradient(at, unit, noise.astype(jnp.float32)[None], spectrum)[0].astype(r.dtype)

    return size * lax.cond(jnp.isinf(h), without_end, some_time, h)


def _conjugate_gradient(at: TangentKernel[Array], r: Array, shifts: Array, spectrum: Spectrum) -> Array:
    """(Theta + s)^{-1} r for every shift s, real or complex, (shifts, N, heads).

    The matrices are symmetric, so the conjugate-gradient recurrences hold with the unconjugated product (COCG for
    complex ones; van der Vorst and Melissen, 1990). The preconditioner is the infinite-width kernel of each head,
    which is what the empirical kernel tends to.
    """
    gains = 1 / (spectrum.values + shifts[:, None])
    approximate = jnp.einsum("ni,si,mi->snm", spectrum.vectors, gains, spectrum.vectors)

    def precondition(v: Array) -> Array:
        return jnp.einsum("snm,smk->snk", approximate, v)

    def multiply(v: Array) -> Array:
        # Real and imaginary parts of all shifts as one batch of points: each weight matrix is then read once.
        parts = jnp.concatenate([v.real, v.imag]) if jnp.iscomplexobj(v) else v
        product = jax.vmap(at.kernel_product)(parts)
        product = lax.complex(product[: len(v)], product[len(v) :]) if jnp.iscomplexobj(v) else product
        return product + shifts[:, None, None] * v

    def dot(a: Array, b: Array) -> Array:
        return jnp.sum(a * b, axis=(1, 2))

    allowed = SOLVE_RTOL**2 * jnp.sum(r**2)

    def too_large(residual: Array) -> Array:
        return jnp.sum((residual * residual.conj()).real, axis=(1, 2)) > allowed

    def step(state: _Iterate) -> _Iterate:
        x, residual, p, rho, active, iteration = state
        # A start of its own would be a second product to compile; here its product takes the place of a direction's.
        anew = (iteration > 0) & (iteration % ITERATIONS == 0)
        q = multiply(jnp.where(anew, x, p))
        alpha = jnp.where(active & ~anew, rho / jnp.where(active, dot(p, q), 1.0), 0.0)
        residual = jnp.where(anew & active[:, None, None], r - q, residual - alpha[:, None, None] * q)
        x = jnp.where(anew, x, x + alpha[:, None, None] * p)
        z = precondition(residual)
        rho_next = dot(residual, z)
        beta = jnp.where(active, rho_next / jnp.where(active, rho, 1.0), 0.0)
        p = jnp.where(anew, z, z + beta[:, None, None] * p)
        return _Iterate(x, residual, p, jnp.where(active, rho_next, rho), too_large(residual), iteration + 1)

    residual = jnp.broadcast_to(r.astype(shifts.dtype), (shifts.size, *r.shape))
    z = precondition(residual)
    first = _Iterate(jnp.zeros_like(z), residual, z, dot(residual, z), too_large(residual), jnp.asarray(0))
    last = lax.while_loop(lambda s: jnp.any(s.active) & (s.iteration < STARTS * ITERATIONS), step, first)
    # NaN travels to the caller, who raises: a solution that did not converge must not pass for one.
    return jnp.where(last.active[:, None, None], jnp.nan, last.x)
