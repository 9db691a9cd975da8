"""How e^{-h Theta} is applied, for every backend: the sizes, accuracies and poles that both ways to it go by."""

from functools import cache

import numpy as np
from scipy.interpolate import AAA

DENSE_LIMIT, DENSE_MANY = 128, 40
"""Largest N K for which the kernel matrix is formed: of one or two heads, and of more."""

EXPONENTIAL_ERROR = 1e-5
"""Error allowed to the rational approximation of e^{-z}, uniformly in z >= 0."""

SOLVE_RTOL = 1e-4
"""Relative residual of the shifted systems. They are solved in float32, which is enough: the error of one solve is a
relative change of one step, and at convergence Newton's method, in float64, removes what the solves have left."""

ITERATIONS, STARTS = 1000, 3
"""A system takes some 50 iterations, a nearly singular one several hundred. The method can break down, about once in
a thousand solves of many heads on a narrow body: after so many iterations it starts anew from where it is."""

POWER_STEPS = 60
"""Steps of the power iteration to the largest eigenvalue where the kernel matrix is not formed."""


def dense(n_samples: int, heads: int) -> bool:
    """Whether the kernel matrix of a body is formed and its eigenproblem solved.

    Both ways were timed from 5 to 128 unknowns, at widths 64 to 2048. With several heads the other one is ahead from 40
    on, two to five times at 100. With one or two it takes N of 50 and more to get there, and kernels of so many points
    are too nearly singular for single precision.
    """
    return n_samples * heads <= (DENSE_LIMIT if heads <= 2 else DENSE_MANY)


@cache
def rational_exponential() -> tuple[np.ndarray, np.ndarray]:
    """Poles z_j and residues c_j with e^{-z} = 2 Re sum_j c_j / (z - z_j) for z >= 0, within EXPONENTIAL_ERROR.

    One pole of each conjugate pair is returned. The approximation is the AAA algorithm's (Nakatsukasa, Sete and
    Trefethen, 2018); six poles suffice.
    """
    z = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 401)])
    fit = AAA(z, np.exp(-z), rtol=EXPONENTIAL_ERROR)
    upper = fit.poles().imag > 0
    return fit.poles()[upper], fit.residues()[upper]
