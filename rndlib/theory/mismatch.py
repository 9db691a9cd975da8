"""What half the mean squared error of RND estimates when predictor and target have different architectures.

A predictor u with the kernels kappa_u and Theta is trained on X to match an independent g with the prior kernel
kappa_g. In the limit of width its error is (Theorem B.1, applied to u - g)

    u(x) - g(x) = [u_0 - g](x) - G^T [u_0 - g](X),    G = Theta_XX^-1 Theta_Xx

This map is linear and depends on the predictor only; u_0 - g is GP(0, kappa_u + kappa_g). With
`V[kappa] = kappa_xx + G^T kappa_XX G - 2 G^T kappa_Xx`, half the expected square is `(V[kappa_u] + V[kappa_g]) / 2`,
and V[kappa_u] is the variance of an ensemble of predictors. Hence the factor

    (1 + V[kappa_g] / V[kappa_u]) / 2

It is 1 if kappa_g = kappa_u, the case of Theorem 3.4, and (1 + c^2) / 2 if kappa_g = c^2 kappa_u. Otherwise it depends
on x and on the training points. At a finite time the same holds with the G of `rndlib.theory.dynamics`.
"""

from math import inf

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib.network import MLP
from rndlib.theory import kernels, laws, reference
from rndlib.theory.dynamics import covariance, gain


class MismatchWarning(UserWarning):
    """Predictor and target of RND differ, so half the mean squared error is not an ensemble's variance.

    >>> import warnings
    >>> from rndlib.theory.mismatch import MismatchWarning
    >>> warnings.simplefilter("error", MismatchWarning)  # to make it an error
    """


def factor(predictor: MLP, target: MLP, X: ArrayLike, X_test: ArrayLike, time: float = inf) -> Float[np.ndarray, " T"]:
    """Half the expected squared error over the variance of an ensemble of predictors, at `X_test` (T, in_dim).

    Exact in the limit of width, after gradient flow on `X` (N, in_dim) for `time`. Divide `variance`, or a bonus, by
    this factor to get an ensemble's variance.

    Raises
    ------
    ValueError: As in `laws.ensemble`; or the ensemble has no variance at a point of X_test, for instance at a training
        point.

    >>> from rndlib import MLP
    >>> from rndlib.theory.mismatch import factor
    >>> predictor = MLP(2, activation="relu", sigma_w=1.0, sigma_b=0.0)
    >>> louder = MLP(2, activation="relu", sigma_w=2.0, sigma_b=0.0)  # 2^2 times the function
    >>> factor(predictor, louder, X=[[1, 0]], X_test=[[0, 1], [1, 1]]).round(6)
    array([8.5, 8.5])
    """
    if target.in_dim != predictor.in_dim:
        raise ValueError(f"target = {target}: give the predictor's in_dim = {predictor.in_dim}")
    X, X_test = reference.points(predictor, X, X_test)
    variance = laws.ensemble(predictor, X, np.zeros(len(X)), X_test, time=time).var
    # At a known point, the law's variance is only rounding error of the prior variance.
    known = variance <= 1e-7 * kernels.diagonal(predictor, X_test).nngp
    if known.any():
        raise ValueError(
            f"X_test: at row {int(known.argmax())} the ensemble has no variance to compare with: leave out known points"
        )
    G = gain(kernels.ntk(predictor, X), kernels.ntk(predictor, X, X_test), time, None)
    blocks = reference.blocks(target, X, X_test, full_cov=False)
    return (1 + covariance(G, *(block.nngp for block in blocks)) / variance) / 2
