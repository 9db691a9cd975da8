"""Draws from a law, and from the heads of a fit, with and without replacement (claims S2 and S2-draws).

Corollary 4.3 draws a head i ~ U[1, K] for every sample. Two samples are then the same with probability 1/K, so that
they have the correlation 1/K, and a distance correlation of 1/K too. Of S samples, S - K (1 - (1 - 1/K)^S) repeat
another one on average. Without replacement none does, and K samples are all there are.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.dependence import dependence
from rndlib.theory.laws import Gaussian


def exact_draws(law: Gaussian, draws: int, seed: int = 0) -> Float[np.ndarray, "draws points"]:
    """Independent draws from a law; its covariance may be singular, as it is where there are training points.

    By Cholesky, whose factor is unique, so that every machine draws the same; the ridge covers the kernels' rounding
    and adds 3e-4 of the largest standard deviation.

    Raises
    ------
    ValueError: the law comes without its covariance.
    """
    if law.cov is None:
        raise ValueError("law has no covariance: ask for it with full_cov=True")
    ridge = 1e-7 * float(law.var.max()) * np.eye(len(law.mean))
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(law.mean, law.cov + ridge, checks.whole("draws", draws, 1), method="cholesky")


def with_replacement(functions: ArrayLike, draws: int, seed: int = 0) -> Float[np.ndarray, "fits draws points"]:
    """Samples as Corollary 4.3 prints it: for every fit, heads i ~ U[1, K], drawn one by one.

    Parameters
    ----------
    functions: `(fits, heads, points)`, one function a head.
    draws: number of samples from each fit.
    seed: of the draws.
    """
    functions = checks.array("functions", functions, None, None, None)
    fits, heads, _ = functions.shape
    chosen = np.random.default_rng(seed).integers(heads, size=(fits, checks.whole("draws", draws, 1)))
    return np.take_along_axis(functions, chosen[:, :, None], axis=1)


def dependence_of_samples(samples: ArrayLike, cov: ArrayLike, heads: int, confidence: float = 0.95) -> Finding:
    """Distance correlation of two samples from one fit, as a multiple of the 1/K of drawing with replacement.

    Parameters
    ----------
    samples: `(fits, draws, points)`, samples less their mean; fits are independently seeded, and are what counts.
    cov: `(points, points)`, the law's covariance, in whose coordinates distances are taken.
    heads: K.
    confidence: of each end of the interval, one-sided.

    Raises
    ------
    ValueError: as `dependence`; or fewer than two heads.
    """
    heads = checks.whole("heads", heads, 2)
    found = dependence(samples, cov, "distance", confidence)
    low, high = found.interval or (0.0, found.value)
    return Finding(heads * found.value, (heads * low, heads * high), "dependence_of_samples")


def repeats(samples: ArrayLike) -> Finding:
    """How many of the samples `(points, draws)`, one a column, repeat an earlier one."""
    samples = checks.array("samples", samples, None, None)
    return Finding(float(samples.shape[1] - len(np.unique(samples, axis=1).T)), check="repeats")


def expected_repeats(heads: int, draws: int) -> float:
    """Expected number of repeats among `draws` samples drawn with replacement from `heads` heads."""
    heads, draws = checks.whole("heads", heads, 1), checks.whole("draws", draws, 1)
    return draws - heads * (1 - (1 - 1 / heads) ** draws)
