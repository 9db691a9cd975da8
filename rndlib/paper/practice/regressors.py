"""Methods of regression in notebook 06, each as its package would have it: a split and a seed to a prediction.

A prediction is of new labels at the test points, noise included, in standard deviations of the training labels.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from rndlib.network import MLP
from rndlib.paper.practice.data import Split
from rndlib.paper.practice.methods import Method
from rndlib.paper.practice.scores import Predictive, normal

_DRAWS = 512  # functions that the automatic estimator draws
_EPOCHS = 100  # passes over the data of minibatch training


def automatic(at: Split, seed: int) -> Predictive:
    """Bayesian RND as the library chooses it, from columns and labels in their own units."""
    from rndlib import BayesianRND

    model = BayesianRND(seed=seed).fit(at.X, at.y)
    mean, std = model.predict(at.X_test, return_std=True)
    drawn = model.sample_y(at.X_test, _DRAWS)
    # The draws give the correlations. Deviations are those that it predicts.
    cov = np.corrcoef(drawn) * np.outer(std, std)
    size = at.y.std()
    return normal((mean - at.y.mean()) / size, model.noise_std_ / size, cov / size**2)


def exact(at: Split, seed: int) -> Predictive:
    """The NTK-GP posterior in closed form, of the same network and scales: the limit of the other two of rndlib."""
    from rndlib import laws

    at, net, size, noise_std = _chosen(at)
    law = laws.posterior(net, at.X, at.y, at.X_test, noise_std=noise_std, full_cov=True)
    assert law.cov is not None
    return normal(size * law.mean, size * noise_std, size**2 * law.cov)


def trained(at: Split, seed: int) -> Predictive:
    """Bayesian RND with the same network and scales, 512 units wide, trained by Adam in minibatches.

    Each head has its own direction, as they are many for the width.
    """
    from rndlib import BayesianRND, StochasticGradient

    at, net, size, noise_std = _chosen(at)
    solver = StochasticGradient(learning_rate=1e-2, epochs=_EPOCHS, progress=False)
    options: Any = {"directions": "independent", "noise_std": noise_std, "seed": seed, "solver": solver}
    model: Any = BayesianRND(replace(net, width=512), heads=32, **options).fit(at.X, at.y)
    errors = model.errors(at.X_test)
    return normal(size * model.predict(at.X_test), size * noise_std, size**2 * errors.T @ errors / len(errors))


def _chosen(at: Split) -> tuple[Split, MLP, float, float]:
    """The split in the units of the network that the evidence chooses, the network, the size of a label and the noise.

    The size is in deviations of the training labels, the noise in the units of the network.
    """
    from rndlib.theory import evidence

    at = at.standardised()
    found = evidence.maximise(at.X, at.y)
    scale, size = found.input_scales, found.output_scale
    scaled = Split(at.X / scale, at.y / size, at.X_test / scale, at.y_test / size)
    return scaled, found.net, size, found.noise_std / size


def sklearn_gp(at: Split, seed: int) -> Predictive:
    """scikit-learn's GaussianProcessRegressor: a Matern kernel with one length scale per column, and noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    at = at.standardised()
    each: Any = np.ones(at.X.shape[1])
    kernel = ConstantKernel() * Matern(each, nu=2.5) + WhiteKernel()
    model: Any = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed).fit(at.X, at.y)
    mean, cov = model.predict(at.X_test, return_cov=True)
    noise = model.kernel_.k2.noise_level  # in cov, too
    return normal(mean, noise**0.5, cov - noise * np.eye(len(mean)))


def bayesian_ridge(at: Split, seed: int) -> Predictive:
    """scikit-learn's BayesianRidge: a linear model, with the noise and the prior's scale fitted by evidence."""
    from sklearn.linear_model import BayesianRidge

    at = at.standardised()
    model: Any = BayesianRidge().fit(at.X, at.y)
    return normal(model.predict(at.X_test), model.alpha_**-0.5, at.X_test @ model.sigma_ @ at.X_test.T)


def boosted_quantiles(at: Split, seed: int) -> Predictive:
    """scikit-learn's gradient boosting: the mean, and a deviation from the 5 and 95 % quantiles, 0.01 at least."""
    from scipy.stats import norm

    at = at.standardised()
    models = (_boosting(seed, loss="quantile", quantile=level) for level in (0.05, 0.95))
    low, high = (model.fit(at.X, at.y).predict(at.X_test) for model in models)
    std = np.maximum((high - low) / (2 * norm.ppf(0.95)), 0.01)  # The quantiles of two fits can meet or cross.
    return normal(_boosting(seed).fit(at.X, at.y).predict(at.X_test), std)


def boosted_residuals(at: Split, seed: int) -> Predictive:
    """The same mean, and one deviation for all points: that of the residuals in cross-validation with five folds."""
    from sklearn.model_selection import cross_val_predict

    at = at.standardised()
    left = at.y - cross_val_predict(_boosting(seed), at.X, at.y, cv=5)
    return normal(_boosting(seed).fit(at.X, at.y).predict(at.X_test), np.sqrt(np.mean(left**2)))


def _boosting(seed: int, **options: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=seed, **options)


def _in_torch(name: str) -> Callable[[Split, int], Predictive]:
    """A method of `with_torch`, which is imported when it runs."""
    return lambda at, seed: getattr(import_module("rndlib.paper.practice.with_torch"), name)(at, seed)


METHODS = {
    "rndlib automatic": Method(automatic, ("jax", "rndlib.estimators", "rndlib.theory.evidence")),
    "rndlib trained": Method(
        trained,
        ("jax", "rndlib.estimators", "rndlib.theory.evidence"),
        "stopped after 213 CPU seconds, not yet at its end",
    ),
    "exact NTK-GP": Method(exact, ("rndlib.theory.laws", "rndlib.theory.evidence")),
    "scikit-learn GPR": Method(
        sklearn_gp, ("sklearn.gaussian_process",), "its gradient fills 9 GiB, points by points by columns"
    ),
    "GPyTorch GPR": Method(
        _in_torch("gpytorch"), ("torch", "gpytorch"), "100 factorisations of 10,000 rows take over an hour"
    ),
    "laplace-torch": Method(_in_torch("laplace"), ("torch", "laplace")),
    "deep ensemble": Method(_in_torch("deep_ensemble"), ("torch",)),
    "boosted quantiles": Method(boosted_quantiles, ("sklearn.ensemble",)),
    "boosting, residuals": Method(boosted_residuals, ("sklearn.ensemble", "sklearn.model_selection")),
    "Bayesian ridge": Method(bayesian_ridge, ("sklearn.linear_model",)),
}
