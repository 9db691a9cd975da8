"""The automatic estimator, against Gaussian processes with a length scale for each column."""

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec

import numpy as np

from benchmarks.case import Case, Row, Way
from rndlib.paper.practice import data, regressors, scores

TITLE = "The automatic estimator"
NOTE = (
    "`BayesianRND()` chooses its network by evidence. The processes are those of notebook 06, with a Matern kernel, "
    "one length scale a column and noise: scikit-learn's has two restarts, GPyTorch's a hundred steps of Adam. "
    "*diabetes*: scikit-learn's 442 patients, ten columns. *friedman*: its synthetic problem of ten columns, five of "
    "which count, with noise 1. *NLL* is the mean negative log likelihood of new labels, in nats, and *RMSE* their "
    "error, both in deviations of the label. *goal* is the ratio asked for, and at N = 10000 the seconds. GPyTorch is "
    "measured where it is installed, and no other process at N = 10000, which takes them hours."
)
GOAL = 2.0


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    from sklearn.datasets import make_friedman1

    peers = ["scikit-learn GPR", *["GPyTorch GPR"] * (find_spec("gpytorch") is not None)]
    X, y = data.table("diabetes")
    order = np.random.default_rng(0).permutation(len(y))
    yield _case("diabetes", X[order], y[order], 100 if quick else 350, {peer: {} for peer in peers})
    if not quick:
        X, y = make_friedman1(10_500, noise=1.0, random_state=0)
        yield _case("friedman", X[:1500], y[:1500], 1000, {peer: {"goal": GOAL} for peer in peers})
        yield _case("friedman", X, y, 10_000, {}, {"goal": "60 s"})


def _case(name: str, X: np.ndarray, y: np.ndarray, n: int, peers: Mapping[str, Row], known: Row | None = None) -> Case:
    """The first n rows to train on, and all from the 350th or n-th on to test.

    `peers` have the methods with known columns of their rows, and `known` are those of rndlib's.
    """
    tests = slice(max(n, 350), None)
    split = data.Split(X[:n], y[:n], X[tests], y[tests])

    def found(method: str) -> scores.Predictive:
        with warnings.catch_warnings():  # a length scale at its bound: the column does not matter
            warnings.simplefilter("ignore")
            return regressors.METHODS[method].run(split, 0)

    def accuracy(prediction: scores.Predictive) -> Row:
        at = split.standardised()
        every = scores.of_predictions(at.y_test, prediction, at.X_test)
        return {name: every[name] for name in ("NLL", "RMSE")}

    ways = {method: Way(partial(found, method), known=row) for method, row in peers.items()}
    return Case(f"{name}, N = {n}", Way(partial(found, "rndlib automatic"), known=known or {}), ways, accuracy)
