"""Contenders in regression: each a few lines over its package, from a task to a predictive mean and deviation.

All predict a new observation, noise included. Those of rndlib share the network and the noise that the evidence chose.
Those of other packages find their own by the package's method.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rndlib.estimators import BayesianEnsemble, BayesianRND, DeepEnsemble
from rndlib.practice.task import Predictive, Task, Values
from rndlib.theory import laws
from rndlib.training.solvers import GradientFlow, StochasticGradient


def exact_gp(task: Task) -> Predictive:
    """The posterior of the NTK-GP, in closed form: the limit of the networks of `bayesian_rnd`."""
    law = laws.posterior(task.net, task.X, task.y, task.X_test, noise_std=task.noise_std)
    return _with_noise(task, law.mean, law.var, parameters=2)  # sigma_w and the noise


def bayesian_rnd(task: Task) -> Predictive:
    """One body of many heads, and a network for the mean, trained to convergence."""
    return _with_mean(task, GradientFlow(rtol=task.sizes.rtol))


def minibatch_rnd(task: Task) -> Predictive:
    """The same trained by Adam in minibatches, which needs no matrix of all pairs of points.

    The rate is ten times Adam's default: the law holds at the minimum, and these are few steps to it.
    """
    sizes = task.sizes
    solver = StochasticGradient(learning_rate=1e-2, epochs=sizes.epochs, batch_size=sizes.batch, progress=False)
    return _with_mean(task, solver)


def one_body(task: Task, solver: GradientFlow | StochasticGradient) -> BayesianRND:
    """Bayesian RND, not fitted yet. The heads are many for the width, so each has its own direction."""
    sizes, noise = task.sizes, task.noise_std
    return BayesianRND(task.net, sizes.heads, directions="independent", noise_std=noise, seed=task.seed, solver=solver)


def bayesian_ensemble(task: Task) -> Predictive:
    """Networks that are each a draw from the posterior, trained to convergence."""
    flow = GradientFlow(rtol=task.sizes.rtol)
    model = BayesianEnsemble(task.net, task.sizes.members, noise_std=task.noise_std, seed=task.seed, solver=flow)
    return _of_members(task, model)


def deep_ensemble(task: Task) -> Predictive:
    """Networks trained by Adam in minibatches, each stopped at its smallest loss on a tenth of the points.

    Trained to convergence, as in the theorems, they would fit the noise in the labels.
    """
    sizes = task.sizes
    solver = StochasticGradient(epochs=sizes.epochs, batch_size=sizes.batch, patience=20, progress=False)
    return _of_members(task, DeepEnsemble(task.net, sizes.members, seed=task.seed, solver=solver))


def sklearn_gp(task: Task) -> Predictive:
    """scikit-learn's GaussianProcessRegressor: a squared-exponential kernel with noise, fitted by evidence."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.sqrt(task.X.shape[1])) + WhiteKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # The noise of noise-free labels is at its lower bound.
        model: Any = GaussianProcessRegressor(kernel, random_state=task.seed).fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)  # of an observation, because the noise is in the kernel
    return Predictive(mean, std, len(model.kernel_.theta))


def bayesian_ridge(task: Task) -> Predictive:
    """scikit-learn's BayesianRidge: a linear model, with the noise and the prior's scale fitted by evidence."""
    from sklearn.linear_model import BayesianRidge

    model: Any = BayesianRidge().fit(task.X, task.y)
    mean, std = model.predict(task.X_test, return_std=True)
    return Predictive(mean, std, task.X.shape[1] + 3)  # slopes, intercept, and the two precisions


def laplace(task: Task) -> Predictive:
    """laplace-torch on a PyTorch network of the same activation."""
    from rndlib.practice import with_torch

    return with_torch.laplace_regression(task)


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


def _with_mean(task: Task, solver: GradientFlow | StochasticGradient) -> Predictive:
    mean, std = one_body(task, solver).fit(task.X, task.y).predict(task.X_test, return_std=True)
    return _with_noise(task, mean, std**2, task.net.parameters(task.sizes.heads) + task.net.parameters(1))


def _of_members(task: Task, model: BayesianEnsemble | DeepEnsemble) -> Predictive:
    mean, std = model.fit(task.X, task.y).predict(task.X_test, return_std=True)
    return _with_noise(task, mean, std**2, task.sizes.members * task.net.parameters(1))


def _with_noise(task: Task, mean: Values, variance: Values, parameters: int) -> Predictive:
    return Predictive(mean, np.sqrt(variance + task.noise_std**2), parameters)
