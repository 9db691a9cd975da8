"""Coordinates in which a Gaussian law is N(0, I)."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from rndlib import checks


def whitened(samples: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Float[np.ndarray, "networks points"]:
    """w = L^-1 (z - mean) of every sample z, with cov = L L^T: every direction over the test points weighs the same.

    Under the law, |w|^2 has the chi-squared law with as many degrees of freedom as there are points.

    Parameters
    ----------
    samples: `(networks, points)`.
    mean, cov: `(points,)` and `(points, points)`, of the law; cov positive definite.

    Raises
    ------
    ValueError: shapes disagree, or a covariance that is not positive definite.
    """
    samples = checks.array("samples", samples, None, None)
    points = samples.shape[1]
    mean, cov = checks.array("mean", mean, points), checks.array("cov", cov, points, points)
    try:
        root = linalg.cholesky(cov, lower=True)
    except linalg.LinAlgError as error:
        raise ValueError("cov is not positive definite: leave out training points and near repeats") from error
    return linalg.solve_triangular(root, (samples - mean).T, lower=True).T
