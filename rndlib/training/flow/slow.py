"""A warning, before training by gradient flow, that it will take minutes.

Timed with 512 units on one core: 50, 100 and 200 patients of scikit-learn's diabetes data, with 16 heads on a body,
take 127, 511 and 1,023 evaluations of network and kernel, and 5, 9 and 52 seconds; 354 take 2,048, and 10 to 20
minutes. Of two networks with one head each, 200 points take 1,034 evaluations and 13 seconds. So evaluations are about
twice the root of the stiffness ratio, and one of them costs about 5e-9 s times the squared number of equations of a
body, or 1e-9 s times the cubed number of points. The estimate is good to a factor of four.
"""

import warnings

from rndlib.training.problem import Task

MINUTES = 2.0
"""Estimated CPU minutes from which on there is a warning."""

FEW = 100
"""Training points below which networks take a second each at most."""


class SlowWarning(UserWarning):
    """Training by gradient flow will take minutes.

    >>> import warnings
    >>> import numpy as np
    >>> from rndlib import MLP, BayesianRND
    >>> from rndlib.training.flow.slow import SlowWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", SlowWarning)
    ...     BayesianRND(MLP(10), noise_std=0.1).fit(np.random.default_rng(0).normal(size=(400, 10)))
    Traceback (most recent call last):
    rndlib.training.flow.slow.SlowWarning: training on 400 rows will take some 15 minutes of CPU, within a factor of four: linearised=True takes seconds, or give fewer heads, or StochasticGradient(...)
    """  # noqa: E501 - a message is one line


def minutes(n: int, heads: int, bodies: int, stiffness: float) -> float:
    """Estimated CPU minutes of training `bodies` networks of `heads` outputs on n points.

    >>> from rndlib.training.flow import slow
    >>> round(slow.minutes(n=200, heads=16, bodies=1, stiffness=3e5), 1)
    1.1
    """
    shared = 5e-9 * (n * heads) ** 2 if heads > 1 else 0.0
    return bodies * 2 * stiffness**0.5 * (shared + 1e-9 * n**3) / 60


def announce(task: Task, stiffness: float) -> None:
    """Warn if the task will take more than MINUTES; `stiffness` is that of its kernel (`conditioning.factor`).

    >>> import numpy as np
    >>> from rndlib import MLP
    >>> from rndlib.training.flow import slow
    >>> from rndlib.training.problem import Task
    >>> from rndlib.training.weights import Role
    >>> task = Task(MLP(3), 4, 1, Role.MEMBER, 0, np.zeros((50, 3)), draw=list, targets=list)
    >>> slow.announce(task, stiffness=1e4)  # a few points: no warning
    """
    n, expected = len(task.X), minutes(len(task.X), task.heads, task.bodies, min(stiffness, 1e12))
    if n >= FEW and expected > MINUTES and task.net.hidden_parameters:
        warnings.warn(
            f"training on {n} rows will take some {expected:.0f} minutes of CPU, within a factor of four: "
            "linearised=True takes seconds, or give fewer heads, or StochasticGradient(...)",
            SlowWarning,
            stacklevel=6,
        )
