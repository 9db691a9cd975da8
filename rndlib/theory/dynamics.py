"""Training of a network that is linear in its parameters, as a linear map of its initial error.

Let A be the tangent kernel on the training points X and C the one between training and test points. With the loss
`1/2 ||f(X) - y||^2`, the trained function at time t is (Eq. 24, in the proof of Theorem B.1; Eq. 6 prints the sign of
the second term wrongly)

    f_t(x) = f_0(x) + G^T (y - f_0(X)),    G = A^-1 (I - E) C,

with E = exp(-A t) for gradient flow, and E = (I - eta A)^k for k = t / eta steps of gradient descent. So an error
e = f - y, or f - g for the target g of RND, ends as e_0(x) - G^T e_0(X). `gain` makes this map, `carried` applies it to
functions, and `covariance` to the covariance of a random one.
"""

from math import inf

import numpy as np
from jaxtyping import Float
from scipy import linalg

_EPS = float(np.finfo(float).eps)

# Eigenvalues below rounding may be anything from 0 to N eps lambda_max. While time times that bound is at most this,
# they change G by at most about this much, relative to its largest entries.
_UNRESOLVED = 1e-6


def gain(
    A: Float[np.ndarray, "n n"],
    C: Float[np.ndarray, "n t"],
    time: float,
    learning_rate: float | None,
    overwrite: bool = False,
) -> Float[np.ndarray, "n t"]:
    """G as above: of gradient flow, or of gradient descent if there is a `learning_rate`. May `overwrite` A.

    A may be singular if its smallest eigenvalues have no effect yet at `time`; otherwise a ValueError says so, as it
    does for a `learning_rate` of 2 / lambda_max or more, or a `time` that is not a whole number of its steps.
    """
    if learning_rate is None and time == inf:
        return _solve(A, C, overwrite)
    steps = inf if learning_rate is None else _whole_steps(time, learning_rate)
    eigenvalues, vectors = linalg.eigh(A)
    top, floor = float(eigenvalues[-1]), len(A) * _EPS * float(eigenvalues[-1])
    if eigenvalues[0] <= floor and time * floor > _UNRESOLVED:
        raise _singular(f"its smallest eigenvalue {eigenvalues[0]:.1e} is within rounding ({floor:.1e}) of zero", floor)
    if learning_rate is not None and learning_rate * top >= 2:
        raise ValueError(
            f"learning_rate = {learning_rate!r}: gradient descent on the summed loss needs less than 2 / lambda_max = "
            f"{2 / top:.6g} here: lower it (for the loss averaged over N points give learning_rate / N)"
        )
    if learning_rate is None:
        with np.errstate(over="ignore"):  # the exponential of -inf is 0, as it should be
            trained = -np.expm1(-eigenvalues * time)
    else:
        rest = 1 - eigenvalues * learning_rate
        # Near 1, a power loses the digits of its distance from 1; further away, logarithms need numbers above 0.
        slow = rest > 0.5
        trained = 1 - rest**steps
        trained[slow] = -np.expm1(steps * np.log1p(-eigenvalues[slow] * learning_rate))
    positive = eigenvalues > 0
    per_eigenvalue = np.full_like(eigenvalues, time)  # the limit of trained / eigenvalue at an eigenvalue of 0
    per_eigenvalue[positive] = trained[positive] / eigenvalues[positive]
    return vectors @ (per_eigenvalue[:, None] * (vectors.T @ C))


def fixed_point(
    A: Float[np.ndarray, "n n"], C: Float[np.ndarray, "n t"], gamma: float, size: float
) -> Float[np.ndarray, "n t"]:
    """A^-T C, the gain of a flow with an A that is not symmetric, to its end (`rndlib.theory.values`).

    A ValueError says so if an eigenvalue of A has no positive real part. There the flow with this `gamma` diverges.
    `size` is the largest entry of the kernels of which A is a difference.
    """
    eigenvalues: np.ndarray = np.asarray(linalg.eigvals(A))
    worst = complex(eigenvalues[np.real(eigenvalues).argmin()])
    floor = len(A) * _EPS * max(float(np.abs(eigenvalues).max()), 10 * size)
    if worst.real <= floor:
        number = f"{worst.real:.3g}" + f"{worst.imag:+.3g}i" * bool(worst.imag)
        raise ValueError(
            f"gamma = {gamma!r}: training by temporal differences does not converge, as Theta_XX - gamma Theta_X'X has "
            f"the eigenvalue {number}, whose real part must be above {floor:.1g}: give a smaller gamma, transitions "
            "that lead to states in X or are terminal, or drop rows of X that nearly repeat others"
        )
    return linalg.solve(A.T, C)


