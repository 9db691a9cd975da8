"""How e^{-h Theta} is applied, for every backend: the sizes, accuracies and poles that both ways to it go by."""

from functools import cache

import numpy as np
from scipy.interpolate import AAA

DENSE_LIMIT = 128
"""Largest N K for which the kernel matrix is formed."""

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


@cache
def rational_exponential() -> tuple[np.ndarray, np.ndarray]:
    """Poles z_j and residues c_j with e^{-z} = 2 Re sum_j c_j / (z - z_j) for z >= 0, within EXPONENTIAL_ERROR.

    One pole of each conjugate pair is returned. The approximation is the AAA algorithm's (Nakatsukasa, Sete and
    Trefethen, 2018); six poles suffice.
    """
    z = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 4001)])
    fit = AAA(z, np.exp(-z), rtol=EXPONENTIAL_ERROR)
    upper = fit.poles().imag > 0
    return fit.poles()[upper], fit.residues()[upper]
