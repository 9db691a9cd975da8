"""(Theta + noise I)^-1 r from products with Theta alone, for training sets whose kernel matrix does not fit in memory.

Conjugate gradients solve for all columns of r at the same time. Their number of iterations grows with the root of the
condition number, so the large eigenvalues are taken out first, by a randomised Nyström approximation of Theta of low
rank (Frangella, Tropp and Udell, 2023). Memory is N times that rank, and N times a few columns.
"""

from collections.abc import Callable
from math import inf, log

import numpy as np
from jaxtyping import Float
from scipy import linalg

from rndlib.network import MLP

Columns = Float[np.ndarray, "n columns"]
Product = Callable[[Columns], Columns]
"""Theta times some columns."""

RANK = 256
"""Eigenvalues that the preconditioner takes out. Above some hundred, finding them takes longer than it saves."""

TOGETHER = 32
"""Columns of which their products are taken at the same time."""

RTOL = 1e-6
"""Residual of each column after training, relative to the one before: the precision of what the noise leaves."""

ITERATIONS = 1000

PER_PRODUCT = 1.8e-10
"""CPU seconds of a product of Theta and one column, per row and parameter (see `work`), measured where `PER_CUBE` of
`rndlib.training.matrices` was: 2.5, 13 and 91 microseconds a row at width 1,024 with 5, 64 and 500 columns of X."""

POWERS = 20
"""Products that estimate the largest eigenvalue that the preconditioner leaves, for the message of a failure."""


def solve(product: Product, r: Columns, noise: float) -> Columns:
    """v with (Theta + noise I) v = r, up to RTOL. The random sketch of the preconditioner is always the same.

    Raises a ValueError if the columns have not converged after ITERATIONS products.
    """
    precondition, top = _preconditioner(product, len(r), noise)
    v, residual, z = np.zeros_like(r), r.copy(), precondition(r)
    p, rho, allowed = z, _dot(r, z), RTOL**2 * _dot(r, r)
    for _ in range(ITERATIONS):
        going = _dot(residual, residual) > allowed
        if not going.any():
            return v
        q = product(p) + noise * p
        alpha = np.where(going, rho / np.where(going, _dot(p, q), 1.0), 0.0)
        v += alpha * p
        residual -= alpha * q
        z = precondition(residual)
        before, rho = np.where(going, rho, 1.0), _dot(residual, z)
        p = z + np.where(going, rho / before, 0.0) * p
    left = float(np.sqrt((_dot(residual, residual) / np.maximum(_dot(r, r), np.finfo(float).tiny)).max()))
    largest, x = 0.0, residual[:, :1]
    for _ in range(POWERS):  # of the kernel as the iterations see it
        largest = float(np.linalg.norm(x))
        x = precondition(product(x / largest))
    # With condition number c, k iterations leave 2 e^{-2 k / sqrt(c)} of the error, and c is this eigenvalue over the
    # noise. Rounding leaves eps times the largest of the kernel itself over the noise.
    enough = max(largest * (log(2 / RTOL) / (2 * ITERATIONS)) ** 2, len(r) * np.finfo(float).eps * top / RTOL)
    raise ValueError(
        f"X: the tangent kernel of its {len(r)} rows is too near to singular to train without forming it (a residual "
        f"of {left:.0e} after {ITERATIONS} iterations): give noise_std of about {enough**0.5:.2g} or more where it is "
        "offered, or more memory"
    )


def work(net: MLP, n: int, columns: float) -> float:
    """Estimated CPU seconds of products of Theta and this many columns. A hidden unit counts as eight parameters."""
    return PER_PRODUCT * n * columns * (net.parameters(1) + 8 * net.width * (net.depth - 1))


def columns(n: int, residuals: int, eigenvalue: float, noise: float) -> float:
    """Estimated number of columns that `solve` takes products with, given eigenvalue number RANK of Theta.

    The preconditioner leaves about four times that eigenvalue. With 5 and 20 columns of X and noise of deviation 0.15,
    measured numbers of iterations are within a fifth of the estimate; with 64 and 500, where all eigenvalues are alike,
    they are down to a sixth and a ninth of it.
    """
    condition = 4 * eigenvalue / noise + 1 if noise else inf
    return min(n, RANK) + residuals * (1 + min(n, condition**0.5 * log(2 / RTOL) / 2))


def _preconditioner(product: Product, n: int, noise: float) -> tuple[Callable[[Columns], Columns], float]:
    """v to P^-1 v, where P is Theta + noise I with all but its largest eigenvalues made equal, and the largest one."""
    rank = min(n, RANK)
    sketch, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, rank)))
    image = np.concatenate([product(sketch[:, some : some + TOGETHER]) for some in range(0, rank, TOGETHER)], axis=1)
    # A shift by rounding keeps the small matrix positive definite; it is taken off the eigenvalues again.
    shift = np.finfo(float).eps * float(np.linalg.norm(image))
    image = image + shift * sketch
    square = sketch.T @ image
    lower = linalg.cholesky((square + square.T) / 2, lower=True)
    vectors, roots, _ = linalg.svd(linalg.solve_triangular(lower, image.T, lower=True).T, full_matrices=False)
    values = np.maximum(np.maximum(roots**2 - shift, 0.0) + noise, shift)
    return lambda v: v + vectors @ ((values[-1] / values - 1)[:, None] * (vectors.T @ v)), float(values[0])


def _dot(a: Columns, b: Columns) -> Float[np.ndarray, " columns"]:
    return np.einsum("ij,ij->j", a, b)
