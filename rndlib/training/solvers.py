"""How a network is trained: descriptions that a backend carries out, and what it reports back."""

from dataclasses import dataclass
from math import inf

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.training.pilots import Pilot

CLOSE = 1e-4
"""A start nearer to its targets than this, relative to their size, counts as this far from them when training is
judged by how far it came: else nothing but rounding would be left to compare with."""


class DivergenceError(RuntimeError):
    """Training left the finite numbers, or did not reach the accuracy that was asked for.

    >>> from rndlib import MLP, DeepEnsemble, datasets
    >>> from rndlib.training.solvers import DivergenceError, GradientDescent
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
        From 4e-4 on, steps are taken in float32 where that adds a twentieth of it or less
        (`rndlib.training.flow.precision`).

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


@dataclass(frozen=True)
class StochasticGradient:
    """Minibatch training on the mean over points of `1/2 ||f(x) - y||^2`, for more data than the others can take.

    Steps through data in batches, in an order that follows from the estimator's seed, the same on every backend; the
    rate falls to zero along half a cosine. Needs no kernel matrix: memory and time per epoch grow with N.

    Of the laws of `rndlib.laws` this leaves, for a network wide enough to stay linear in its parameters:

    - "sgd" without noise, trained until the loss vanishes, keeps the law at infinite time. Each step is a combination
      of the gradients at training points, so that the parameters stay in theta_0 + range(J'), where only one point
      interpolates: the one that gradient flow finds.
    - "adam" without noise does not, however long it trains. It rescales each parameter by its own gradients, leaves
      that set, and finds another interpolant; how far from gradient flow's does not fall with the width.
    - With noise_std > 0 either keeps it, if trained to the minimum: targets are jittered and parameters drawn to their
      start by a penalty, which has one minimum. The slowest directions take `N / noise_std^2 / learning_rate` steps.
    - Stopped earlier, by `epochs` or `patience`, it has the law of no single time: there is no clock that all
      directions share. Points that are held out are not trained on, and count as unknown.

    Parameters
    ----------
    optimizer: "adam" or "sgd", in the defaults of optax and torch.optim, which agree.
    learning_rate: the first step's rate, > 0. Plain gradient steps on the mean loss need less than 2 N / lambda_max.
    batch_size: points a step, >= 1; of fewer points, all. An epoch leaves out what does not fill a batch.
    epochs: passes over the data at most, >= 1.
    patience: epochs to wait for a lower loss on the points held out before a body is left at its best one, >= 1; None
        trains on all points for all epochs.
    validation_fraction: part of the points that is held out where there is a patience, between 0 and 1.
    progress: show a bar where standard error is a terminal.

    Raises
    ------
    ValueError: a field is out of range.

    >>> from rndlib import MLP, RND, StochasticGradient, datasets
    >>> solver = StochasticGradient(learning_rate=1e-2, epochs=20)
    >>> model = RND(MLP(3, width=64), heads=4, solver=solver).fit(datasets.toy(0, n_train=1000).X)
    >>> model.report.evaluations, model.report.residual < 0.5
    (300, True)
    """

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    batch_size: int = 64
    epochs: int = 100
    patience: int | None = None
    validation_fraction: float = 0.1
    progress: bool = True

    def __post_init__(self):
        checks.choice("optimizer", self.optimizer, ("adam", "sgd"))
        object.__setattr__(self, "learning_rate", checks.positive("learning_rate", self.learning_rate))
        for name in ("batch_size", "epochs"):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1))
        if self.patience is not None:
            object.__setattr__(self, "patience", checks.whole("patience", self.patience, at_least=1))
        checks.fraction("validation_fraction", self.validation_fraction)
        if not isinstance(self.progress, bool):
            raise ValueError(f"progress = {self.progress!r}: give True or False")

    def held_out(self, n_samples: int) -> int:
        """How many of the points are held out.

        >>> from rndlib import StochasticGradient
        >>> StochasticGradient(patience=5).held_out(1000), StochasticGradient().held_out(1000)
        (100, 0)
        """
        if self.patience is None:
            return 0
        held = max(1, round(self.validation_fraction * n_samples))
        if held >= n_samples:
            raise ValueError(
                f"validation_fraction = {self.validation_fraction:g} leaves none of {n_samples} points to train on: "
                "give less of it, more points, or patience=None"
            )
        return held

    def rates(self, batches: int) -> Float[np.ndarray, "epochs batches"]:
        """The rate of each step, from learning_rate along half a cosine towards 0: (epochs, batches).

        >>> from rndlib import StochasticGradient
        >>> StochasticGradient(learning_rate=1.0, epochs=2).rates(2).round(3).tolist()
        [[1.0, 0.854], [0.5, 0.146]]
        """
        steps = np.arange(self.epochs * batches) / (self.epochs * batches)
        return self.learning_rate * (0.5 + 0.5 * np.cos(np.pi * steps)).reshape(self.epochs, batches)


Solver = GradientFlow | GradientDescent | StochasticGradient


@dataclass(frozen=True)
class Report:
    """What training did, over all bodies of a fit.

    time: time reached (`inf` at convergence); None for minibatches, which no single time describes.
    residual: largest `||f(X) - y|| / ||f_0(X) - y||` over the bodies, with `CLOSE ||y||` for the denominator where
        that is larger; at finite time it need not be small.
    error: largest estimated relative error of the trained function (0 for gradient descent, which is exact; None for
        minibatches, which have nothing to be compared with).
    evaluations: most evaluations of network and tangent kernel on the training set that any body took, or most steps.
    converged: the accuracy asked for was reached; of minibatches, the epochs or the patience that was asked for.
    pilot: of gradient flow, what it says of more bodies of the same description; None for gradient descent.

    >>> from rndlib import MLP, RND, datasets
    >>> report = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report
    >>> report.time, report.converged, report.residual < 1e-6
    (inf, True, True)
    """

    time: float | None
    residual: float
    error: float | None
    evaluations: int
    converged: bool
    pilot: Pilot | None = None

    def __or__(self, other: "Report") -> "Report":
        """The report over two groups of bodies."""
        return Report(
            time=self.time,
            residual=max(self.residual, other.residual),
            error=None if self.error is None or other.error is None else max(self.error, other.error),
            evaluations=max(self.evaluations, other.evaluations),
            converged=self.converged and other.converged,
            pilot=self.pilot | other.pilot if self.pilot and other.pilot else None,
        )