def carried(
    G: Float[np.ndarray, "n T"], on_X: Float[np.ndarray, "*functions n"], at_test: Float[np.ndarray, "*functions T"]
) -> Float[np.ndarray, "*functions T"]:
    """Errors after training at the test points, from the initial errors at the training points and at the test points.

    >>> import numpy as np
    >>> from rndlib.theory import dynamics
    >>> G = dynamics.gain(np.eye(1), np.ones((1, 2)), np.inf, None)
    >>> dynamics.carried(G, np.array([1.0]), np.array([1.0, 3.0]))
    array([0., 2.])
    """
    return at_test - on_X @ G


def covariance(
    G: Float[np.ndarray, "n T"], XX: Float[np.ndarray, "n n"] | None, Xx: Float[np.ndarray, "n T"], xx: np.ndarray
) -> np.ndarray:
    """Covariance (T, T) of errors after training, from its initial blocks; variances (T,) of `xx` (T,).

    Without `XX` it is A, and training has converged: then final errors are independent of the initial ones on X.
    """
    # Of e_0(X) with e_0(x) + e(x).
    across = Xx if XX is None else Xx + carried(G, XX, Xx)
    if xx.ndim == 1:
        return xx - np.einsum("nt,nt->t", G, across)
    change = G.T @ across
    return xx - (change + change.T) / 2


def _solve(A: Float[np.ndarray, "n n"], C: Float[np.ndarray, "n t"], overwrite: bool) -> Float[np.ndarray, "n t"]:
    A = A.T  # in the order of LAPACK, which needs no copy then
    measure, estimate = linalg.get_lapack_funcs(("lange", "pocon"), (A,))
    norm = float(measure("1", A))  # lambda_max or more, and close to it if few entries are negative
    floor = len(A) * _EPS * norm
    try:
        lower = linalg.cholesky(A, lower=True, overwrite_a=overwrite)
    except linalg.LinAlgError as error:
        raise _singular("it has no Cholesky factor", floor) from error
    reciprocal_condition, _ = estimate(lower, norm, uplo="L")
    if reciprocal_condition <= len(A) * _EPS:
        raise _singular(f"its condition number is about {1 / max(reciprocal_condition, 1e-300):.0e}", floor)
    return linalg.cho_solve((lower, True), C)


def _whole_steps(time: float, learning_rate: float) -> float:
    steps = time / learning_rate
    if steps == inf:
        raise ValueError(
            f"time = {time!r} is not a finite number of steps of learning_rate = {learning_rate!r}: give a finite "
            "time, or leave learning_rate out, as gradient descent and gradient flow converge to the same function"
        )
    # time is often steps * learning_rate in floating point, which is off by a few eps of itself.
    if abs(steps - round(steps)) > 1e-9 * max(1.0, steps):
        raise ValueError(
            f"time = {time!r} is {steps:.6g} steps of learning_rate = {learning_rate!r}: give a whole number of steps "
            "times learning_rate"
        )
    return float(round(steps))


def _singular(reason: str, floor: float) -> ValueError:
    """The error, with noise whose square, and a time whose inverse, are large enough for rounding not to count."""
    time = _UNRESOLVED / floor / 4  # some laws take twice the time, and the number is rounded
    return ValueError(
        f"X: the tangent kernel of its rows is singular in float64 ({reason}): drop points that nearly repeat others, "
        f"give noise_std of about {(floor / _UNRESOLVED) ** 0.5:.1g} or more where it is offered, a time of about "
        f"{time:.0e} or less, or a deeper network"
    )
