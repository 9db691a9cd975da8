"""An estimate with its interval: the common type of statistics, scores and measured costs."""

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with the ends of its interval; in JSON a list of the three."""

    value: float
    low: float
    high: float

    def rounded(self, digits: int = 2) -> str:
        """The estimate with its interval in brackets, for a table.

        >>> from rndlib.paper.evidence.estimate import Estimate
        >>> Estimate(0.5, -0.001, 1.26).rounded()
        '0.50 [0.00, 1.26]'
        """
        value, low, high = (f"{round(number, digits) + 0.0:.{digits}f}" for number in self)
        return f"{value} [{low}, {high}]"
