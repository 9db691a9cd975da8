"""Every figure of the library, drawn from small numbers, for the tests of figures."""

from functools import cache

import numpy as np

from rndlib import laws
from rndlib.advice import Ratio
from rndlib.paper import figures
from rndlib.paper.evidence import statistics
from rndlib.theory.laws import Gaussian

WIDTHS = [64, 256, 1024]
ERROR = np.array([0.2, 0.1, 0.05])
TIMES = [0.1, 1.0]
VALUES = np.array([[1.0, 2.0], [0.1, 0.2]])
LAW = ("theory", np.array([0.05, 0.5, 5.0]), np.array([[1.0, 2.0], [0.5, 1.0], [0.1, 0.2]]))
CHI = ("theorem", laws.mean_square(1.0, 2)), ("wrong: one less", laws.mean_square(1.0, 1))
LOADS = np.array([[0.1, 1.0, 0.9, 1.1], [1.0, 2.0, 1.5, 3.0]])
RATIOS = {"one": Ratio(0.5, 0.25, 1.0), "other": Ratio(1.2, 1.1, 1.3)}
COSTS = {"one": (2.0, (0.5, 0.25, 1.0)), "other": (300.0, (-1.0, -2.0, 0.5))}
WALK, DISTANCE, STOPS = figures.walk([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]], per_leg=10)
SEEDS = ERROR * np.array([[0.5], [2.0]])
NORMAL = np.random.default_rng(0).standard_normal((50, 2))
HISTOGRAMS = CHI[0][1].rvs((2, 4000), random_state=0)


def size() -> figures.Figure:
    series = {"right": (ERROR, ERROR / 2, ERROR * 2), "wrong: other": (0 * ERROR + 0.3,) * 3}
    guides, levels = {"1/sqrt(n)": ("right", -0.5)}, {"tolerance": 0.1}
    return figures.against_size(WIDTHS, series, "width n", "error", "it falls", guides, levels)


def extrapolated() -> figures.Figure:
    right, wrong = (
        statistics.limit({n: [e + h + np.array([-0.01, 0.01])] for n, e in zip(WIDTHS, ERROR, strict=True)})
        for h in (0.0, 0.3)
    )
    return figures.extrapolated(WIDTHS, {"right": right, "wrong: other": wrong}, 0.05, "error", "it vanishes")


def widths() -> figures.Figure:
    series = {"one network": SEEDS[:, 1:], "many": SEEDS, "wrong: other": 0 * SEEDS + 1}
    return figures.discrepancy_against_width(WIDTHS, dict.fromkeys(("one", "two"), (series, (0.01, 0.003, 0.03))), "f")


def scatter() -> figures.Figure:
    x = np.geomspace(0.01, 1, 60) * np.ones((3, 1))
    return figures.scatter_by_width(WIDTHS, x, x * np.array([[2.0], [1.5], [1.0]]), "a pair")


def ratios() -> figures.Figure:
    series = {"narrow": LOADS, "wrong: wide": LOADS}
    panel = figures.Ratios(series, (0.9, 1.1), rules={"rule": (LOADS[:, 0], 1 + LOADS[:, 0])})
    return figures.ratios({"mean": figures.Ratios({"narrow": LOADS}), "variance": panel}, "K/n", "it grows")


def ordered() -> figures.Figure:
    values = [Ratio(1.0, 0.9, 1.1), Ratio(0.5, 0.4, 0.6)]
    return figures.ordered(["0", "inf"], {"RND": values}, "strength", "it falls", {"rule": [1.0, 0.4]})


def variance() -> figures.Figure:
    series = {"networks": VALUES, "wrong: other": 2 * VALUES}
    return figures.variance_against("time t", LAW, TIMES, series, 0.1, "it falls", ("posterior", np.array([0.05, 0.1])))


def trajectories() -> figures.Figure:
    moments = np.geomspace(0.01, 100, 9)
    lines = np.stack([np.stack([moments, -moments], axis=1), np.stack([2 * moments, moments], axis=1)])
    return figures.trajectories(moments, lines, ("wrong: sign", -lines), [1.0, np.inf], lines[:, [4, 8]], "on lines")


def covariances() -> figures.Figure:
    others = {"ensemble": np.diag([1.0, 90.0]), "wrong: other": np.diag([2.0, 200.0])}
    return figures.covariances(np.diag([1.0, 100.0]), others, "as in theory")


def pairs() -> figures.Figure:
    return figures.pairs({"without": NORMAL, "wrong: with": NORMAL[:, [0, 0]]}, "sample", "independent")


def histograms() -> figures.Figure:
    return figures.histograms({"RND": HISTOGRAMS[0], "ensemble": HISTOGRAMS[1]}, CHI[0], "value", "equal", CHI[1])


def squares() -> figures.Figure:
    law = np.linspace(0.1, 1, 5)
    series = {"RND": (law, law, law / 10), "wrong: other": (law, 0 * law, law / 10)}
    return figures.covariances_of_squares(series, "theory", "on the diagonal")


def functions() -> figures.Figure:
    mean, var = DISTANCE**2, DISTANCE + 1
    panels = {name: np.stack([mean + 1, mean - 1]) for name in ("exact", "Bayesian RND", "wrong: other")}
    known = STOPS[::2], STOPS[::2] ** 2 + 0.25
    return figures.functions_on_walk(DISTANCE, Gaussian(mean, var, None), known, panels, "drawn from the posterior")


def intervals() -> figures.Figure:
    return figures.intervals({"RND": RATIOS, "Bayesian RND": RATIOS}, "equal", {"theory": 1.0}, log=True)


def costs() -> figures.Figure:
    return figures.against_cost({"concrete": COSTS, "airfoil": COSTS, "diabetes": COSTS}, "seconds", "NLL", "dear")


def departure_map() -> figures.Figure:
    mild, far = ("1", {"RND": Ratio(1.0, 0.9, 1.1)}), ("attention / sqrt n", {"RND": Ratio(9.0, 8.0, 10.0)})
    return figures.departure_map({"width": [mild, far], "time": [mild]}, "where it stops")


AXES = [size, extrapolated, widths, ratios, ordered, variance, trajectories, pairs, histograms, squares, functions]
AXES += [costs]
DRAWN = [*AXES, scatter, covariances, intervals, departure_map]
of = cache(lambda draw: draw())
"""Each figure once, for tests that only look at it."""
