"""Contenders in regression: each a few lines over its package, from a task to a predictive mean and deviation.

All predict a new observation, noise included. Those of rndlib share the network and the noise that the evidence chose;
those of other packages find their own, by the means that these packages have for it.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib.practice import models, scores
from rndlib.practice.task import Task, parameters
from rndlib.theory import laws
from rndlib.training.solvers import GradientFlow, StochasticGradient


@dataclass(frozen=True)
class Predictive:
    """Means and standard deviations of new observations at the test points, (t,) each, in the units of y.

    parameters: how many numbers were fitted to the training set.
    """

    mean: Float[np.ndarray, " t"]
    std: Float[np.ndarray, " t"]
    parameters: int


def exact_gp(task: Task) -> Predictive:
    """The posterior of the NTK-GP, in closed form: what the networks of `bayesian_rnd` tend to with width."""
    law = laws.posterior(task.net, task.X, task.y, task.X_test, noise_std=task.noise_std)
    return _with_noise(task, law.mean, law.var, parameters=2)  # sigma_w and the noise


def bayesian_rnd(task: Task) -> Predictive:
    """One body of many heads, with directions of their own as the heads are many for the width; and a mean network."""
    return _bayesian_rnd(task, GradientFlow(rtol=task.sizes.rtol))


def minibatch_rnd(task: Task) -> Predictive:
    """The same trained by Adam in minibatches, which needs no matrix of all pairs of points: for large data.

    At ten times Adam's default rate, as the minimum is where the error has its law, and these are few steps to it.
    """
    sizes = task.sizes
    solver = StochasticGradient(learning_rate=1e-2, epochs=sizes.epochs, batch_size=sizes.batch, progress=False)
    return _bayesian_rnd(task, solver)


def _bayesian_rnd(task: Task, solver: GradientFlow | StochasticGradient) -> Predictive:
    model = models.bayesian_rnd(task, solver).fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)
    fitted = parameters(task.net, task.sizes.heads, 1) + parameters(task.net, 1, 1)
    return _with_noise(task, mean, std**2, fitted)


def bayesian_ensemble(task: Task) -> Predictive:
    """Networks that each are a draw from the posterior, trained to convergence."""
    model = models.bayesian_ensemble(task).fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)
    return _with_noise(task, mean, std**2, parameters(task.net, 1, task.sizes.members))


def deep_ensemble(task: Task) -> Predictive:
    """Networks trained by Adam in minibatches, each stopped early (`models`)."""
    model = models.deep_ensemble(task).fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)
    return _with_noise(task, mean, std**2, parameters(task.net, 1, task.sizes.members))


def sklearn_gp(task: Task) -> Predictive:
    """scikit-learn's GaussianProcessRegressor: a squared-exponential kernel with noise, fitted by evidence."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.sqrt(task.X.shape[1])) + WhiteKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Labels without noise take it to its lower bound.
        model: Any = GaussianProcessRegressor(kernel, random_state=task.seed).fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)  # of an observation, as the noise is in the kernel
    return Predictive(mean, std, len(model.kernel_.theta))


def bayesian_ridge(task: Task) -> Predictive:
    """scikit-learn's BayesianRidge: a linear model, with the noise and the prior's scale fitted by evidence."""
    from sklearn.linear_model import BayesianRidge

    model: Any = BayesianRidge().fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)
    return Predictive(mean, std, task.X.shape[1] + 3)  # slopes, intercept, and the two precisions


def laplace(task: Task) -> Predictive:
    """laplace-torch on a PyTorch network of the same width and activation (see `with_torch`)."""
    from rndlib.practice import with_torch

    mean, std, fitted = with_torch.laplace_regression(task)
    return Predictive(mean, std, fitted)


REGRESSORS: dict[str, Callable[[Task], Predictive]] = {
    "Bayesian RND": bayesian_rnd,
    "Bayesian RND, minibatches": minibatch_rnd,
    "exact NTK-GP": exact_gp,
    "Bayesian ensemble": bayesian_ensemble,
    "deep ensemble, stopped early": deep_ensemble,
    "GaussianProcessRegressor": sklearn_gp,
    "laplace-torch": laplace,
    "BayesianRidge": bayesian_ridge,
}


SCORES: dict[str, Callable[[ArrayLike, ArrayLike, ArrayLike], float]] = {
    "NLL": scores.negative_log_likelihood,
    "CRPS": scores.crps,
    "coverage": scores.coverage,
    "width": lambda _, __, std: scores.interval_width(std),
    "RMSE": lambda y, mean, _: float(np.sqrt(np.mean((np.asarray(y) - np.asarray(mean)) ** 2))),
}
"""Scores by name, of labels, means and standard deviations: `rndlib.practice.scores`, with the mean width of the 90 %
intervals, and the root mean squared error of the means."""


def scored(
    found: Sequence[Predictive], labels: Sequence[Float[np.ndarray, " t"]]
) -> dict[str, Float[np.ndarray, " splits"]]:
    """Every score of a contender's predictions on each split, given the labels of the test points: (splits,) each."""
    pairs = list(zip(found, labels, strict=True))
    return {name: np.array([of(y, at.mean, at.std) for at, y in pairs]) for name, of in SCORES.items()}


def _with_noise(
    task: Task, mean: Float[np.ndarray, " t"], variance: Float[np.ndarray, " t"], parameters: int
) -> Predictive:
    return Predictive(mean, np.sqrt(variance + task.noise_std**2), parameters)
