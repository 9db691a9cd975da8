"""Converged ensembles, against descent as users of PyTorch and JAX would write it: seconds to a given accuracy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import comparison
from benchmarks.descent import Problem
from benchmarks.section import Asked, Case, Section
from benchmarks.timing import REPEATS, once
from rndlib import MLP, DeepEnsemble, GradientFlow, datasets
from rndlib.running.costs import Row
from rndlib.training.weights import Role, draw

WIDTHS, QUICK_WIDTHS = (512, 2048, 8192), (512,)
MEMBERS, QUICK_MEMBERS = 513, 65
WORK, QUICK_WORK = 100_000_000, 10_000_000
DIGITS = {512: 64, 2048: 32}
"""Widths at 200 digits, and how many networks rndlib is timed on."""

MANY, MANY_TIMED = 1000, 8
GOAL, GOAL_MANY = 50.0, 20.0
TIGHT, MANY_TIGHT = GradientFlow(rtol=1e-5), GradientFlow(rtol=1e-3)
"""The flows that both sides are compared with."""


@dataclass(frozen=True)
class Data:
    """Training and test points.

    part, repeats: of the members, those that rndlib is timed on, and how often. checked: members that are compared
    with the tight flow, of which rndlib's are `judged`. goal: the project's, for the ratio to GD.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    part: float = 1.0
    repeats: int = REPEATS
    checked: int = comparison.CHECKED
    judged: int = comparison.JUDGED
    tight: GradientFlow = TIGHT
    goal: float | None = None


def toy() -> Data:
    """The paper's problem, ten points in three dimensions."""
    data = datasets.toy(seed=0, n_test=500)
    return Data("toy", data.X, data.y, data.X_test)


def digits(n: int, timed: int) -> Data:
    """Real data: n images of scikit-learn's digits, the value of the digit for a label, and 500 to test on."""
    from sklearn.datasets import load_digits

    rows: Any = load_digits(return_X_y=True)
    X, y = rows
    X = X[:, X[:n].std(0) > 0]  # pixels that are not always empty
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    data = Data("digits", X[:n], y[:n], X[n : n + 500], part=timed / MEMBERS, repeats=2, checked=2, goal=GOAL)
    return replace(data, judged=4, tight=MANY_TIGHT, goal=GOAL_MANY) if n == MANY else data


def _cases(asked: Asked) -> Iterator[Case]:
    widths = asked.widths or (QUICK_WIDTHS if asked.quick else WIDTHS)
    members, work = (QUICK_MEMBERS, QUICK_WORK) if asked.quick else (MEMBERS, WORK)
    adam = not asked.quick
    for width in widths:
        yield partial(_rows, toy(), width, members, work, adam and width == widths[0])
    if not asked.quick:
        for width, timed in DIGITS.items():
            yield partial(_rows, digits(200, timed), width, members, work, width == widths[0])
        yield partial(_rows, digits(MANY, MANY_TIMED), widths[0], members, work, False)


SECTION = Section(
    "ensembles",
    "Ensembles: networks trained to convergence",
    "Two layers, silu, sigma_w = 1.5, sigma_b = 0.1. *toy* is the paper's problem with N = 10, *digits* has images of "
    f"scikit-learn's, standardised, without the pixels that are always empty. {comparison.NOTE}",
    _cases,
)


def _rows(data: Data, width: int, members: int, work: int, adam: bool) -> list[Row]:
    net = MLP(data.X.shape[1], width=width)
    ours = round(data.part * members)

    model = DeepEnsemble(net, ours, solver=comparison.SOLVER)

    def fit() -> DeepEnsemble:
        return model.fit(data.X, data.y)

    first = once(fit)  # before anything else compiles its programs
    checked = min(data.checked, ours)
    judged = min(data.judged, ours)
    tight = DeepEnsemble(net, judged, solver=data.tight).fit(data.X, data.y).functions(data.X_test)[:, None]
    start, targets = draw(net, 1, 0, Role.MEMBER, range(members)), np.tile(data.y, (members, 1, 1))
    few = [(w[:checked], b[:checked]) for w, b in start]
    problem = Problem(net, data.X, data.X_test, few, targets[:checked], tight[:checked])
    error = comparison.largest_distance(model.functions(data.X_test)[:judged, None], tight)
    shared: Row = {"data": data.name, "N": len(data.X), "width": width, "networks": members}
    return comparison.compare(
        shared, problem, start, targets, fit, first, error, work, adam, ours / members, data.repeats, data.goal
    )
