"""Posterior samples from many labels: linearised networks without a kernel matrix, beside Gaussian processes."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import linalg

from benchmarks.growth import alone
from benchmarks.sampling import from_the_process
from benchmarks.section import Asked, Case, Section
from benchmarks.timing import ratio, side_by_side
from rndlib import MLP, BayesianRND, GradientFlow, datasets, kernels, laws
from rndlib.running.costs import Row

SIZES, QUICK_SIZES = (1000, 3000, 10_000), (300,)
WIDTH, QUICK_WIDTH, SAMPLES = 1024, 128, 32
INDUCING = 1000
"""Columns of the kernel in Nyström's approximation, or half of N if that is less."""

NOISE_STD, REPEATS, LONG = 0.1, 2, 10_000
"""From N = LONG on, where one call takes a minute, each is timed once after the first."""

NO_MATRIX = GradientFlow(memory=1)
LIBRARY, MATRIX, EXACT, NYSTROM = WAYS = "rndlib", "rndlib, with matrices", "NTK-GP, Cholesky", "NTK-GP, Nyström"

Samples = tuple[np.ndarray, np.ndarray]
"""The mean of the posterior at the test points, (T,), and samples, (samples, T)."""


def _cases(asked: Asked) -> Iterator[Case]:
    for width in asked.widths or ((QUICK_WIDTH if asked.quick else WIDTH),):
        for n in QUICK_SIZES if asked.quick else SIZES:
            yield partial(_rows, n, width)


SECTION = Section(
    "many_points",
    "Posterior samples from many labels",
    f"{SAMPLES} samples at T = N test points given N labels of the paper's problem, with noise of standard deviation "
    f"{NOISE_STD:g}. *{LIBRARY}* is `BayesianRND(linearised=True)` without N x N matrices, as it is where they do not "
    f"fit in its `memory`, and *with matrices* as it is where they do. *{EXACT}* factors the infinite kernel's "
    f"matrices over training and over test points. *{NYSTROM}* approximates that kernel by min(N / 2, {INDUCING}) of "
    "its columns, and samples weights of theirs. *mean* is the distance of the posterior mean from the exact one of "
    "the infinite kernel, relative to that one's norm over test points, and *variance* is that of the samples over "
    "the exact one's, the mean over test points. For rndlib both contain what the finite width changes in the kernel. "
    "MiB are peaks of processes of their own. Goal: memory in proportion to N, and no N x N matrix.",
    _cases,
)


def _rows(n: int, width: int) -> list[Row]:
    found: dict[str, Samples] = {}

    def kept(way: str) -> Callable[[], object]:
        call = prepare(way, n, width)
        return lambda: found.update({way: call()})

    times = side_by_side({way: kept(way) for way in WAYS}, REPEATS if n < LONG else 1)
    data = datasets.toy(0, n_train=n, n_test=n)
    law = laws.posterior(MLP(3), data.X, data.y, data.X_test, noise_std=NOISE_STD)
    rows: list[Row] = []
    for way in WAYS:
        mean, samples = found[way]
        row: Row = {"N": n, "T": n, "width": None if way in (EXACT, NYSTROM) else width, "by": way}
        row |= {"seconds": times[way].spread}
        row |= {} if way == LIBRARY else {"times rndlib's": ratio(times[way], times[LIBRARY])}
        row |= {"MiB": alone(prepare, way, n, width, cold=True).memory / 2**20}
        row |= {"mean": float(np.linalg.norm(mean - law.mean) / np.linalg.norm(law.mean))}
        rows.append(row | {"variance": float(np.mean((samples - mean) ** 2 / law.var))})
    return rows


def prepare(way: str, n: int, width: int) -> Callable[[], Samples]:
    """A call that fits and samples."""
    data = datasets.toy(0, n_train=n, n_test=n)
    if way == EXACT:
        return partial(from_the_process, MLP(3), data, NOISE_STD, SAMPLES)
    if way == NYSTROM:
        return partial(_nystrom, data)
    solver = NO_MATRIX if way == LIBRARY else GradientFlow(memory=2**40)
    model = BayesianRND(MLP(3, width=width), SAMPLES, noise_std=NOISE_STD, linearised=True, solver=solver)

    def sampled() -> Samples:
        model.fit(data.X, data.y)
        return np.asarray(model.predict(data.X_test)), model.sample_y(data.X_test, SAMPLES).T

    return sampled


def _nystrom(data: datasets.Regression) -> Samples:
    """Bayesian regression on the features Theta_xZ Theta_ZZ^-1/2 of some training points Z."""
    Z = data.X[: min(len(data.X) // 2, INDUCING)]
    inducing = kernels.kernel(MLP(3), Z).ntk
    inducing.flat[:: len(Z) + 1] += 1e-8 * inducing.diagonal().max()
    lower = linalg.cholesky(inducing, lower=True)

    def features(X: np.ndarray) -> np.ndarray:
        return linalg.solve_triangular(lower, kernels.kernel(MLP(3), Z, X).ntk, lower=True)

    train, test = features(data.X), features(data.X_test)
    precision = linalg.cholesky(train @ train.T / NOISE_STD**2 + np.eye(len(Z)), lower=True)
    weights = linalg.cho_solve((precision, True), train @ data.y) / NOISE_STD**2
    normal = np.random.default_rng(0).standard_normal((len(Z), SAMPLES))
    samples = weights[:, None] + linalg.solve_triangular(precision, normal, lower=True, trans=1)
    return test.T @ weights, samples.T @ test
