"""The units that a network works in, and the way between them and those of the user's columns and labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Column = float | Float[np.ndarray, " _"]


@dataclass(frozen=True)
class Units:
    """The network reads `(X - centre) / scale` and has labels `(y - mean) / size`. By default nothing changes.

    centre, scale: One number per column of X. mean, size: One number per column of labels.
    """

    centre: Column = 0.0
    scale: Column = 1.0
    mean: Column = 0.0
    size: Column = 1.0

    def inputs(self, X: Float[np.ndarray, "n *shape"]) -> Float[np.ndarray, "n *shape"]:
        """Points as the network reads them."""
        return (X - self.centre) / self.scale

    def labels(self, y: Float[np.ndarray, "n outputs"]) -> Float[np.ndarray, "n outputs"]:
        """Labels as the network has them."""
        return (y - self.mean) / self.size

    def spread(self, values: Float[np.ndarray, "*heads t"], outputs: tuple[int, ...]) -> Any:
        """Differences of functions, the same for every output, in the user's units: (*heads, t, *outputs)."""
        sizes = np.broadcast_to(self.size, outputs or (1,))
        return values[..., None] * sizes if outputs else values * sizes[0]


def standard(values: Float[np.ndarray, "n columns"]) -> tuple[Column, Column]:
    """Mean and standard deviation of each column; a deviation of 1 where a column is constant up to rounding."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(values).max(axis=0, initial=0.0)
    return mean, np.where(constant, 1.0, deviation)
