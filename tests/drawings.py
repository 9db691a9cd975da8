"""Every figure of the library, drawn from small numbers, for the tests of figures."""

import numpy as np
from scipy import stats

from rndlib import laws
from rndlib.paper import figures
from rndlib.paper.evidence import statistics
from rndlib.paper.evidence.estimate import Estimate
from rndlib.theory.laws import Gaussian

WIDTHS = [64, 256, 1024]
ERROR = np.array([0.2, 0.1, 0.05])
TIMES = [0.1, 1.0]
VALUES = np.array([[1.0, 2.0], [0.1, 0.2]])
LAW = ("law", np.array([0.05, 0.5, 5.0]), np.array([[1.0, 2.0], [0.5, 1.0], [0.1, 0.2]]))
CHI = ("theorem", laws.mean_square(1.0, 2)), ("control: one less", laws.mean_square(1.0, 1))
LOADS = np.array([[0.1, 1.0, 0.9, 1.1], [1.0, 2.0, 1.5, 3.0]])
SCORES = {"one": Estimate(0.5, 0.25, 1.0), "other": Estimate(-1.0, -2.0, 0.5)}
WALK, DISTANCE, STOPS = figures.walk([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]], per_leg=10)
RNG = np.random.default_rng(0)
NORMAL, SQUARES, UNIFORM = RNG.standard_normal((50, 2)), RNG.chisquare(4, 500), RNG.uniform(0.005, 0.02, 99)
HISTOGRAMS = CHI[0][1].rvs((2, 4000), random_state=0)
REGRETS = {f"sampler {i}": RNG.exponential(1 + i, (8, 20)) for i in range(2)}


def size() -> figures.Figure:
    series = {"right": (ERROR, ERROR / 2, ERROR * 2), "control: wrong": (0 * ERROR + 0.3,) * 3}
    guides, levels = {"1/sqrt(n)": ("right", -0.5)}, {"margin": 0.1}
    return figures.against_size(WIDTHS, series, "width n", "error", "it falls", guides, levels)


def extrapolated() -> figures.Figure:
    right, wrong = (statistics.limit(WIDTHS, [[e + h + np.array([-0.01, 0.01])] for e in ERROR]) for h in (0.0, 0.3))
    return figures.extrapolated(WIDTHS, {"right": right, "control: wrong": wrong}, 0.05, "error", "it vanishes")


def widths() -> figures.Figure:
    series = {"one body": (ERROR, ERROR / 2, ERROR * 2), "many": (ERROR,) * 3, "control: wrong": (0 * ERROR + 1,) * 3}
    panel = series, (0.01, 0.003, 0.03)
    return figures.discrepancy_against_width(WIDTHS, {"a pair": panel, "another": panel}, "it falls")


def scatter() -> figures.Figure:
    x = np.geomspace(0.01, 1, 60) * np.ones((3, 1))
    return figures.scatter_by_width(WIDTHS, x, x * np.array([[2.0], [1.5], [1.0]]), "a pair")


def ratios() -> figures.Figure:
    series = {"narrow": LOADS, "control: wide": LOADS}
    panel = figures.Ratios(series, (0.9, 1.1), rules={"rule": (LOADS[:, 0], 1 + LOADS[:, 0])})
    return figures.ratios({"mean": figures.Ratios({"narrow": LOADS}), "variance": panel}, "K/n", "it grows")


def variance() -> figures.Figure:
    series = {"networks": VALUES, "control: wrong": 2 * VALUES}
    return figures.variance_against("time t", LAW, TIMES, series, 0.1, "it falls", ("posterior", np.array([0.05, 0.1])))


def trajectories() -> figures.Figure:
    moments = np.geomspace(0.01, 100, 9)
    lines = np.stack([np.stack([moments, -moments], axis=1), np.stack([2 * moments, moments], axis=1)])
    return figures.trajectories(moments, lines, ("control: wrong", -lines), [1.0, np.inf], lines[:, [4, 8]], "on lines")


def covariances() -> figures.Figure:
    others = {"ensemble": np.diag([1.0, 90.0]), "control: wrong": np.diag([2.0, 200.0])}
    return figures.covariances(np.diag([1.0, 100.0]), others, "it is the law's")


def matrices() -> figures.Figure:
    return figures.matrices(("law", np.diag([1.0, 4.0])), {"network": np.diag([1.0, -9.0])}, "kernel (units)", "equal")


def pairs() -> figures.Figure:
    return figures.pairs({"without": NORMAL, "control: with": NORMAL[:, [0, 0]]}, "sample", "independent")


def histograms() -> figures.Figure:
    return figures.histograms({"RND": HISTOGRAMS[0], "ensemble": HISTOGRAMS[1]}, CHI[0], "value", "equal", CHI[1])


def tails() -> figures.Figure:
    law = ("chi-squared", stats.chi2(4))
    return figures.histograms({"wide": SQUARES, "control: narrow": 100 * SQUARES}, law, "length", "equal", tails=True)


def distances() -> figures.Figure:
    squares, statistic = {"RND": SQUARES, "control": 0.4 * SQUARES}, {"RND": 0.01, "control": 0.3}
    return figures.distances_from_law(squares, 4, UNIFORM, statistic, "equal")


def squares() -> figures.Figure:
    law = np.linspace(0.1, 1, 5)
    series = {"RND": (law, law, law / 10), "control": (law, 0 * law, law / 10)}
    return figures.covariances_of_squares(series, "law", "on the diagonal")


def functions() -> figures.Figure:
    mean, var = DISTANCE**2, DISTANCE + 1
    drawn = figures.Sampled(np.stack([mean + 1, mean - 1]), mean + 0.5, np.sqrt(2 * var))
    panels = {"exact": drawn, "Bayesian RND": drawn, "control": drawn}
    known = STOPS[::2], STOPS[::2] ** 2 + 0.25
    return figures.functions_on_walk(DISTANCE, Gaussian(mean, var, None), known, panels, "drawn from the posterior")


def intervals() -> figures.Figure:
    return figures.intervals({"NLL": SCORES, "CRPS": SCORES}, "equal", {"no difference": 0.0})


def predictions() -> figures.Figure:
    panels = {"one": (np.array([0.5, 0.5, 1.0]), np.ones(3))}
    return figures.predictions(panels, np.array([0.0, 1.0, 5.0]), "most are inside")


def images() -> figures.Figure:
    return figures.images({"digits": np.arange(32.0).reshape(2, 16), "others": np.zeros((1, 16))}, "digits and others")


def regret() -> figures.Figure:
    return figures.regret_against_queries(REGRETS, "one is better", "units")


def departure() -> figures.Figure:
    values = [Estimate(1.0, 0.9, 1.1), Estimate(0.5, 0.4, 0.6)]
    return figures.departure(["mild", "weight decay"], {"RND": values}, "strength", "it leaves", {"law": [1.0, 0.4]})


def departure_map() -> figures.Figure:
    mild, far = ("1", {"rnd": 1.0}, {"rnd": "safe"}), ("weight decay", {"rnd": 9.0}, {"rnd": "meaningless"})
    return figures.departure_map({"width": [mild, far], "time": [mild]}, {"rnd": "RND"}, "where it stops")


AXES = [size, extrapolated, widths, ratios, variance, trajectories, pairs, histograms, tails, distances, squares]
AXES += [functions, intervals, predictions, regret, departure]
DRAWN = [*AXES, scatter, covariances, matrices, images, departure_map]
