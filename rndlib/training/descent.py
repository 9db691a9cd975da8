"""What gradient descent allows and reports, for every backend: a rate that can converge, a loss that fell."""

import numpy as np
from jaxtyping import Float

from rndlib.training.solvers import DivergenceError, GradientDescent, Report


def check_rate(solver: GradientDescent, largest: float, n_samples: int) -> None:
    """ValueError if the learning rate is 2 / lambda_max or more, with `largest` the tangent kernels' lambda_max."""
    if solver.learning_rate >= 2 / largest:
        raise ValueError(
            f"learning_rate = {solver.learning_rate:g}: gradient descent on the summed loss diverges from "
            f"2 / lambda_max = {2 / largest:.3g} on, with lambda_max = {largest:.3g} of the tangent kernel: give less "
            f"(learning_rate / n_samples = {solver.learning_rate / n_samples:.3g} is the same rate on the mean loss), "
            "or use GradientFlow"
        )


def report(solver: GradientDescent, residuals: Float[np.ndarray, " bodies"]) -> Report:
    """The report on bodies with these training residuals, relative to the first; DivergenceError if one grew."""
    residual = float(np.max(residuals))
    if not residual <= 1:
        raise DivergenceError(
            f"gradient descent: training residual {residual:.1e} of the first after {solver.steps} steps at "
            f"learning_rate = {solver.learning_rate:g}: the kernel grew in training; give a smaller rate"
        )
    return Report(solver.time, residual, 0.0, solver.steps, True)
