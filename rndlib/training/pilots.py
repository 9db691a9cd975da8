"""What bodies that were trained first say of those that follow: how finely gradient flow has to be stepped."""

from dataclasses import astuple, dataclass
from math import ceil, sqrt


@dataclass(frozen=True)
class Pilot:
    """What the gradient flow of a few bodies says of others of their kind: how finely it has to be stepped.

    steps: the number of steps that were fine enough, of the finer of two integrations.
    reach: how far the two extrapolate, relative to the function, the most over the bodies.
    error: the extrapolation's relative error, the most over the bodies.
    plain: the finer integration's own, likewise.
    largest: the largest eigenvalue of their tangent kernels before training, for which the time grid was laid out.

    >>> from rndlib import MLP, RND, datasets
    >>> RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report.pilot.error < 1e-3
    True
    """

    steps: int
    reach: float
    error: float
    plain: float
    largest: float

    @property
    def extrapolates(self) -> bool:
        """Whether the extrapolation is nearer than the finer integration alone; with few steps it may not be.

        >>> from rndlib.training.pilots import Pilot
        >>> Pilot(steps=4, reach=0.01, error=0.02, plain=0.01, largest=30.0).extrapolates
        False
        """
        return self.error <= self.plain

    @property
    def best(self) -> float:
        """The error of the nearer one.

        >>> from rndlib.training.pilots import Pilot
        >>> Pilot(steps=4, reach=0.01, error=0.02, plain=0.01, largest=30.0).best
        0.01
        """
        return min(self.error, self.plain)

    def estimate(self, reach: float) -> float:
        """Estimated error of another body's, of the nearer one's kind, from this many steps.

        It grows with the reach, and beyond that of any pilot with its square. The pilots are few, so theirs is not the
        largest error there is: over 200 networks each of widths 64 to 2048, a factor of four brought the number of
        those less accurate than asked to what it is where each is its own pilot.

        >>> from rndlib.training.pilots import Pilot
        >>> Pilot(steps=4, reach=0.1, error=1e-4, plain=1e-3, largest=30.0).estimate(reach=0.2)
        0.0016
        """
        further = reach / self.reach if self.reach > 0 else 1.0
        return 4 * self.best * further * max(1.0, further)

    def finer(self, allowed: float, reach: float) -> "Pilot":
        """With as many steps as bring the estimate at this reach down to `allowed`, by second order.

        If these are up to half as many more: bodies that need yet more find it out by themselves, with twice the steps.

        >>> from rndlib.training.pilots import Pilot
        >>> Pilot(steps=4, reach=0.1, error=1e-3, plain=2e-3, largest=30.0).finer(2e-3, 0.1).steps
        6
        """
        steps = 2 * ceil(self.steps / 2 * sqrt(max(1.0, self.estimate(reach) / allowed)))
        if steps > 1.5 * self.steps:
            return self
        by = (self.steps / steps) ** 2
        return Pilot(steps, by * self.reach, by * self.error, by * self.plain, self.largest)

    def __or__(self, other: "Pilot") -> "Pilot":
        """What two groups of bodies say together: where they differ in steps, the group that needed more decides."""
        if self.steps != other.steps:
            return max(self, other, key=lambda pilot: pilot.steps)
        return Pilot(*(max(ours, theirs) for ours, theirs in zip(astuple(self), astuple(other), strict=True)))
