"""Standard error of a mean over pairs of independent networks (a U-statistic), which may be degenerate."""

from math import sqrt

import numpy as np
from jaxtyping import Float


def error_over_pairs(terms: Float[np.ndarray, "n n"]) -> float:
    """Standard error of the mean of `terms` over pairs of networks, centred at it, with zeros on the diagonal.

    It covers both what a network has in all of its pairs and what is left where it has nothing (the degenerate part).
    """
    n = len(terms)
    noise = 2 * float(np.mean(terms**2)) / n**2
    # A network's row carries the noise of its partners too, once more than it should be counted.
    along = 4 * float(terms.mean(axis=1).var(ddof=1)) / n
    return sqrt(max(along - noise, noise))
