"""Points at which trained functions are compared, which stand in for those that a user will choose."""

from math import sqrt

import numpy as np


def probes(X: np.ndarray, own: bool = False) -> np.ndarray:
    """Points with the data's mean and covariance that are not training points: mirrored ones, sums, differences.

    For a single point: points around it, at its own distance from the origin (or 1).

    own : for a network of the user's own, which may take whole numbers alone, every coordinate keeps its values: they
        are permuted over the points.
    """
    if own:
        return np.concatenate([np.random.default_rng(seed).permuted(X, axis=0) for seed in range(3)])
    if len(X) == 1:
        size = np.sqrt(np.mean(X**2))
        return X + (size or 1.0) * np.eye(X.size).reshape(-1, *X.shape[1:])
    mean = X.mean(0)
    centred, neighbour = X - mean, np.roll(X - mean, 1, axis=0)
    return mean + np.concatenate([-centred, (centred + neighbour) / sqrt(2), (centred - neighbour) / sqrt(2)])
