"""How far a fit is from its theorem, in a sentence (`rndlib.estimators.measure` measures it)."""

from dataclasses import dataclass
from math import inf
from typing import Literal

TOLERATED = 0.1
"""Distance of the factor from 1 that is no departure."""

Cause = Literal["width", "heads per width", "label scale", "time", "learning rate", "conditioning"]


class DepartureWarning(UserWarning):
    """The variance of a fit differs by more than 10 % from its theorem.

    >>> import warnings
    >>> from rndlib import MLP, DeepEnsemble, DepartureWarning, datasets
    >>> data = datasets.toy(0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = DeepEnsemble(MLP(3, width=16), 8).fit(data.X, data.y)
    >>> DepartureWarning in [warning.category for warning in caught]
    True
    """


@dataclass(frozen=True)
class Departure:
    """How far a fit is from its theorem, over probe points of the training distribution.

    factor: The reported variance over the one that the theorem predicts from the same initial weights.
    low, high: Its 95 % interval over members, bodies or heads; 0 and infinity where they are too few for one.
    mean: Squared distance of the mean estimate from the theorem's, over the theorem's variance; 0 where there is none.
    departs: Whether the factor differs from 1 by more than 10 % and its interval excludes 1, or `mean` is significantly
        above 0.1.
    cause: What contributes most, or None where factor and mean are within a tenth of 1 and 0.
    remedy: What to change, or an empty string.

    >>> from rndlib.estimators.departure import Departure
    >>> print(Departure(0.98, 0.95, 1.01))
    the variance is 0.98 times (95 %: 0.95 to 1.01) that of the theorem
    """

    factor: float
    low: float = 0.0
    high: float = inf
    mean: float = 0.0
    departs: bool = False
    cause: Cause | None = None
    remedy: str = ""

    def __str__(self) -> str:
        interval = f"95 %: {self.low:.3g} to {self.high:.3g}" if self.high < inf else "too few networks for an interval"
        found = f"the variance is {self.factor:.3g} times ({interval}) that of the theorem"
        if self.mean > TOLERATED:
            found += f", and {self.factor + self.mean:.3g} times with the squared error of the mean"
        if self.cause is None:
            return found
        reason = "because of" if self.departs else "by chance or because of"
        return f"{found}, {reason} {self.cause}: {self.remedy}"
