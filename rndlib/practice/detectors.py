"""Contenders in detecting points unlike the training set: each gives a score that should be higher outside.

Numeric labels are 1 for an odd digit and -1 for an even one; classifiers have the digits.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rndlib.estimators import RND
from rndlib.practice import regressors
from rndlib.practice.task import Predictive, Score, Task
from rndlib.training.solvers import GradientFlow


def deviation(regressor: Callable[[Task], Predictive]) -> Callable[[Task], Score]:
    """The standard deviation that a regressor predicts."""

    def detector(task: Task) -> Score:
        prediction = regressor(replace(task, y=odd(task.y)))
        return Score(prediction.std, prediction.parameters)

    return detector


def bayesian_rnd(task: Task) -> Score:
    """The variance of Bayesian RND, without labels."""
    errors = regressors.one_body(task, GradientFlow(rtol=task.sizes.rtol)).fit(task.X).errors(task.X_test)
    return Score(np.mean(errors**2, axis=0), task.net.parameters(task.sizes.heads), errors)


def rnd(task: Task) -> Score:
    """The variance of RND as in the theorems: predictor and target alike, trained to convergence, without labels."""
    solver = GradientFlow(rtol=task.sizes.rtol)
    model = RND(task.net, task.sizes.heads, seed=task.seed, solver=solver).fit(task.X)
    return Score(model.variance(task.X_test), task.net.parameters(task.sizes.heads))


def plain_rnd(task: Task) -> Score:
    """RND as agents use it, without labels."""
    from rndlib.practice import with_torch

    return with_torch.plain_rnd(task)


def laplace(task: Task) -> Score:
    """The entropy of laplace-torch's prediction of the digit."""
    from rndlib.practice import with_torch

    return with_torch.laplace_entropy(task)


def classifiers(task: Task) -> Score:
    """The entropy of the mean prediction of several of scikit-learn's MLPClassifier: a deep ensemble of classifiers."""
    from scipy.special import entr
    from sklearn.neural_network import MLPClassifier

    probabilities, parameters = [], 0
    for member in range(task.sizes.members):
        seed = task.seed * task.sizes.members + member
        model: Any = MLPClassifier((task.net.width,), max_iter=1000, random_state=seed).fit(task.X, task.y)
        probabilities.append(model.predict_proba(task.X_test))
        parameters += sum(weights.size for weights in [*model.coefs_, *model.intercepts_])
    return Score(entr(np.mean(probabilities, axis=0)).sum(axis=1), parameters)


def nearest(task: Task) -> Score:
    """The distance to the nearest training point, without a fit and without labels."""
    from sklearn.neighbors import NearestNeighbors

    distances, _ = NearestNeighbors(n_neighbors=1).fit(task.X).kneighbors(task.X_test)
    return Score(distances[:, 0], 0)


DETECTORS: dict[str, Callable[[Task], Score]] = {
    "Bayesian RND": bayesian_rnd,
    "exact NTK-GP": deviation(regressors.exact_gp),
    "RND": rnd,
    "RND as agents have it": plain_rnd,
    "Bayesian ensemble": deviation(regressors.bayesian_ensemble),
    "deep ensemble, stopped early": deviation(regressors.deep_ensemble),
    "ensemble of MLPClassifier": classifiers,
    "GaussianProcessRegressor": deviation(regressors.sklearn_gp),
    "laplace-torch": laplace,
    "nearest neighbour": nearest,
}


def odd(digits: Float[np.ndarray, " n"] | Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """1 for odd digits and -1 for even ones."""
    return np.where(digits % 2 == 1, 1.0, -1.0)
