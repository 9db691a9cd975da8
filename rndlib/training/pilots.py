"""Pilots: the bodies that are trained first and set the step sizes of gradient flow for the others."""

from dataclasses import astuple, dataclass
from math import ceil, sqrt


@dataclass(frozen=True)
class Pilot:
    """Step-size advice from a few trained bodies for others of the same network; errors are maxima over bodies."""

    steps: int  # that were fine enough, in the finer of two integrations
    reach: float  # relative distance from the finer integration to the extrapolation
    error: float  # relative error of the extrapolation
    plain: float  # relative error of the finer integration alone
    largest: float  # eigenvalue of the tangent kernels before training, for which the time grid was laid out

    @property
    def extrapolates(self) -> bool:
        """Whether the extrapolation is more accurate than the finer integration; with few steps it may not be."""
        return self.error <= self.plain

    def estimate(self, reach: float) -> float:
        """Estimated relative error of another body that takes as many steps and extrapolates this far.

        Linear in `reach` up to the pilots' largest value, and quadratic beyond, with a safety factor of 4 for the small
        sample of pilots.
        """
        further = reach / self.reach if self.reach > 0 else 1.0
        return 4 * min(self.error, self.plain) * further * max(1.0, further)

    def finer(self, allowed: float, reach: float) -> "Pilot":
        """The same advice with enough steps, by second order, to reduce the estimate at this reach to `allowed`.

        At most half as many more: bodies that need even more notice it themselves, and then double the steps.
        """
        steps = 2 * ceil(self.steps / 2 * sqrt(max(1.0, self.estimate(reach) / allowed)))
        if steps > 1.5 * self.steps:
            return self
        by = (self.steps / steps) ** 2
        return Pilot(steps, by * self.reach, by * self.error, by * self.plain, self.largest)

    def __or__(self, other: "Pilot") -> "Pilot":
        """The joint advice of two groups of bodies: of the one that needed more steps, or the maxima at equal steps."""
        if self.steps != other.steps:
            return max(self, other, key=lambda pilot: pilot.steps)
        return Pilot(*(max(ours, theirs) for ours, theirs in zip(astuple(self), astuple(other), strict=True)))
