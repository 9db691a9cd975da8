"""The largest eigenvalue of networks' own tangent kernels, by a few products with the kernel.

From a start v_1, Lanczos's three-term recurrence makes the kernel tridiagonal on the span of its powers on v_1. The
largest eigenvalue of that matrix approaches the kernel's from below. Vectors are not orthogonalised again: that would
only prevent copies of converged eigenvalues, and a copy does not raise the largest.
"""

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from rndlib.training.problem import Problem
from rndlib.training.protocols import Backend
from rndlib.training.residuals import sizes

FORMED = 128
"""Largest N K for which the kernel is formed."""

STEPS = 16
"""Products with the kernel. They leave an error of at most 4 %; a tenth would be enough."""


def largest_eigenvalue(problem: Problem, backend: Backend) -> float:
    """lambda_max of the tangent kernels at the start, noise included: the largest over the bodies.

    By Lanczos it is slightly too small. A learning rate that passes by that margin and diverges is caught after
    training.
    """
    bodies, heads, n = problem.targets.shape
    given = problem.net, problem.start, problem.X
    if n * heads <= FORMED:
        kernels = np.add(*backend.tangent_kernels(*given)).transpose(0, 3, 1, 4, 2).reshape(bodies, n * heads, -1)
        return float(np.linalg.eigvalsh(kernels).max()) + problem.noise_std**2
    start = np.sin(np.arange(1.0, 1.0 + n * heads)).reshape(n, heads)  # irregular, not orthogonal to eigenvectors
    v = np.tile(start / np.linalg.norm(start), (bodies, 1, 1))
    before, beside = np.zeros_like(v), np.zeros(bodies)
    diagonals, besides = [], []
    for _ in range(STEPS):
        w = backend.kernel_product(*given, v) - beside[:, None, None] * before
        diagonal = (v * w).sum((1, 2))
        w = w - diagonal[:, None, None] * v
        beside = sizes(w)
        before, v = v, w / np.where(beside > 0, beside, 1.0)[:, None, None]
        diagonals.append(diagonal)
        besides.append(beside)
    each = zip(np.transpose(diagonals), np.transpose(besides[:-1]), strict=True)
    return max(float(eigvalsh_tridiagonal(*one)[-1]) for one in each) + problem.noise_std**2
