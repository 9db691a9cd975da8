"""Warnings, before training by gradient flow, that the training set makes it long or inexact.

A mode of the tangent kernel with eigenvalue lambda settles after a time of 1 / lambda. The stiffness ratio, between the
longest and the shortest time scale that training resolves, is `lambda_max min(time, 1 / lambda_min)`: the condition
number of the kernel on X, noise included, if training is long enough. The number of steps grows with about its square
root. A large ratio need not be a problem: a pair of close points with equal labels adds one slow mode that starts
settled. So this only warns.

Evaluations of network and kernel are about the root of the stiffness ratio at rtol = 1e-3, and a third of that at
1e-2. One of them costs about 1e-8 s times the squared number of equations of a body with several heads, or 4e-10 s
times the cubed number of points of one with a single head. The estimate is good to a factor of four on scikit-learn's
digits and diabetes data: 1,000 digits take 2,059 evaluations at 1e-3 and 265 at 1e-2, at width 512.
"""

import warnings

import numpy as np
from jaxtyping import Float

from rndlib.training.problem import Task
from rndlib.training.report import SlowWarning

TOLERATED = 1e8
"""The stiffness ratio above which there is a warning, because fits may miss their accuracy."""

COMFORTABLE = 1e6
"""The stiffness ratio that the advice aims at, at which fits take seconds."""

MINUTES, FEW = 2.0, 100
"""Estimated CPU minutes from which on there is a warning, and training points below which there is none."""


def factor(eigenvalues: Float[np.ndarray, " n"], time: float) -> float:
    """The stiffness ratio of training to `time`, from the eigenvalues of the kernel in ascending order."""
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    return high * min(time, 1 / max(low, np.finfo(float).tiny))


def advice(eigenvalues: Float[np.ndarray, " n"], time: float) -> str:
    """What to change, in words, if `factor` is above `TOLERATED`; otherwise an empty string."""
    ratio, high = factor(eigenvalues, time), float(eigenvalues[-1])
    if ratio <= TOLERATED:
        return ""
    return f"the tangent kernel is nearly singular (condition number {ratio:.1g}): {remedies(high)}"


def remedies(largest: float) -> str:
    """What brings the stiffness ratio down to `COMFORTABLE`, in words, given the largest eigenvalue."""
    return (
        f"give noise_std of about {(largest / COMFORTABLE) ** 0.5:.1g} or more where it is offered, a training time of "
        f"about {COMFORTABLE / largest:.1g} or less, or drop close points"
    )


def announce(task: Task, stiffness: float, rtol: float) -> None:
    """Warn if the task will take more than MINUTES at `rtol`; `stiffness` is that of its kernel (`factor`)."""
    n = len(task.X)
    evaluations = (1e-3 / rtol * min(stiffness, 1e12)) ** 0.5
    seconds = 1e-8 * (n * task.heads) ** 2 if task.heads > 1 else 4e-10 * n**3
    minutes = task.bodies * evaluations * seconds / 60
    if n >= FEW and minutes > MINUTES and task.net.hidden_parameters:
        warnings.warn(
            f"training on {n} rows will take some {minutes:.0f} minutes of CPU, within a factor of four: "
            "linearised=True takes seconds, or give a larger rtol, fewer heads, or StochasticGradient(...)",
            SlowWarning,
            stacklevel=6,
        )
