"""Contenders in telling points like the training set from others: each gives a score that should be higher outside.

Those that need numbers as labels have 1 for an odd digit and -1 for an even one; classifiers have the digits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rndlib import checks
from rndlib.estimators import RND
from rndlib.practice import models
from rndlib.practice.task import Task, parameters
from rndlib.theory import laws
from rndlib.training.solvers import GradientFlow


@dataclass(frozen=True)
class Score:
    """A score of every test point, (t,), higher where a point is less like those trained on.

    parameters: how many numbers were fitted to the training set. errors: of RND's heads, (heads, t), from which the
    score comes; None for others.
    """

    values: Float[np.ndarray, " t"]
    parameters: int
    errors: Float[np.ndarray, "heads t"] | None = None


def exact_gp(task: Task) -> Score:
    """The variance of the NTK-GP posterior, in closed form. It knows no labels."""
    law = laws.posterior(task.net, task.X, odd(task.y), task.X_test, noise_std=task.noise_std)
    return Score(law.var, 2)


def bayesian_rnd(task: Task) -> Score:
    """The variance of Bayesian RND. It knows no labels."""
    model = models.bayesian_rnd(task, GradientFlow(rtol=task.sizes.rtol)).fit(task.X)
    errors = model.errors(task.X_test)
    return Score(np.mean(errors**2, axis=0), parameters(task.net, task.sizes.heads, 1), errors)


def rnd(task: Task) -> Score:
    """The variance of RND as the theorems have it: predictor and target alike, trained to convergence. No labels."""
    solver = GradientFlow(rtol=task.sizes.rtol)
    model = RND(task.net, task.sizes.heads, seed=task.seed, solver=solver).fit(task.X)
    return Score(model.variance(task.X_test), parameters(task.net, task.sizes.heads, 1))


def plain_rnd(task: Task) -> Score:
    """RND as agents have it (see `with_torch.plain_rnd`). No labels."""
    from rndlib.practice import with_torch

    return Score(*with_torch.plain_rnd(task))


def bayesian_ensemble(task: Task) -> Score:
    """The variance over networks that each are a draw from the posterior."""
    model = models.bayesian_ensemble(task).fit(task.X, odd(task.y))
    return Score(model.variance(task.X_test), parameters(task.net, 1, task.sizes.members))


def deep_ensemble(task: Task) -> Score:
    """The variance over networks trained by Adam in minibatches, each stopped early (`models`)."""
    model = models.deep_ensemble(task).fit(task.X, odd(task.y))
    return Score(model.variance(task.X_test), parameters(task.net, 1, task.sizes.members))


def sklearn_gp(task: Task) -> Score:
    """The standard deviation of scikit-learn's GaussianProcessRegressor, its kernel fitted to the labels."""
    from rndlib.practice import regressors

    found = regressors.sklearn_gp(replace(task, y=odd(task.y)))
    return Score(found.std, found.parameters)


def laplace(task: Task) -> Score:
    """The entropy of laplace-torch's prediction of the digit."""
    from rndlib.practice import with_torch

    _, labels = np.unique(task.y, return_inverse=True)
    return Score(*with_torch.laplace_entropy(replace(task, y=labels.astype(float)), int(labels.max()) + 1))


def classifiers(task: Task) -> Score:
    """The entropy of the mean prediction of several of scikit-learn's MLPClassifier: a deep ensemble of classifiers."""
    from scipy.special import entr
    from sklearn.neural_network import MLPClassifier

    def probabilities(member: int) -> tuple[np.ndarray, int]:
        seed = task.seed * task.sizes.members + member
        model: Any = MLPClassifier((task.net.width,), max_iter=1000, random_state=seed).fit(task.X, task.y)
        return model.predict_proba(task.X_test), sum(weights.size for weights in [*model.coefs_, *model.intercepts_])

    found = [probabilities(member) for member in range(task.sizes.members)]
    mean = np.mean([of for of, _ in found], axis=0)
    return Score(entr(mean).sum(axis=1), sum(count for _, count in found))


def nearest(task: Task) -> Score:
    """The distance to the nearest training point, which fits nothing. No labels."""
    from sklearn.neighbors import NearestNeighbors

    distances, _ = NearestNeighbors(n_neighbors=1).fit(task.X).kneighbors(task.X_test)
    return Score(distances[:, 0], 0)


DETECTORS: dict[str, Callable[[Task], Score]] = {
    "Bayesian RND": bayesian_rnd,
    "exact NTK-GP": exact_gp,
    "RND": rnd,
    "RND as agents have it": plain_rnd,
    "Bayesian ensemble": bayesian_ensemble,
    "deep ensemble, stopped early": deep_ensemble,
    "ensemble of MLPClassifier": classifiers,
    "GaussianProcessRegressor": sklearn_gp,
    "laplace-torch": laplace,
    "nearest neighbour": nearest,
}


def auroc(inside: Float[np.ndarray, " t"], outside: Float[np.ndarray, " s"]) -> float:
    """The chance that a point outside has a higher score than one inside, ties counted half: 0.5 is guessing.

    >>> import numpy as np
    >>> from rndlib.practice import detectors
    >>> detectors.auroc(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    from sklearn.metrics import roc_auc_score

    where = np.concatenate([np.zeros(len(inside)), np.ones(len(outside))])
    return float(roc_auc_score(where, np.concatenate([inside, outside])))


def aurocs(score: Score, inside: int, outside: Mapping[str, int]) -> dict[str, float]:
    """The AUROC of each group outside, where the test points are so many inside and then the groups in this order."""
    groups = np.split(score.values[inside:], np.cumsum(list(outside.values()))[:-1])
    return {name: auroc(score.values[:inside], group) for name, group in zip(outside, groups, strict=True)}


def of_first_heads(score: Score, heads: int) -> Score:
    """The score of Bayesian RND that its first heads alone would give, after the training that all of them had.

    Raises
    ------
    ValueError: the score has no errors, or not of so many heads.

    >>> import numpy as np
    >>> from rndlib.practice import detectors
    >>> score = detectors.Score(np.array([2.5]), parameters=9, errors=np.array([[1.0], [2.0]]))
    >>> detectors.of_first_heads(score, 1).values
    array([1.])
    """
    if score.errors is None:
        raise ValueError("score has no errors of heads: give one of `bayesian_rnd`")
    if checks.whole("heads", heads, at_least=1) > len(score.errors):
        raise ValueError(f"heads = {heads}: the score has {len(score.errors)}; give at most as many")
    errors = score.errors[:heads]
    return Score(np.mean(errors**2, axis=0), score.parameters, errors)


def odd(digits: Float[np.ndarray, " n"] | Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """1 for odd digits and -1 for even ones."""
    return np.where(digits % 2 == 1, 1.0, -1.0)
