"""Samples of a posterior: linearised networks with many labels, and trained ones with few, against the NTK-GP."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from scipy import linalg

from benchmarks.case import Case, Row, Way
from benchmarks.trained import fit
from rndlib import MLP, BayesianRND, datasets, kernels, laws

TITLE = "Posterior samples"
NOTE = (
    "Samples at T test points given N labels with noise of standard deviation 0.1, of the paper's problem (three "
    "columns) or of scikit-learn's *friedman* (ten, standardised). Many labels: 32 samples by "
    "`BayesianRND(linearised=True)`, width 1024. Few: 512 samples by 32 trained networks with 16 heads. *Cholesky* "
    "factors the infinite kernel's matrices over training and over test points. *Nyström* takes min(N / 2, 1000) "
    "columns of that kernel, and samples weights of theirs. *mean* is the distance of the posterior mean from the "
    "exact one, relative to that one's norm over test points, and *variance* that of the samples over the exact one's, "
    "the mean over test points. For rndlib both contain what a finite width changes in the kernel. *goal* is the ratio "
    "asked for: at most 1.2 times the time of Nyström."
)

NOISE_STD, INDUCING = 0.1, 1000
GOAL = 1 / 1.2

Samples = tuple[np.ndarray, np.ndarray]
"""The mean of the posterior at the test points, (T,), and samples, (samples, T)."""


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    for n in (300,) if quick else (1000, 3000, 10_000):
        net, data = MLP(3, width=128 if quick else 1024), datasets.toy(0, n_train=n, n_test=n)
        exact = {} if n == 10_000 else {"Cholesky": _cholesky}  # whose two factors take a minute and a half there
        yield _linearised(f"linearised, N = T = {n}", data, net, {**exact, "Nyström": _nystrom})
    if not quick:
        name = "linearised, friedman, N = T = 10000"
        yield _linearised(name, friedman(10_000), MLP(10, width=1024), {"Nyström": _nystrom})
    trained = BayesianRND(MLP(3, width=512 if quick else 1024), 16, 32, noise_std=NOISE_STD)
    yield _case("trained, N = 10, T = 1000", datasets.toy(0, n_test=1000), 512, trained, {"Cholesky": _cholesky})


def friedman(n: int) -> datasets.Regression:
    """Ten columns of which five count, standardised, with n rows to train on and n to test on, and noise."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(2 * n, random_state=0)
    X, y = (X - 0.5) * 12**0.5, (y - y.mean()) / y.std()
    return datasets.Regression(X[:n], y[:n] + NOISE_STD * np.random.default_rng(1).standard_normal(n), X[n:])


def _linearised(name: str, data: datasets.Regression, net: MLP, peers: dict[str, Callable[..., Samples]]) -> Case:
    return _case(name, data, 32, BayesianRND(net, 32, noise_std=NOISE_STD, linearised=True), peers)


def _case(
    name: str, data: datasets.Regression, samples: int, model: BayesianRND, peers: dict[str, Callable[..., Samples]]
) -> Case:
    net = MLP(data.X.shape[1])
    law = cache(lambda: laws.posterior(net, data.X, data.y, data.X_test, noise_std=NOISE_STD))

    def sampled() -> Samples:
        fit(model, data.X, data.y)
        return np.asarray(model.predict(data.X_test)), model.sample_y(data.X_test, samples, random_state=0).T

    def accuracy(found: Samples) -> Row:
        mean, drawn = found
        error = np.linalg.norm(mean - law().mean) / np.linalg.norm(law().mean)
        return {"mean": float(error), "variance": float(np.mean((drawn - mean) ** 2 / law().var))}

    ways = {
        f"NTK-GP, {key}": Way(partial(way, net, data, samples), known={"goal": GOAL} if way is _nystrom else {})
        for key, way in peers.items()
    }
    return Case(name, Way(sampled), ways, accuracy)


def _cholesky(net: MLP, data: datasets.Regression, samples: int) -> Samples:
    law = laws.posterior(net, data.X, data.y, data.X_test, noise_std=NOISE_STD, full_cov=True)
    assert law.cov is not None
    law.cov.flat[:: len(law.cov) + 1] += 1e-8 * law.cov.diagonal().max()  # else it is singular in float64
    normal = np.random.default_rng(0).standard_normal((samples, len(law.cov)))
    return law.mean, law.mean + normal @ linalg.cholesky(law.cov, lower=True, overwrite_a=True).T


def _nystrom(net: MLP, data: datasets.Regression, samples: int) -> Samples:
    """Bayesian regression on the features Theta_xZ Theta_ZZ^-1/2 of some training points Z."""
    Z = data.X[: min(len(data.X) // 2, INDUCING)]
    inducing = kernels.kernel(net, Z).ntk
    inducing.flat[:: len(Z) + 1] += 1e-8 * inducing.diagonal().max()
    lower = linalg.cholesky(inducing, lower=True)

    def features(X: np.ndarray) -> np.ndarray:
        return linalg.solve_triangular(lower, kernels.kernel(net, Z, X).ntk, lower=True)

    train, test = features(data.X), features(data.X_test)
    precision = linalg.cholesky(train @ train.T / NOISE_STD**2 + np.eye(len(Z)), lower=True)
    weights = linalg.cho_solve((precision, True), train @ data.y) / NOISE_STD**2
    normal = np.random.default_rng(0).standard_normal((len(Z), samples))
    drawn = weights[:, None] + linalg.solve_triangular(precision, normal, lower=True, trans=1)
    return test.T @ weights, drawn.T @ test
