"""What training reports back, and how it fails."""

from dataclasses import dataclass


class DivergenceError(RuntimeError):
    """Training left the finite numbers, or did not reach the accuracy that was asked for.

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
    """What training did, over all bodies of a fit.

    time: training time reached, `inf` at convergence; None for minibatches, which no single time describes.
    residual: largest `||f(X) - y|| / ||f_0(X) - y||` over the bodies, with `1e-4 ||y||` for the denominator where that
        is larger; at a finite time it need not be small.
    error: largest estimated relative error of the trained function; 0 for gradient descent, None for minibatches.
    evaluations: the most evaluations of network and tangent kernel on the training set that any body took, or steps.
    converged: whether the accuracy asked for was reached; for minibatches, the epochs or the patience.

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

    def __or__(self, other: "Report") -> "Report":
        """The report over two groups of bodies."""
        return Report(
            time=self.time,
            residual=max(self.residual, other.residual),
            error=None if self.error is None or other.error is None else max(self.error, other.error),
            evaluations=max(self.evaluations, other.evaluations),
            converged=self.converged and other.converged,
        )
