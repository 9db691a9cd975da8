"""Exact kernels, against neural-tangents as its users call it: jitted, NNGP and NTK together, in float64."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import enable_x64

from benchmarks.case import Case, Row, Way
from rndlib import MLP, kernels
from rndlib.paper.practice.references import neural_tangents

TITLE = "Kernels: NNGP and NTK of many points"
NOTE = (
    "sigma_w = 1.5, sigma_b = 0.1, standard normal points, 3 columns where not said, float64. The peer is "
    "neural-tangents: its closed form, and for silu its quadrature of degree 25, timed on a part of the columns. "
    "*error* is the largest in both kernels between the ten farthest points of each set, where a quadrature is worst, "
    "relative to the largest kernel value. The reference is a quadrature in the plane. *goal* is the ratio asked for."
)
GOAL = 1.0

DEGREE = 25
WORK = 10**8
"""The most nodes times entries of a call to their quadrature, which may hold an array of so many numbers."""


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    n = 200 if quick else 2000
    stax = neural_tangents().stax
    forms = {"silu": _quadrature, "relu": stax.Relu, "erf": stax.Erf, "gelu": stax.Gelu}
    for columns, depth in ((3, 2),) if quick else ((3, 2), (3, 4), (20, 2)):
        X1, X2 = _points(n, columns, 0), _points(n, columns, 1)
        for activation, form in forms.items():
            timed = WORK // DEGREE**2 // n if form == _quadrature else n
            yield _case(MLP(columns, depth=depth, activation=activation), form, X1, X2, timed)


def _points(n: int, columns: int, seed: int) -> np.ndarray:
    """Points, the farthest first."""
    X = np.random.default_rng(seed).standard_normal((n, columns))
    return X[np.argsort(-np.linalg.norm(X, axis=1))]


def _quadrature() -> Any:
    with warnings.catch_warnings():  # it says that it is an approximation
        warnings.simplefilter("ignore")
        return neural_tangents().stax.ElementwiseNumerical(jax.nn.silu, deg=DEGREE)


def _case(net: MLP, nonlinearity: Any, X1: np.ndarray, X2: np.ndarray, timed: int) -> Case:
    stax, few = neural_tangents().stax, X2[:timed]
    dense = stax.Dense(1, W_std=net.sigma_w, b_std=net.sigma_b, parameterization="ntk")
    layers = [dense, *(net.depth - 1) * [nonlinearity(), dense]]
    form = jax.jit(stax.serial(*layers)[2], static_argnames="get")

    def theirs() -> np.ndarray:
        with enable_x64(), warnings.catch_warnings():  # it says that derivatives of a quadrature are missing
            warnings.simplefilter("ignore")
            return both(form(X1, few, get=("nngp", "ntk")))

    return Case(
        f"{net.activation}, depth {net.depth}, {net.in_dim} columns, {len(X1)} x {len(X2)}",
        Way(lambda: both(kernels.kernel(net, X1, X2))),
        {"neural-tangents": Way(theirs, len(X2) / len(few), {"goal": GOAL, "timed": f"{len(few)} columns"})},
        lambda found: error(net, X1[:10], X2[:10], found[:, :10, :10]),
    )


def both(kernel: Any) -> np.ndarray:
    """NNGP and NTK, (2, N1, N2)."""
    return np.array([kernel.nngp, kernel.ntk])


def error(net: MLP, X1: np.ndarray, X2: np.ndarray, found: np.ndarray) -> Row:
    """By the quadrature that the tests of kernels compare with."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    import quadrature

    exact = quadrature.kernel(net, X1, X2, nodes=128)[:2]
    return {"error": float(np.abs(found - exact).max() / kernels.diagonal(net, np.concatenate([X1, X2])).ntk.max())}
