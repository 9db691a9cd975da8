"""The automatic estimator on a real table, against scikit-learn's Gaussian process."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.case import Case, Row, Way
from rndlib import BayesianRND

TITLE = "The automatic estimator"
NOTE = (
    "scikit-learn's diabetes: 442 patients, ten columns, and the mean and deviation of new labels of the patients left "
    "out. `BayesianRND()` chooses its network by evidence. GaussianProcessRegressor has an RBF kernel with one length "
    "scale a column, noise and two restarts, on standardised columns and labels. *NLL* is the mean negative log "
    "likelihood of the labels left out, in nats, and *RMSE* their error, both in units of the label."
)

Predicted = tuple[np.ndarray, np.ndarray]
"""Mean and standard deviation of new labels."""


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    from sklearn.datasets import load_diabetes

    rows: Any = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows[1]))
    X, y = rows[0][order], rows[1][order]
    n = 100 if quick else 350

    def accuracy(found: Predicted) -> Row:
        mean, std = found
        rmse = float(np.sqrt(np.mean((y[350:] - mean) ** 2)))
        return {"NLL": float(-np.mean(norm.logpdf(y[350:], mean, std))), "RMSE": rmse}

    peers = {"GaussianProcessRegressor": Way(lambda: _process(X[:n], y[:n], X[350:]))}
    yield Case(f"diabetes, N = {n}", Way(lambda: _automatic(X[:n], y[:n], X[350:])), peers, accuracy)


def _automatic(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Predicted:
    model: Any = BayesianRND().fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return mean, np.hypot(std, model.noise_std_)


def _process(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Predicted:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scales: Any = np.ones(X.shape[1])
    kernel = ConstantKernel() * RBF(scales) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
    with warnings.catch_warnings():  # a length scale at its bound: the column does not matter
        warnings.simplefilter("ignore")
        found: Any = make_pipeline(StandardScaler(), process).fit(X, y).predict(X_test, return_std=True)
    return found
