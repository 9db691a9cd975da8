"""How a network is trained: descriptions that a backend carries out, and what it reports back."""

from dataclasses import dataclass
from math import inf

from rndlib import checks

CLOSE = 1e-4
"""A start nearer to its targets than this, relative to their size, counts as this far from them when training is
judged by how far it came: else nothing but rounding would be left to compare with."""


class DivergenceError(RuntimeError):
    """Training left the finite numbers, or did not reach the accuracy that was asked for.

    >>> from rndlib import MLP, DeepEnsemble, datasets
    >>> from rndlib.solvers import DivergenceError, GradientDescent
    >>> data = datasets.toy(0)
    >>> model = DeepEnsemble(MLP(3, width=8), 2, solver=GradientDescent(0.05, 200))
    >>> try:
    ...     model.fit(data.X, 1e4 * data.y)
    ... except DivergenceError:
    ...     print("the kernel grew in training")
    the kernel grew in training
    """


@dataclass(frozen=True)
class GradientFlow:
    """Gradient flow `d theta/dt = -grad L`, with `L = 1/2 ||f(X) - y||^2` summed over points and heads (Eq. 3).

    Parameters
    ----------
    time: training time t, learning rate 1; `math.inf` trains to convergence.
    rtol: relative error allowed in the trained function, in the norm over probe points near the data; > 0.

    Raises
    ------
    ValueError: a field is out of range.

    >>> from rndlib import MLP, RND, GradientFlow, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientFlow(time=1.0)).fit(datasets.toy(0).X)
    >>> model.report.time, model.report.residual < 1
    (1.0, True)
    """

    time: float = inf
    rtol: float = 1e-3

    def __post_init__(self):
        object.__setattr__(self, "time", checks.duration("time", self.time))
        object.__setattr__(self, "rtol", checks.positive("rtol", self.rtol))


@dataclass(frozen=True)
class GradientDescent:
    """Full-batch gradient descent on `L = 1/2 ||f(X) - y||^2`, the paper's optimiser.

    The loss is the sum over points and heads, as the paper prints it. For the mean over N points, give
    `learning_rate / N`. A rate of `2 / lambda_max` or more, with lambda_max the largest eigenvalue of a network's
    own tangent kernel at its start, cannot converge and is refused when training starts.

    Parameters
    ----------
    learning_rate: step size, > 0. `steps * learning_rate` is the time t of the laws.
    steps: number of steps, >= 1.

    Raises
    ------
    ValueError: a field is out of range.

    >>> from rndlib import MLP, RND, GradientDescent, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientDescent(learning_rate=0.01, steps=100))
    >>> model.fit(datasets.toy(0).X).report.time
    1.0
    """

    learning_rate: float = 0.1
    steps: int = 1000

    def __post_init__(self):
        object.__setattr__(self, "learning_rate", checks.positive("learning_rate", self.learning_rate))
        object.__setattr__(self, "steps", checks.whole("steps", self.steps, at_least=1))

    @property
    def time(self) -> float:
        """Training time reached, `steps * learning_rate`.

        >>> from rndlib import GradientDescent
        >>> GradientDescent(learning_rate=0.5, steps=10).time
        5.0
        """
        return self.steps * self.learning_rate


Solver = GradientFlow | GradientDescent


@dataclass(frozen=True)
class Pilot:
    """What the gradient flow of a few bodies says of others of their kind: how finely it has to be stepped.

    steps: the number of steps whose extrapolation was accurate enough.
    reach: how far that extrapolated, relative to the function, the most over the bodies.
    error: the extrapolation's relative error, the most over the bodies.

    >>> from rndlib import MLP, RND, datasets
    >>> RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report.pilot.error < 1e-3
    True
    """

    steps: int
    reach: float
    error: float

    def estimate(self, reach: float) -> float:
        """Estimated error of another body's extrapolation from this many steps.

        It grows with the reach, and beyond that of any pilot with its square. The pilots are few, so theirs is not the
        largest error there is: over 200 networks each of widths 64 to 2048, a factor of four brought the number of
        those less accurate than asked to what it is where each is its own pilot.

        >>> from rndlib.solvers import Pilot
        >>> Pilot(steps=4, reach=0.1, error=1e-4).estimate(reach=0.2)
        0.0016
        """
        further = reach / self.reach if self.reach > 0 else 1.0
        return 4 * self.error * further * max(1.0, further)

    def __or__(self, other: "Pilot") -> "Pilot":
        """What two groups of bodies say together: where they differ in steps, the group that needed more decides."""
        if self.steps != other.steps:
            return max(self, other, key=lambda pilot: pilot.steps)
        return Pilot(self.steps, max(self.reach, other.reach), max(self.error, other.error))


@dataclass(frozen=True)
class Report:
    """What training did, over all bodies of a fit.

    time: time reached (`inf` at convergence).
    residual: largest `||f(X) - y|| / ||f_0(X) - y||` over the bodies, with `CLOSE ||y||` for the denominator where
        that is larger; at finite time it need not be small.
    error: largest estimated relative error of the trained function (0 for gradient descent, which is exact).
    evaluations: most evaluations of network and tangent kernel on the training set that any body took.
    converged: the accuracy asked for was reached.
    pilot: of gradient flow, what it says of more bodies of the same description; None for gradient descent.

    >>> from rndlib import MLP, RND, datasets
    >>> report = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report
    >>> report.time, report.converged, report.residual < 1e-6
    (inf, True, True)
    """

    time: float
    residual: float
    error: float
    evaluations: int
    converged: bool
    pilot: Pilot | None = None

    def __or__(self, other: "Report") -> "Report":
        """The report over two groups of bodies."""
        return Report(
            time=self.time,
            residual=max(self.residual, other.residual),
            error=max(self.error, other.error),
            evaluations=max(self.evaluations, other.evaluations),
            converged=self.converged and other.converged,
            pilot=self.pilot | other.pilot if self.pilot and other.pilot else None,
        )
