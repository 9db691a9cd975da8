"""Converged ensembles, against descent as users of PyTorch and JAX would write it: seconds to a given accuracy."""

from collections.abc import Iterator
from dataclasses import dataclass
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
GOAL, GOAL_OF_MANY = 50.0, 20.0
TIGHT = GradientFlow(rtol=1e-5)
"""The flow that both sides are compared with."""
COARSE = GradientFlow(rtol=4e-3)
"""The same where a tight one would take hours. A distance from it is known to within so much."""


@dataclass(frozen=True)
class Data:
    """Training and test points.

    part, repeats: of the members, those that rndlib is timed on, and how often. checked, judged: members of the peers
    and of rndlib that are compared with the flow `limit`. goal: the project's, for the ratio to GD.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    part: float = 1.0
    repeats: int = REPEATS
    checked: int = comparison.CHECKED
    judged: int = comparison.JUDGED
    limit: GradientFlow = TIGHT
    goal: float | None = None


def toy() -> Data:
    """The paper's problem, ten points in three dimensions."""
    data = datasets.toy(seed=0, n_test=500)
    return Data("toy", data.X, data.y, data.X_test)


def digits(count: int, timed: int, goal: float, **options: Any) -> Data:
    """Real data: images of scikit-learn's digits, the value of the digit for a label, and 500 to test on."""
    from sklearn.datasets import load_digits

    rows: Any = load_digits(return_X_y=True)
    X, y = rows
    X = X[:, X[:200].std(0) > 0]  # pixels that are not always empty
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    known, new = slice(count), slice(count, count + 500)
    return Data("digits", X[known], y[known], X[new], timed / MEMBERS, repeats=2, goal=goal, **options)


def _cases(asked: Asked) -> Iterator[Case]:
    widths = asked.widths or (QUICK_WIDTHS if asked.quick else WIDTHS)
    members, work = (QUICK_MEMBERS, QUICK_WORK) if asked.quick else (MEMBERS, WORK)
    adam = not asked.quick
    for width in widths:
        yield partial(_rows, toy(), width, members, work, adam and width == widths[0])
    if not asked.quick:
        yield partial(_rows, digits(200, 64, GOAL, checked=2), widths[0], members, work, adam)
        yield partial(_rows, digits(200, 32, GOAL, checked=2), 2048, members, work, False)
        many = digits(1000, 8, GOAL_OF_MANY, checked=1, judged=2, limit=COARSE)
        for width in (widths[0], 2048):
            yield partial(_rows, many, width, members, work, False)


SECTION = Section(
    "ensembles",
    "Ensembles: networks trained to convergence",
    "Two layers, silu, sigma_w = 1.5, sigma_b = 0.1. *toy* is the paper's problem with N = 10, *digits* has images of "
    f"scikit-learn's, standardised, 53 pixels each. {comparison.NOTE}",
    _cases,
    (
        "Fifty times as fast on 200 digits: 7.7 times at width 512 and 21 times at 2,048. Descent takes some 1,900 "
        "steps here, and the flow up to 35 evaluations. What binds is the kernel: an evaluation forms a matrix of 200 "
        "by 200 and factors it in float64, which takes as long as seven steps of descent. Fifty times as fast would "
        "leave five evaluations, fewer than the flow needs to be sure of its error.",
        "Twenty times as fast on 1,000 digits at width 512: 6.3 times, by the steps of the linear model. A network of "
        "this width has fewer units than there are images and leaves its linear model: by descent it is not there "
        "after twice as many steps, and the flow takes some 70 evaluations. At width 2,048 it is 30 times. The flow "
        f"that both sides are held against is accurate to {COARSE.rtol:g} here, as a tight one takes hours.",
    ),
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
    limit = DeepEnsemble(net, judged, solver=data.limit).fit(data.X, data.y).functions(data.X_test)[:, None]
    start, targets = draw(net, 1, 0, Role.MEMBER, range(members)), np.tile(data.y, (members, 1, 1))
    few = [(w[:checked], b[:checked]) for w, b in start]
    problem = Problem(net, data.X, data.X_test, few, targets[:checked], limit[:checked])
    error = comparison.largest_distance(model.functions(data.X_test)[:judged, None], limit)
    shared: Row = {"data": data.name, "N": len(data.X), "width": width, "networks": members}
    return comparison.compare(
        shared, problem, start, targets, fit, first, error, work, adam, ours / members, data.repeats, data.goal
    )
