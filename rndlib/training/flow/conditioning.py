"""A warning, before training, that the training set is too ill-conditioned for gradient flow.

A mode of the tangent kernel with eigenvalue lambda settles after a time of 1 / lambda. The stiffness ratio, between the
longest and the shortest time scale that training resolves, is `lambda_max min(time, 1 / lambda_min)`: the condition
number of the kernel on X, noise included, if training is long enough. The number of steps grows with about its square
root. A large ratio need not be a problem: a pair of close points with equal labels adds one slow mode that starts
settled. So this only warns.
"""

import numpy as np
from jaxtyping import Float

TOLERATED = 1e8
"""The stiffness ratio above which there is a warning, because fits may miss their accuracy."""

COMFORTABLE = 1e6
"""The stiffness ratio that the advice aims at, at which fits take seconds."""


class ConditionWarning(UserWarning):
    """The kernel on X is so nearly singular that training may take long, and may miss its accuracy.

    >>> import warnings
    >>> from rndlib import MLP, RND
    >>> from rndlib.training.flow.conditioning import ConditionWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConditionWarning)
    ...     RND(MLP(1, width=64), heads=4).fit([[0.0], [1e-4], [1.0]])
    Traceback (most recent call last):
    rndlib.training.flow.conditioning.ConditionWarning: X with noise_std = 0: the tangent kernel is nearly singular (condition number 8e+08): give noise_std of about 0.002 or more where it is offered, a training time of about 2e+05 or less, or drop close points; training takes long and may miss rtol = 0.001
    """  # noqa: E501 - a message is one line


def factor(eigenvalues: Float[np.ndarray, " n"], time: float) -> float:
    """The stiffness ratio of training to `time`, from the eigenvalues of the kernel in ascending order.

    >>> import numpy as np
    >>> from rndlib.training.flow import conditioning
    >>> conditioning.factor(np.array([0.25, 5.0]), np.inf), conditioning.factor(np.array([0.25, 5.0]), 2.0)
    (20.0, 10.0)
    """
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    return high * min(time, 1 / max(low, np.finfo(float).tiny))


def advice(eigenvalues: Float[np.ndarray, " n"], time: float) -> str:
    """What to change, in words, if `factor` is above `TOLERATED`; otherwise an empty string.

    >>> import numpy as np
    >>> from rndlib.training.flow import conditioning
    >>> conditioning.advice(np.array([1e-9, 4.0]), time=1e4)
    ''
    """
    ratio, high = factor(eigenvalues, time), float(eigenvalues[-1])
    if ratio <= TOLERATED:
        return ""
    return f"the tangent kernel is nearly singular (condition number {ratio:.1g}): {remedies(high)}"


def remedies(largest: float) -> str:
    """What brings the stiffness ratio down to `COMFORTABLE`, in words, given the largest eigenvalue.

    >>> from rndlib.training.flow import conditioning
    >>> conditioning.remedies(100.0)
    'give noise_std of about 0.01 or more where it is offered, a training time of about 1e+04 or less, or drop close points'
    """  # noqa: E501 - a message is one line
    return (
        f"give noise_std of about {(largest / COMFORTABLE) ** 0.5:.1g} or more where it is offered, a training time of "
        f"about {COMFORTABLE / largest:.1g} or less, or drop close points"
    )
