"""Scores of error bars and of detection, and intervals over splits of the data."""

from collections.abc import Mapping
from math import pi, sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from rndlib.evidence.estimate import Estimate

Rows = Float[np.ndarray, " t"]


def negative_log_likelihood(y: Rows, mean: Rows, std: Rows) -> float:
    """Mean over points of `-log N(y | mean, std^2)`, in nats; lower is better."""
    return float(-norm.logpdf(y, mean, std).mean())


def crps(y: Rows, mean: Rows, std: Rows) -> float:
    """Mean over points of the continuous ranked probability score of `N(mean, std^2)`; lower is better.

    `E|Y - y| - E|Y - Y'| / 2` for independent draws Y, Y' of the prediction (Gneiting and Raftery, 2007, Section 4.2).
    """
    z = (y - mean) / std
    return float((std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / sqrt(pi))).mean())


def of_predictions(y: Rows, mean: Rows, std: Rows, level: float = 0.9) -> dict[str, float]:
    """All scores of Gaussian predictions, with the share of labels in the central intervals and their mean width."""
    half = norm.ppf((1 + level) / 2) * std
    return {
        "NLL": negative_log_likelihood(y, mean, std),
        "CRPS": crps(y, mean, std),
        "coverage": float((np.abs(y - mean) <= half).mean()),
        "width": float(2 * half.mean()),
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
    }


def aurocs(values: Rows, inside: int, outside: Mapping[str, int]) -> dict[str, float]:
    """For each group outside, the probability that one of its points has a higher value than one inside.

    `values` are those inside, then those of the groups in their order.
    """
    from sklearn.metrics import roc_auc_score

    groups = np.split(values[inside:], np.cumsum(list(outside.values()))[:-1])
    return {
        name: float(roc_auc_score([0] * inside + [1] * len(group), np.concatenate([values[:inside], group])))
        for name, group in zip(outside, groups, strict=True)
    }


def over_splits(values: ArrayLike, n_train: int, n_test: int) -> Estimate:
    """Mean of a score over random splits of one data set, with Nadeau and Bengio's corrected 95 % interval (2003).

    `values` has the score on each split, or the difference of two contenders. Splits share points. The variance of a
    mean over J splits is therefore taken to be `(1 / J + n_test / n_train) S^2`, with S^2 the sample variance over
    splits: the second term, for the common points, does not fall with J. This is an approximation, and a conservative
    one if training sets overlap less than those of splits of the whole data do.
    """
    values = np.asarray(values, float)
    splits = len(values)
    if splits < 2:
        raise ValueError(f"values has {splits} split, which gives no interval: run at least two")
    half = float(t.ppf(0.975, splits - 1)) * sqrt(1 / splits + n_test / n_train) * float(values.std(ddof=1))
    mean = float(np.mean(values))
    return Estimate(mean, mean - half, mean + half)
