"""Predictions with error bars, their scores, and intervals over splits of the data. All are in the units of the labels.

A joint score asks for several labels at once. It is the log density of `SIZE` test labels under the joint prediction of
their points, over `SIZE`: nats per point, as in the neural testbed (Wen et al., 2022; Osband et al., 2022a). A method
that predicts each point well, but not which points go wrong together, loses there. Of points drawn at random, few have
anything to do with each other; so the score is also taken of each test point with its nearest ones. That takes the
place of the repeated points of dyadic sampling (Osband et al., 2022b), as real data has one label per point.

- Wen et al., 2022: From predictions to decisions: the importance of joint predictive distributions.
- Osband et al., 2022a: The neural testbed: evaluating joint predictions.
- Osband et al., 2022b: Evaluating high-order predictive distributions in deep learning.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from scipy.stats import norm, t

from rndlib.paper.evidence.estimate import Estimate

Rows = Float[np.ndarray, " t"]
Tuples = Int[np.ndarray, "n size"]
SIZE = 10
"""Points of a tuple."""


@dataclass(frozen=True)
class Predictive:
    """A mixture, in equal parts, of normal distributions of the labels of t points.

    Part m has the means `means[m]` (t,), and the covariance `cov` (t, t) plus the variances `noise_std[m] ** 2` (t,) of
    what is independent from label to label.
    """

    means: Float[np.ndarray, "m t"]
    noise_std: Float[np.ndarray, "m t"]
    cov: Float[np.ndarray, "t t"]

    @property
    def moments(self) -> tuple[Rows, Rows]:
        """Mean and standard deviation of each label."""
        variance = self.means.var(axis=0) + (self.noise_std**2).mean(axis=0) + self.cov.diagonal()
        return self.means.mean(axis=0), np.sqrt(variance)


def normal(mean: Rows, noise_std: float | Rows, cov: Float[np.ndarray, "t t"] | None = None) -> Predictive:
    """The prediction of a function with this mean and covariance (0 if None), observed with noise."""
    noise = np.broadcast_to(noise_std, mean.shape)
    return Predictive(mean[None], noise[None], np.zeros((len(mean), len(mean))) if cov is None else cov)


def crps(y: Rows, mean: Rows, std: Rows) -> float:
    """Mean over points of the continuous ranked probability score of `N(mean, std^2)`; lower is better.

    `E|Y - y| - E|Y - Y'| / 2` for independent draws Y, Y' of the prediction (Gneiting and Raftery, 2007, Section 4.2).
    """
    z = (y - mean) / std
    return float((std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / sqrt(pi))).mean())


def joint(y: Rows, of: Predictive, tuples: Tuples) -> float:
    """Mean over tuples of points of the joint log density of their labels, in nats per point; higher is better."""
    size = tuples.shape[1]
    at = of.cov[tuples[:, :, None], tuples[:, None]] + (of.noise_std[:, tuples] ** 2)[..., None] * np.eye(size)
    factor = np.linalg.cholesky(at)
    z = np.linalg.solve(factor, (y - of.means)[:, tuples, None])[..., 0]
    logs = norm.logpdf(z).sum(axis=-1) - np.log(factor.diagonal(axis1=-2, axis2=-1)).sum(axis=-1)
    return float((logsumexp(logs, axis=0) - np.log(len(logs))).mean() / size)


def at_random(n_points: int, seed: int) -> Tuples:
    """The points in a random order, cut into tuples; those that do not fill one are left out."""
    order = np.random.default_rng(seed).permutation(n_points)
    return order[: n_points - n_points % SIZE].reshape(-1, SIZE)


def neighbours(X: Float[np.ndarray, "t d"]) -> Tuples:
    """One tuple per point: itself and its nearest ones."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=SIZE).fit(X).kneighbors(X, return_distance=False)


def of_predictions(
    y: Rows, of: Predictive, X: Float[np.ndarray, "t d"], seed: int = 0, level: float = 0.9
) -> dict[str, float]:
    """All scores, by name. Those of single labels are of the normal distribution with their mean and variance.

    NLL : the mean of `-log N(y | mean, std^2)`, in nats.
    coverage, width : share of labels in the central intervals at `level`, and the mean width of these.
    joint, nearby : joint scores of tuples at random, and of each point of X with its nearest ones.
    nearby alone : what `nearby` would be if the labels were independent, each predicted as it is.
    """
    mean, std = of.moments
    half, near = norm.ppf((1 + level) / 2) * std, neighbours(X)
    return {
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "NLL": float(-norm.logpdf(y, mean, std).mean()),
        "CRPS": crps(y, mean, std),
        "coverage": float((np.abs(y - mean) <= half).mean()),
        "width": float(2 * half.mean()),
        "joint": joint(y, of, at_random(len(y), seed)),
        "nearby": joint(y, of, near),
        "nearby alone": joint(y, normal(mean, std), near),
    }


def auroc(inside: Rows, outside: Rows) -> float:
    """The probability that a point outside has a higher value than one inside: the area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score([0] * len(inside) + [1] * len(outside), np.concatenate([inside, outside])))


def over_splits(values: ArrayLike, n_train: int, n_test: int) -> Estimate:
    """Mean of a score over random splits of one data set, with Nadeau and Bengio's corrected 95 % interval (2003).

    `values` has the score on each split, or the difference of two methods. Splits share points. The variance of a
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
