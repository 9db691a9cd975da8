"""The fits of notebook 06: which there are, how one is run and scored, and the table that `ci/practice.py` writes."""

import json
from functools import cache
from typing import Any

import numpy as np

from rndlib.paper import sources
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.tables import aligned
from rndlib.paper.practice import data, detectors, regressors, scores
from rndlib.paper.practice.methods import Method

TABLE = sources.NOTEBOOKS / "practice.json"
SPLITS = {"diabetes": 3, "concrete": 3, "airfoil": 3, "bike sharing": 2, "digits": 3}
"""Random splits of each data set. The seed of a split, which is also that of its fits, is its number from 0 up."""

SIZES = {
    "diabetes": (354, 88),
    "concrete": (824, 206),
    "airfoil": (1203, 300),
    "bike sharing": (10_000, 2_000),
    "digits": (1000, 200),
}
"""Training and test points of each split; of digits, test images of each kind."""


def methods(name: str) -> dict[str, Method]:
    """The methods that are run on a data set, by name."""
    if name == "digits":
        return detectors.METHODS
    return {key: of for key, of in regressors.METHODS.items() if not (name == "bike sharing" and of.left_out)}


def tasks() -> list[tuple[str, str, int]]:
    """Every fit, as data set, method and split: the first split of all comes first."""
    each = range(max(SPLITS.values()))
    return [(name, method, n) for n in each for name in SPLITS if n < SPLITS[name] for method in methods(name)]


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """One fit: its scores, CPU seconds and peak memory. Scores of regression are in deviations of training labels."""
    of = methods(name)[method]
    if name == "digits":
        shift = data.digits(seed, *SIZES[name])
        values, cost = of.measured(shift, seed)
        inside, *outside = np.split(values, 1 + len(shift.outside))
        areas = (scores.auroc(inside, group) for group in outside)
        return {"scores": dict(zip(shift.outside, areas, strict=True)), **cost}
    split = data.split(name, seed)
    found, cost = of.measured(split, seed)
    scaled = split.standardised()
    return {"scores": scores.of_predictions(scaled.y_test, found, scaled.X_test, seed), **cost}


@cache
def _content() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def values(name: str, method: str, score: str) -> np.ndarray:
    """A score, `cpu_seconds` or `peak_mib`, of a method on each split of a data set, in the order of the splits."""
    rows = [row for row in _content()["rows"] if (row["data"], row["method"]) == (name, method)]
    return np.array([{**row, **row["scores"]}[score] for row in sorted(rows, key=lambda row: row["split"])])


def estimate(name: str, method: str, score: str, minus: str | None = None) -> Estimate:
    """Mean of a score over splits with its 95 % interval; with `minus`, of the difference from another method."""
    other = 0.0 if minus is None else values(name, minus, score)
    return scores.over_splits(values(name, method, score) - other, *SIZES[name])


def complete(name: str) -> list[str]:
    """The methods that have a stored result on every split of a data set, in the order of declaration."""
    return [method for method in methods(name) if len(values(name, method, "cpu_seconds")) == SPLITS[name]]


def table(name: str, columns: tuple[str, ...], digits: int = 2, minus: str | None = None) -> str:
    """Means of scores over splits with half the width of their 95 % intervals, one row per method."""

    def shown(method: str, score: str) -> str:
        value, low, high = estimate(name, method, score, minus)
        return f"{value:.{digits}f} ± {(high - low) / 2:.{digits}f}"

    rows = [[method, *(shown(method, score) for score in columns)] for method in complete(name) if method != minus]
    return aligned([name, *columns], rows)


def seconds(name: str, method: str) -> float:
    """CPU seconds of a method on a data set, the median over splits."""
    return float(np.median(values(name, method, "cpu_seconds")))


def absent(name: str) -> list[str]:
    """Declared methods of regression without a result on every split of a data set, each with the reason."""
    there = complete(name)
    return [f"{key}: {of.left_out or 'not run'}" for key, of in regressors.METHODS.items() if key not in there]
