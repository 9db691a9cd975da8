"""A Gaussian law of a trained function at the test points."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# A variance is a difference of kernels, so its rounding error can make it negative. Negative values down to the first
# multiple of the variance before training are rounding error (relu's near repeated points is the largest). Those down
# to the second, of the largest variance, are that of kernels by quadrature, at points of far smaller ones.
_ROUNDING, _QUADRATURE = 1e-7, 1e-10


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian law of a function at T test points: mean, variances, and the covariance or None without `full_cov`.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> law = laws.posterior(net, data.X, data.y, data.X_test, full_cov=True)
    >>> law.mean.shape, law.var.shape, law.cov.shape
    ((2,), (2,), (2, 2))
    """

    mean: Float[np.ndarray, " T"]
    var: Float[np.ndarray, " T"]
    cov: Float[np.ndarray, "T T"] | None

    def doubled(self) -> "Gaussian":
        """The law of the difference of two independent functions of this law."""
        return Gaussian(np.zeros_like(self.mean), 2 * self.var, None if self.cov is None else 2 * self.cov)


def mended(mean: Float[np.ndarray, " T"], start: np.ndarray, cov: np.ndarray) -> Gaussian:
    """The law with this covariance, or these variances, rounding errors mended; `start` is the same before training.

    >>> import numpy as np
    >>> from rndlib.theory.gaussian import mended
    >>> mended(np.zeros(2), np.ones(2), np.array([0.5, -1e-12])).var
    array([0.5, 0. ])
    """
    scale, var = (part if part.ndim == 1 else part.diagonal() for part in (start, cov))
    low = var < -_ROUNDING * scale - _QUADRATURE * scale.max(initial=0.0)
    if low.any():
        row = int(low.argmax())
        raise ValueError(
            f"X: its kernel is too ill-conditioned for a variance at row {row} of X_test, which came out as "
            f"{var[row]:.3g}: drop points that nearly repeat others, give noise_std > 0 where it is offered, or a "
            "shorter time"
        )
    var = np.maximum(var, 0)
    if cov.ndim == 1:
        return Gaussian(mean, var, None)
    np.fill_diagonal(cov, var)
    return Gaussian(mean, var, cov)
