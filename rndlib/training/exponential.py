"""v = integral_0^h e^{-s Theta} r ds = Theta^{-1} (I - e^{-h Theta}) r, the step of a linear gradient flow.

For small N K, v comes from the eigenvalues of the kernel matrix. For large N K (many heads on one body), it comes from
a rational approximation of the exponential, whose shifted systems are solved together by preconditioned conjugate
gradients, which need only products with Theta.
"""

from collections.abc import Callable
from math import nan
from typing import Any

from rndlib.training.iterative import conjugate_gradients
from rndlib.training.problem import Spectrum
from rndlib.training.trees import Array

DENSE = {1: 2500, 2: 1000}
"""Largest N K for which the kernel matrix is formed, of one head and of two; of more, it is the backend's `dense_many`.
Of one head, it is memory that sets the limit: half a GiB for the matrix and its eigenvectors."""

EXPONENTIAL_ERROR = 1e-5
"""Error of the rational approximation of e^{-z}, uniformly in z >= 0."""

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

ITERATIONS, RESTART = 3000, 1000
"""Most iterations, and those after which the method starts anew."""


def dense(n_samples: int, heads: int, lib: Any) -> bool:
    """Whether to form the kernel matrix of a body: up to where both ways take as long."""
    return n_samples * heads <= DENSE.get(heads, int(lib.dense_many))


def phi1(values: Array, h: Array, xp: Any) -> Array:
    """(1 - e^{-h lambda}) / lambda, and its limits: h where lambda rounds to zero, and 1 / lambda for infinite h."""
    some_time = xp.where(xp.isinf(h), 1.0, h)
    small = xp.abs(some_time * values) < 1e-12
    gain = xp.where(small, some_time, -xp.expm1(-some_time * values) / xp.where(small, 1.0, values))
    return xp.where(xp.isinf(h), 1 / values, gain)


def flow_integral(tangent: Any, r: Array, times: Array, noise: Array, spectrum: Spectrum, lib: Any) -> Array:
    """v for the kernel Theta + noise I at two times, (2, ..., N, K). If not `dense`, the first is 0, or both are equal.

    `tangent` is a `Linearised`. NaN where the kernel is not finite, or the systems could not be solved.
    """
    if dense(r.shape[-2], r.shape[-1], lib):
        return _by_eigenvectors(tangent, r, times, noise, lib.xp)
    v = _by_conjugate_gradients(tangent, r, times[1], noise, spectrum, lib)
    return lib.xp.stack([lib.xp.where(times[0] > 0, v, 0.0), v])


def _by_eigenvectors(tangent: Any, r: Array, times: Array, noise: Array, xp: Any) -> Array:
    unknowns, lead = r.shape[-2] * r.shape[-1], r.shape[:-2]
    below, last = tangent.kernels()
    theta = (below + last).reshape(*lead, unknowns, unknowns)
    # Not every LAPACK accepts infinities and NaN: they become NaN here, for which the caller raises.
    finite = xp.isfinite(theta).all(-1).all(-1)[..., None]
    values, vectors = xp.linalg.eigh(xp.where(finite[..., None], theta, 0.0))
    along = xp.einsum("...ij,...i->...j", vectors, r.reshape(values.shape))
    gain = phi1(values + noise, times.reshape(-1, *[1] * values.ndim), xp)
    v = xp.einsum("...ij,t...j->t...i", vectors, gain * along)
    return xp.where(finite, v, nan).reshape(-1, *r.shape)


def _by_conjugate_gradients(tangent: Any, r: Array, h: Array, noise: Array, spectrum: Spectrum, lib: Any) -> Array:
    xp, product = lib.xp, tangent.multiplier("float32")
    size = xp.linalg.norm(r)
    unit = lib.cast(r / xp.where(size > 0, size, 1.0), "float32")
    vectors, values = (lib.cast(a, "float32") for a in (spectrum.vectors, spectrum.values))

    def solve(shifts: Array, apply: Callable[..., Array]) -> Array:
        """(Theta + s)^{-1} r for every shift s, (shifts, N, K). The preconditioner is the kernel of infinite width."""
        gains, shifts = 1 / (values + shifts[:, None])[..., None], shifts[:, None, None]
        x, unsolved = conjugate_gradients(
            lambda v: apply(product, v) + shifts * v,
            lambda v: apply(lambda v: vectors @ v, gains * apply(lambda v: vectors.T @ v, v)),
            *(unit + 0 * shifts, SOLVE_RTOL, ITERATIONS, lib, RESTART),
        )
        # The caller raises for NaN: a solution that did not converge must not pass for one.
        return xp.where(unsolved[:, None, None], nan, x)

    def by_parts(product: Callable[[Array], Array], v: Array) -> Array:
        # Real and imaginary parts of all shifts as one batch: each matrix is then read once.
        both = product(xp.concatenate([v.real, v.imag]))
        return lib.cast(both[: len(v)] + 1j * both[len(v) :], "complex64")

    def some_time(h: Array) -> Array:
        # (1 - R(z)) / z has the residues -c_j / z_j at R's poles and none at 0, since R(0) = 1.
        poles, residues = (lib.constant(numbers, r) for numbers in (POLES, RESIDUES))
        # For times this short v is h r to eight digits, and shorter ones would move the shifts out of float32's range.
        longer = xp.maximum(h, 1e-9 / xp.max(spectrum.values))
        solutions = lib.cast(solve(lib.cast(noise - poles / longer, "complex64"), by_parts), "complex128")
        return h / longer * xp.einsum("s,snk->nk", -2 * residues / poles, solutions).real

    def without_end(_: Array) -> Array:
        shift = lib.cast(noise, "float32").reshape(1)
        return lib.cast(solve(shift, lambda product, v: product(v))[0], "float64")

    return size * lib.cond(xp.isinf(h), without_end, some_time, h)
