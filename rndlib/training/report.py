"""The report of a training run, and the error and warnings of one that fails, or may."""

from dataclasses import dataclass
from typing import Any


class DivergenceError(RuntimeError):
    """Training produced infinite or NaN values, or missed the requested accuracy.

    >>> from rndlib import MLP, DeepEnsemble, DivergenceError, GradientDescent, datasets
    >>> data = datasets.toy(0)
    >>> model = DeepEnsemble(MLP(3, width=8), 2, solver=GradientDescent(0.05, 200))
    >>> try:
    ...     model.fit(data.X, 1e4 * data.y)
    ... except DivergenceError:
    ...     print("the kernel grew in training")
    the kernel grew in training
    """


class ConditionWarning(UserWarning):
    """The kernel on X is so nearly singular that training may take long, and may miss its accuracy.

    >>> import warnings
    >>> from rndlib import MLP, RND
    >>> from rndlib.training.report import ConditionWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConditionWarning)
    ...     RND(MLP(1, width=64), heads=4).fit([[0.0], [1e-4], [1.0]])
    Traceback (most recent call last):
    rndlib.training.report.ConditionWarning: X with noise_std = 0: the tangent kernel is nearly singular (condition number 8e+08): give noise_std of about 0.002 or more where it is offered, a training time of about 2e+05 or less, or drop close points; training takes long and may miss rtol = 0.001
    """  # noqa: E501 - a message is one line


class SlowWarning(UserWarning):
    """Training by gradient flow will take minutes.

    >>> import warnings
    >>> import numpy as np
    >>> from rndlib import MLP, BayesianRND
    >>> from rndlib.training.report import SlowWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", SlowWarning)
    ...     BayesianRND(MLP(10), noise_std=0.1).fit(np.random.default_rng(0).normal(size=(400, 10)))
    Traceback (most recent call last):
    rndlib.training.report.SlowWarning: training on 400 rows will take some 15 minutes of CPU, within a factor of four: linearised=True takes seconds, or give a larger rtol, fewer heads, or StochasticGradient(...)
    """  # noqa: E501 - a message is one line


@dataclass(frozen=True)
class Report:
    """The result of training, over all networks of a fit.

    time: Training time reached, `inf` at convergence. None for minibatches, which have no single training time.
    residual: Largest `||f(X) - y|| / max(||f_0(X) - y||, 1e-4 ||y||)` over the networks. It need not be small at a
        finite training time.
    error: Largest estimated relative error of the trained function; 0 for gradient descent, None for minibatches.
    evaluations: Largest number of evaluations of network and tangent kernel on the training set, over networks; for
        descent and minibatches, the number of steps.
    converged: Whether the requested accuracy was reached; True for minibatches, for which none is requested.
    notes: Sentences on what was chosen, and how the numbers were found.
    departure: How far the networks deviate from the theorem, an `rndlib.estimators.departure.Departure`, which prints
        as a sentence; None if they are linear, or there is no theorem.

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
    notes: tuple[str, ...] = ()
    departure: Any = None

    def __or__(self, other: "Report") -> "Report":
        """The joint report of two groups of bodies."""
        return Report(
            time=self.time,
            residual=max(self.residual, other.residual),
            error=None if self.error is None or other.error is None else max(self.error, other.error),
            evaluations=max(self.evaluations, other.evaluations),
            converged=self.converged and other.converged,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )
