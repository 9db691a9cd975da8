"""How e^{-h Theta} is applied, for every backend: the sizes, accuracies and poles that both ways to it go by."""

from typing import Any, NamedTuple


class Spectrum(NamedTuple):
    """The infinite-width kernel on the training set, which preconditions the empirical one head by head.

    values: (N,), eigenvalues of Theta_XX in ascending order, observation noise included.
    vectors: (N, N), eigenvectors in columns. Both are arrays of any library.
    """

    values: Any
    vectors: Any


DENSE_ALONE, DENSE_LIMIT, DENSE_MANY = 700, 128, 40
"""Largest N K for which the kernel matrix is formed: of one head, of two, and of more."""

EXPONENTIAL_ERROR = 1e-5
"""Error allowed to the rational approximation of e^{-z}, uniformly in z >= 0."""

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

One pole of each conjugate pair. They are what the AAA algorithm (Nakatsukasa, Sete and Trefethen, 2018) gives, as
tests/test_exponential.py finds again: running it took every process half a second.
"""

SOLVE_RTOL = 1e-4
"""Relative residual of the shifted systems. Solving them in float32 is enough: the error of a solve is a relative
change of one step, and at convergence Newton's method, in float64, removes what the solves leave."""

ITERATIONS, STARTS = 1000, 3
"""Iterations per start, and starts. A system takes some 50 iterations, a nearly singular one several hundred. The
method can break down, about once in a thousand solves; it then starts anew from where it is."""


def dense(n_samples: int, heads: int) -> bool:
    """Whether the kernel matrix of a body is formed and its eigenproblem solved.

    The limits are where the two ways take the same time, at widths 64 to 2048; one head on more than 700 points was not
    measured. Two heads stay with the matrix for longer, as kernels of so many points are too nearly singular for the
    single precision of the other way.
    """
    return n_samples * heads <= {1: DENSE_ALONE, 2: DENSE_LIMIT}.get(heads, DENSE_MANY)
