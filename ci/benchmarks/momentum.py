"""Gradient descent with momentum on a linear model: its rates, and how many steps it takes.

The part of the residual along an eigenvector of the tangent kernel with eigenvalue l follows

    e_{k+1} = (1 + momentum - rate l) e_k - momentum e_{k-1},    e_0 = 1, e_1 = 1 - rate l.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, " n"]

MOST = 10**9


@dataclass(frozen=True)
class Momentum:
    """theta moves by -rate times the sum over past gradients, of which each counts `momentum` times the next."""

    rate: float
    momentum: float

    def left(self, values: Values, steps: int) -> Values:
        """What is left of the residual along each eigenvector."""
        turn = np.zeros((len(values), 2, 2))
        turn[:, 0, 0], turn[:, 0, 1], turn[:, 1, 0] = 1 + self.momentum - self.rate * values, -self.momentum, 1.0
        # e_{-1} = 1 gives e_1.
        return np.linalg.matrix_power(turn, steps)[:, 0].sum(axis=1)


def choices(values: Values) -> dict[str, Momentum]:
    """Rates for a kernel with these eigenvalues, at 0.95 of the largest stable one; the last is the best there is."""
    least, most = values.min(), values.max()
    root = sqrt(most / least)
    return {
        "GD": Momentum(0.95 * 2 / most, 0.0),
        "momentum 0.9": Momentum(0.95 * 2 * 1.9 / most, 0.9),
        "momentum, tuned": Momentum(4 / (sqrt(most) + sqrt(least)) ** 2, ((root - 1) / (root + 1)) ** 2),
    }


def fewest(done: Callable[[int], bool]) -> int:
    """The fewest steps after which it is done, if more steps do not undo it.

    Raises
    ------
    ValueError: it takes more than `MOST` steps.
    """
    high = 1
    while not done(high):
        high *= 2
        if high > MOST:
            raise ValueError(f"descent takes more than {MOST} steps: choose an easier problem")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if done(middle) else (middle, high)
    return high
