"""The report of a training run, and the error that it raises when it fails."""

from dataclasses import dataclass


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


@dataclass(frozen=True)
class Report:
    """The result of training, over all bodies of a fit.

    time: Training time reached, `inf` at convergence. None for minibatches, which have no single training time.
    residual: Largest `||f(X) - y|| / max(||f_0(X) - y||, 1e-4 ||y||)` over the bodies. It need not be small at a finite
        training time.
    error: Largest estimated relative error of the trained function; 0 for gradient descent, None for minibatches.
    evaluations: Largest number of evaluations of network and tangent kernel on the training set, over bodies; for
        descent and minibatches, the number of steps.
    converged: Whether the requested accuracy was reached. For minibatches, whether all epochs ran or the patience
        ran out.
    notes: Sentences on what was chosen, and how the numbers were found.

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
