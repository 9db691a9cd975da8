"""Intervals over seeds, where one seed stands for a whole experiment."""

from math import sqrt

import numpy as np
from scipy import stats


def t_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Student's interval of the mean of `values`, `(seeds,)`, each end at `confidence`, one-sided.

    Raises
    ------
    ValueError: fewer than two seeds.
    """
    seeds = len(values)
    if seeds < 2:
        raise ValueError(f"{seeds} seed gives no interval: run at least two")
    half = float(stats.t.ppf(confidence, seeds - 1)) * float(values.std(ddof=1)) / sqrt(seeds)
    return float(values.mean()) - half, float(values.mean()) + half


def over_seeds(values: np.ndarray, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Geometric mean over the seeds of positive `values`, `(seeds, places)`, and its interval: each `(places,)`.

    Student's interval of the log, two-sided at `confidence`.

    Raises
    ------
    ValueError: fewer than two seeds, or a value that is not positive.
    """
    if np.min(values) <= 0:
        raise ValueError("values must be positive: their logarithms are averaged")
    logs = np.log(values)
    ends = np.array([t_interval(column, (1 + confidence) / 2) for column in logs.T])
    return np.exp(logs.mean(axis=0)), np.exp(ends[:, 0]), np.exp(ends[:, 1])
