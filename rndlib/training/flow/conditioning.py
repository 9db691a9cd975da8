"""A warning, before training, that the training set is too ill-conditioned for gradient flow.

Modes of the tangent kernel with eigenvalue lambda settle at times of 1 / lambda. The stiffness ratio, from
the first time to the last that training resolves, is `lambda_max min(time, 1 / lambda_min)`: the condition number of
the kernel on X, noise included, where training is long enough. A network's curvature matters at each of these scales,
and the number of steps grows with about the square root of the ratio: up to a thousand evaluations of network and
kernel at 1e4, four thousand at 1e6, sixteen thousand at 1e8. From 1e10 on, fits often miss rtol = 1e-3.

The ratio is no verdict: a pair of close points whose labels agree adds one slow mode that settles on its own. Nor does
a fit show before its end whether it will succeed. So this warns, and refuses nothing.
"""

import warnings

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP

TOLERATED = 1e8
"""The stiffness ratio above which there is a warning. The smallest at which a fit missed its accuracy is 7e8."""

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
    """The stiffness ratio `lambda_max min(time, 1 / lambda_min)` of training to `time`.

    eigenvalues: of the tangent kernel on X, noise included, in ascending order; the smallest may be 0 within rounding.

    >>> import numpy as np
    >>> from rndlib.training.flow import conditioning
    >>> conditioning.factor(np.array([0.25, 5.0]), np.inf), conditioning.factor(np.array([0.25, 5.0]), 2.0)
    (20.0, 10.0)
    """
    low, high = float(eigenvalues[0]), float(eigenvalues[-1])
    return high * min(time, 1 / max(low, np.finfo(float).tiny))


def warn_if_nearly_singular(
    net: MLP, eigenvalues: Float[np.ndarray, " n"], noise_std: float, time: float, rtol: float
) -> None:
    """Warn where `factor` is above `TOLERATED`, and say which noise or time would bring it down.

    Without a hidden layer there is no curvature, and gradient flow is exact at any ratio.

    eigenvalues: as in `factor`. noise_std: the noise that they include. time, rtol: as in `GradientFlow`.

    >>> import numpy as np
    >>> from rndlib import MLP
    >>> from rndlib.training.flow import conditioning
    >>> eigenvalues = np.array([0.25, 5.0])  # far from singular: no warning
    >>> conditioning.warn_if_nearly_singular(MLP(3), eigenvalues, noise_std=0.5, time=np.inf, rtol=1e-3)
    """
    said = advice(eigenvalues, time)
    if net.depth > 1 and said:
        warnings.warn(
            f"X with noise_std = {noise_std:g}: {said}; training takes long and may miss rtol = {rtol:g}",
            ConditionWarning,
            stacklevel=6,
        )


def advice(eigenvalues: Float[np.ndarray, " n"], time: float) -> str:
    """What to change, in words, where `factor` is above `TOLERATED`; otherwise an empty string.

    >>> import numpy as np
    >>> from rndlib.training.flow import conditioning
    >>> conditioning.advice(np.array([1e-9, 4.0]), time=np.inf)
    'the tangent kernel is nearly singular (condition number 4e+09): give noise_std of about 0.002 or more where it is
     offered, a training time of about 2e+05 or less, or drop close points'
    >>> conditioning.advice(np.array([1e-9, 4.0]), time=1e4)
    ''
    """
    found, high = factor(eigenvalues, time), float(eigenvalues[-1])
    if found <= TOLERATED:
        return ""
    return (
        f"the tangent kernel is nearly singular (condition number {found:.1g}): give noise_std of about "
        f"{(high / COMFORTABLE) ** 0.5:.1g} or more where it is offered, a training time of about "
        f"{COMFORTABLE / high:.1g} or less, or drop close points"
    )
