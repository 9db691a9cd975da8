"""Posterior samples: what one costs from Bayesian RND, from Bayesian ensembles, and from the NTK-GP itself."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import linalg

from benchmarks.rates import operations_per_second
from benchmarks.section import Asked, Case, Section
from benchmarks.timing import ratio, side_by_side
from rndlib import MLP, BayesianEnsemble, BayesianRND, HeadsWarning, datasets, laws
from rndlib.running.costs import Row
from rndlib.training.flow.exponential import POLES

SIZES = (
    *((10, points) for points in (1000, 3000, 10_000)),
    *((n, 1000) for n in (30, 100, 300, 1000, 3000, 10_000)),
)
"""Labels and test points."""

QUICK_SIZES = ((10, 200), (300, 200))
TRAINED, QUICK_TRAINED = 100, 10
"""Networks are trained for N up to this; above, their time has a bound instead."""

WIDTH, QUICK_WIDTH = 1024, 512
NOISE_STD = 0.1
SAMPLES, HEADS = 512, 16
WHOLE, BODIES, MEMBERS = 10, 2, 8
"""Up to N = WHOLE, all networks that SAMPLES samples take are timed; above, these few, enough for two cores."""

REPEATS, FEW = 3, 2
EXACT = "NTK-GP"


def _cases(asked: Asked) -> Iterator[Case]:
    sizes, trained = (QUICK_SIZES, QUICK_TRAINED) if asked.quick else (SIZES, TRAINED)
    for width in asked.widths or ((QUICK_WIDTH if asked.quick else WIDTH),):
        for n, points in sizes:
            yield partial(_rows, width, n, points, n <= trained)


SECTION = Section(
    "sampling",
    "Posterior samples",
    f"{SAMPLES} samples at T test points given N labels of the paper's problem, with noise of standard deviation "
    f"{NOISE_STD:g}. *{EXACT}*: the exact posterior's covariance, factorised, which takes T^3 operations; "
    f"networks take T. Bayesian RND makes {HEADS} samples of a body, a Bayesian ensemble one of a network; their "
    "seconds are those of *timed*, scaled. *variance* is that of these samples over the exact one, the mean over test "
    "points. *at least* is a bound: the evaluations that N = 10 takes, at one product with the tangent kernels for "
    "each shift, at the rate of matrix products here; training takes more of both as N grows.",
    _cases,
)


def _rows(width: int, n: int, points: int, trained: bool) -> list[Row]:
    data, net = datasets.toy(seed=0, n_train=n, n_test=points), MLP(3, width=width)
    whole = n <= WHOLE
    bodies, members = (SAMPLES // HEADS, SAMPLES) if whole else (BODIES, MEMBERS)
    found: dict[str, np.ndarray] = {}
    law = laws.posterior(net, data.X, data.y, data.X_test, noise_std=NOISE_STD)

    def exact() -> None:
        _, found[EXACT] = from_the_process(net, data, NOISE_STD, SAMPLES)

    def rnd() -> None:
        model = BayesianRND(net, HEADS, bodies, noise_std=NOISE_STD).fit(data.X, data.y)
        found["Bayesian RND"] = model.sample_y(data.X_test, bodies * HEADS, random_state=0).T

    def ensemble() -> None:
        model = BayesianEnsemble(net, members, noise_std=NOISE_STD).fit(data.X, data.y)
        found["Bayesian ensemble"] = model.functions(data.X_test)

    calls: dict[str, Callable[[], object]] = {EXACT: exact}
    if trained:
        calls |= {"Bayesian RND": rnd, "Bayesian ensemble": ensemble}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadsWarning)
        times = side_by_side(calls, REPEATS if whole else FEW)
    times = {name: time.scaled(SAMPLES / len(found[name])) for name, time in times.items()}
    shared: Row = {"N": n, "T": points, "width": width}
    rows: list[Row] = [
        {
            **shared,
            "by": name,
            "seconds": time.spread,
            "timed": f"{len(found[name])} samples",
            "samples a second": SAMPLES / time.spread.value,
            "times the NTK-GP's": None if name == EXACT else ratio(time, times[EXACT]),
            "variance": float(np.mean((found[name] - law.mean) ** 2 / law.var)),
        }
        for name, time in times.items()
    ]
    if not trained:
        for name, heads in (("Bayesian RND", HEADS), ("Bayesian ensemble", 1)):
            seconds = _bound(net, n, heads, SAMPLES // heads)
            times_exact = seconds / times[EXACT].spread.value
            rows.append({**shared, "by": f"{name}, at least", "seconds": seconds, "times the NTK-GP's": times_exact})
    return rows


def from_the_process(
    net: MLP, data: datasets.Regression, noise_std: float, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the NTK-GP's posterior at the test points, (T,), and samples, (samples, T)."""
    law = laws.posterior(net, data.X, data.y, data.X_test, noise_std=noise_std, full_cov=True)
    assert law.cov is not None
    law.cov.flat[:: len(law.cov) + 1] += 1e-8 * law.cov.diagonal().max()  # else it is singular in float64
    normal = np.random.default_rng(0).standard_normal((samples, len(law.cov)))
    return law.mean, law.mean + normal @ linalg.cholesky(law.cov, lower=True, overwrite_a=True).T


def _bound(net: MLP, n: int, heads: int, bodies: int) -> float:
    """Seconds that the solver's products with the tangent kernels of depth 2 take, one an evaluation and shift."""
    data = datasets.toy(seed=0, n_test=1)
    evaluations = BayesianEnsemble(net, 1, noise_std=NOISE_STD).fit(data.X, data.y).report.evaluations
    real = 2 * len(POLES)  # a shift has a real part and an imaginary one
    product = 2.0 * n * n * (net.width + heads) + 4.0 * n * net.width * heads
    return evaluations * real * bodies * product / operations_per_second("float32")
