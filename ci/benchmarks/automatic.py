"""The automatic estimator, against Gaussian processes with a length scale for each column."""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.case import Case, Row, Way
from rndlib import BayesianRND

TITLE = "The automatic estimator"
NOTE = (
    "`BayesianRND()` chooses its network by evidence. Both processes have an RBF kernel with one length scale a column "
    "and noise, on standardised columns and labels: scikit-learn's is fitted once from unit scales, GPyTorch's by a "
    "hundred steps of Adam at a rate of 0.1, in float64. *diabetes*: scikit-learn's 442 patients, ten columns. "
    "*friedman*: its synthetic problem of ten columns, five of which count, with noise 1. *NLL* is the mean negative "
    "log likelihood of new labels, in nats, and *RMSE* their error, both in units of the label. *goal* is the ratio "
    "asked for."
)
GOAL, STEPS = 2.0, 100

Predicted = tuple[np.ndarray, np.ndarray]
"""Mean and standard deviation of new labels."""


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    from sklearn import datasets

    rows: Any = datasets.load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows[1]))
    X, y = rows[0][order], rows[1][order]
    n = 100 if quick else 350
    yield _case("diabetes", X[:n], y[:n], X[350:], y[350:], {})
    if not quick:
        X, y = datasets.make_friedman1(3000, noise=1.0, random_state=0)
        yield _case("friedman", X[:1000], y[:1000], X[1000:], y[1000:], {"goal": GOAL})


def _case(name: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, known: Row) -> Case:
    """A table; `known` are columns of the peers' rows."""

    def accuracy(found: Predicted) -> Row:
        mean, std = found
        rmse = float(np.sqrt(np.mean((y_test - mean) ** 2)))
        return {"NLL": float(-np.mean(norm.logpdf(y_test, mean, std))), "RMSE": rmse}

    ways = {"scikit-learn": _scikit_learn, "GPyTorch": _gpytorch}
    peers = {key: Way(partial(way, X, y, X_test), known=known) for key, way in ways.items()}
    return Case(f"{name}, N = {len(X)}", Way(partial(_automatic, X, y, X_test)), peers, accuracy)


def _automatic(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Predicted:
    model: Any = BayesianRND().fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return mean, np.hypot(std, model.noise_std_)


def _scikit_learn(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Predicted:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scales: Any = np.ones(X.shape[1])
    kernel = ConstantKernel() * RBF(scales) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True)
    with warnings.catch_warnings():  # a length scale at its bound: the column does not matter
        warnings.simplefilter("ignore")
        found: Any = make_pipeline(StandardScaler(), process).fit(X, y).predict(X_test, return_std=True)
    return found


def _gpytorch(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Predicted:
    import gpytorch
    import torch

    std = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    points, tests = (torch.tensor((at - X.mean(axis=0)) / std) for at in (X, X_test))
    labels = torch.tensor((y - y.mean()) / y.std())

    class Process(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(points, labels, gpytorch.likelihoods.GaussianLikelihood())
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x: Any) -> Any:
            mean: Any = self.mean(x)
            return gpytorch.distributions.MultivariateNormal(mean, self.kernel(x))

    process: Any = Process().double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
    optimiser = torch.optim.Adam(process.parameters(), 0.1)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss: Any = evidence(process(points), labels)
        (-loss).backward()
        optimiser.step()
    process.eval()
    process.likelihood.eval()
    with torch.no_grad():
        found = process.likelihood(process(tests))
    return found.mean.numpy() * y.std() + y.mean(), found.stddev.numpy() * y.std()
