"""Exact kernels, against neural-tangents: seconds, with the error of each beside them."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.section import Asked, Case, Section
from benchmarks.timing import ratio, side_by_side
from rndlib import MLP
from rndlib import kernels as ours
from rndlib.paper.practice.references import neural_tangents
from rndlib.running.costs import Row
from rndlib.running.quiet import quiet
from rndlib.training.backends.jax.precision import in_float64

Matrices = tuple[np.ndarray, np.ndarray]

FULL, QUICK = ((2000, 2000), (5000, 10)), ((200, 200),)
DEGREES = (25, 100)
WORK, QUICK_WORK = 10**8, 10**7
"""The most nodes times entries per call of a quadrature, which may hold an array of so many numbers. Of a larger matrix
only as many columns are timed as this allows."""

SAMPLED, NODES, FEWER = 100, 128, 96
"""How many entries are compared with the reference, its nodes, and the nodes of a coarser one that shows whether it has
converged."""


def _cases(asked: Asked) -> Iterator[Case]:
    work = QUICK_WORK if asked.quick else WORK
    for shape in QUICK if asked.quick else FULL:
        yield partial(_against_quadrature, *shape, work)
        for activation in ("relu", "erf", "gelu"):
            yield partial(_against_closed_form, activation, *shape)


SECTION = Section(
    "kernels",
    "Kernels: NNGP and NTK, float64",
    "One hidden layer, sigma_w = 1.5, sigma_b = 0.1, two different sets of standard normal points in 3 dimensions. The "
    "others are neural-tangents, jitted: ElementwiseNumerical of the degree named, or its closed form. Errors are the "
    f"largest over {SAMPLED} entries, those of the farthest points among them, relative to the largest kernel value; "
    f"the reference is a quadrature in the plane with {NODES} nodes a side, and *reference* is by how much it differs "
    f"from one with {FEWER}. *part* is the part of the columns that was timed; the seconds are scaled to all of them.",
    _cases,
)


def _network(activation: str) -> MLP:
    return MLP(3, activation=activation)


def _points(n1: int, n2: int) -> Matrices:
    generator = np.random.default_rng(0)
    return generator.standard_normal((n1, 3)), generator.standard_normal((n2, 3))


def _stax() -> Any:
    return neural_tangents().stax


def _theirs(net: MLP, nonlinearity: Any) -> Callable[[np.ndarray, np.ndarray], Matrices]:
    """The kernels of neural-tangents, as its users call them: jitted, NNGP and NTK together."""

    def dense(units: int) -> Any:
        return _stax().Dense(units, W_std=net.sigma_w, b_std=net.sigma_b, parameterization="ntk")

    kernel_fn = jax.jit(_stax().serial(dense(1), nonlinearity, dense(1))[2], static_argnames="get")

    @in_float64
    def call(X1: np.ndarray, X2: np.ndarray) -> Matrices:
        with quiet():  # it warns that derivatives of a quadrature are missing
            both = kernel_fn(X1, X2, get=("nngp", "ntk"))
        return np.asarray(both.nngp), np.asarray(both.ntk)

    return call


def _library(net: MLP) -> Callable[[np.ndarray, np.ndarray], Matrices]:
    def call(X1: np.ndarray, X2: np.ndarray) -> Matrices:
        k = ours.kernel(net, X1, X2)
        return k.nngp, k.ntk

    return call


def _against_quadrature(n1: int, n2: int, work: int) -> list[Row]:
    X1, X2 = _points(n1, n2)
    net, peers, columns = _network("silu"), {}, {}
    for degree in DEGREES:
        name = f"degree {degree}"
        with quiet():  # it warns that it is an approximation
            nonlinearity = _stax().ElementwiseNumerical(jax.nn.silu, deg=degree)
        peers[name] = _theirs(net, nonlinearity)
        columns[name] = max(1, min(n2, work // (degree**2 * n1)))
    return _compared(net, X1, X2, peers, columns)


def _against_closed_form(activation: str, n1: int, n2: int) -> list[Row]:
    X1, X2 = _points(n1, n2)
    nonlinearity = {"relu": _stax().Relu(), "erf": _stax().Erf(), "gelu": _stax().Gelu()}[activation]
    net = _network(activation)
    return _compared(net, X1, X2, {"closed form": _theirs(net, nonlinearity)}, {"closed form": n2})


def _compared(
    net: MLP,
    X1: np.ndarray,
    X2: np.ndarray,
    peers: Mapping[str, Callable[[np.ndarray, np.ndarray], Matrices]],
    columns: Mapping[str, int],
) -> list[Row]:
    library = "rndlib"
    kernels = {library: _library(net), **peers}
    columns = {library: len(X2), **columns}
    times = side_by_side(
        {name: lambda name=name, kernel=kernel: kernel(X1, X2[: columns[name]]) for name, kernel in kernels.items()}
    )
    times = {name: time.scaled(len(X2) / columns[name]) for name, time in times.items()}
    pairs = _pairs(X1, X2)
    reference, scale = _reference(net, *pairs, NODES), float(ours.diagonal(net, np.concatenate([X1, X2])).ntk.max())
    unsettled = np.abs(reference - _reference(net, *pairs, FEWER)).max() / scale
    rows: list[Row] = []
    for name, kernel in kernels.items():
        errors = np.abs(np.array([np.diagonal(part) for part in kernel(*pairs)]) - reference).max(1) / scale
        rows.append(
            {
                "kernel": net.activation,
                "entries": f"{len(X1)} x {len(X2)}",
                "by": name,
                "seconds": times[name].spread,
                "first call": times[name].first,
                "part": columns[name] / len(X2),
                "times rndlib's": None if name == library else ratio(times[name], times[library]),
                "error, NNGP": float(errors[0]),
                "error, NTK": float(errors[1]),
                "reference": float(unsettled),
            }
        )
    return rows


def _pairs(X1: np.ndarray, X2: np.ndarray) -> Matrices:
    """Two arrays whose i-th rows make one entry: the farthest points, where a quadrature is worst, then random ones."""
    half = min(SAMPLED // 2, len(X1), len(X2))
    far = [X[np.argsort(-np.linalg.norm(X, axis=1))[:half]] for X in (X1, X2)]
    generator = np.random.default_rng(1)
    any_ = [X[generator.integers(len(X), size=SAMPLED - half)] for X in (X1, X2)]
    return np.concatenate([far[0], any_[0]]), np.concatenate([far[1], any_[1]])


def _reference(net: MLP, X1: np.ndarray, X2: np.ndarray, nodes: int) -> np.ndarray:
    """NNGP and NTK of each pair of rows, (2, pairs), by the quadrature that the tests compare the kernels with."""
    tests = str(Path(__file__).resolve().parents[2] / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    import quadrature

    return np.array([quadrature.entry(net, x1, x2, nodes)[:2] for x1, x2 in zip(X1, X2, strict=True)]).T
