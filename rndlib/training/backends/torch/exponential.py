"""v = integral_0^h e^{-s Theta} r ds = Theta^{-1} (I - e^{-h Theta}) r, the step of a linear gradient flow.

Two ways to the same vector, as in the JAX backend: the eigendecomposition of the kernel matrices of a batch of bodies,
or, with many heads on one body, a rational approximation of the exponential with conjugate gradients, body by body.
"""

from collections.abc import Sequence
from math import isinf, nan

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.training.backends.torch.linearise import LinearMLP
from rndlib.training.flow.exponential import ITERATIONS, POLES, RESIDUES, SOLVE_RTOL, STARTS, Spectrum, dense


def flow_integral(
    at: LinearMLP, r: Float[Tensor, "bodies n heads"], times: Sequence[float], noise: float, spectrum: Spectrum
) -> list[Float[Tensor, "bodies n heads"]]:
    """v for the kernels Theta + noise I of the networks linearised at `at`, for each of the times; inf may be one.

    r is in float64, as v is, whatever the networks were linearised in. Where the eigenproblem is solved, several times
    cost what one does.
    """
    if dense(*r.shape[1:]):
        return _dense(at, r, times, noise)
    alone = [(at.mapped(lambda a, i=i: a[i : i + 1]), one) for i, one in enumerate(r)]
    return [torch.stack([_rational(body, one, h, noise, spectrum) for body, one in alone]) for h in times]


def _dense(at: LinearMLP, r: Tensor, times: Sequence[float], noise: float) -> list[Tensor]:
    theta = at.kernel_matrix().to(r.dtype)
    theta = theta + noise * torch.eye(theta.shape[-1], dtype=r.dtype, device=r.device)
    # LAPACK refuses what is not finite; here it is to come out as NaN, for the caller to raise.
    finite = torch.isfinite(theta).all(-1).all(-1)[:, None, None]
    values, vectors = torch.linalg.eigh(torch.where(finite, theta, 0.0))
    along = vectors.mT @ r.flatten(1)[..., None]

    def until(h: float) -> Tensor:
        if isinf(h):
            gain = 1 / values
        else:
            # (1 - e^{-h lambda}) / lambda, and its limit h where lambda is zero or rounds to it: a finite time allows
            # that.
            small = (h * values).abs() < 1e-12
            gain = torch.where(small, h, -torch.expm1(-h * values) / torch.where(small, 1.0, values))
        return torch.where(finite, vectors @ (gain[..., None] * along), nan).view(r.shape)

    return [until(h) for h in times]


def _rational(at: LinearMLP, r: Tensor, h: float, noise: float, spectrum: Spectrum) -> Tensor:
    """v of one body, with a leading axis of one in `at`."""
    size = torch.linalg.norm(r)
    unit = (r / torch.where(size > 0, size, 1.0)).float()
    at = at.in_float32()
    if isinf(h):
        shift = torch.tensor([noise], dtype=torch.float32, device=r.device)
        return size * _conjugate_gradient(at, unit, shift, spectrum)[:, 0].to(r.dtype)
    # (1 - R(z)) / z has the residues -c_j / z_j at R's poles and none at 0, since R(0) = 1.
    poles, residues = (torch.tensor(a, dtype=torch.complex128, device=r.device) for a in (POLES, RESIDUES))
    # v is h r to eight digits for times this short, and shorter ones would take the shifts out of float32's range.
    shortest = 1e-9 / float(spectrum.values.max())
    shifts = (noise - poles / max(h, shortest)).to(torch.complex64)
    solutions = _conjugate_gradient(at, unit, shifts, spectrum)
    v = 2 * torch.einsum("s,nsk->nk", -residues / poles, solutions.to(poles.dtype)).real
    return size * min(h / shortest, 1.0) * v


def _conjugate_gradient(at: LinearMLP, r: Tensor, shifts: Tensor, spectrum: Spectrum) -> Tensor:
    """(Theta + s)^{-1} r for every shift s, real or complex, (N, shifts, heads); r is (N, heads).

    The matrices are symmetric, so the conjugate-gradient recurrences hold with the unconjugated product (COCG for
    complex ones; van der Vorst and Melissen, 1990). The preconditioner is the infinite-width kernel of each head,
    which is what the empirical kernel tends to. A shift that is done is left alone: its products have sunk to rounding.
    """
    values, vectors = spectrum.values.float(), spectrum.vectors.float().to(shifts.dtype)
    approximate = torch.einsum("ni,si,mi->snm", vectors, 1 / (values + shifts[:, None]), vectors)

    def precondition(v: Tensor) -> Tensor:
        return torch.einsum("snm,msk->nsk", approximate, v)

    def multiply(v: Tensor) -> Tensor:
        # Real and imaginary parts of all shifts as one batch of vectors.
        parts = torch.cat([v.real, v.imag], 1) if v.is_complex() else v
        product = at.kernel_product(parts[None])[0]
        product = torch.complex(*product.chunk(2, 1)) if v.is_complex() else product
        return product + shifts[:, None] * v

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((0, 2))

    allowed = SOLVE_RTOL**2 * (r**2).sum()

    def too_large(residual: Tensor) -> Tensor:
        return residual.abs().square().sum((0, 2)) > allowed

    residual = r.to(shifts.dtype)[:, None].expand(-1, len(shifts), -1)
    x, active = torch.zeros_like(residual), too_large(residual)
    for _ in range(STARTS):
        if not active.any():
            break
        residual = torch.where(active[:, None], r[:, None] - multiply(x), residual)
        p = z = precondition(residual)
        rho = dot(residual, z)
        for _ in range(ITERATIONS):
            if not active.any():
                break
            q = multiply(p)
            alpha = torch.where(active, rho / torch.where(active, dot(p, q), 1.0), 0.0)
            x = x + alpha[:, None] * p
            residual = residual - alpha[:, None] * q
            z = precondition(residual)
            rho_next = dot(residual, z)
            beta = torch.where(active, rho_next / torch.where(active, rho, 1.0), 0.0)
            p = z + beta[:, None] * p
            rho = torch.where(active, rho_next, rho)
            active = too_large(residual)
    # NaN travels to the caller, who raises: a solution that did not converge must not pass for one.
    return torch.where(active[:, None], nan, x)
