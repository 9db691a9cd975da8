"""The precision in which gradient flow takes its steps.

In float32 a step takes some two thirds of the time that it does in float64. What rounding changes grows with over how
many scales of time training stretches (`rndlib.training.flow.conditioning.factor`): from some 1e7 on the kernel matrix
no longer knows its smallest eigenvalues, and steps along their modes are arbitrary. The kernel's eigenproblem is solved
in float64 either way. So is the residual found that Newton's method starts from, which training to convergence ends
with: how exactly training points are fitted does not depend on the precision.
"""

import numpy as np
from jaxtyping import Float

from rndlib.training.flow import conditioning

MOST_STRETCHED = 2.0**18
"""The stiffness ratio up to which float32 is accurate enough: its error is at most LEFT up to 8e5, and 3e-3 at 7e6."""

MOST_STEPS = 256
"""The number of steps up to which float32 is accurate enough. A network that needs more steps magnifies rounding error,
as it does the error of a step."""

LEFT = 2e-5
"""Relative error of the trained function that float32 leaves within these limits, at widths of 16 to 2048 and 5 to 200
points. 64 heads on a body of width 16 are the one exception known: 2e-4."""


def single(time: float, rtol: float, eigenvalues: Float[np.ndarray, " n"], steps: int = 1) -> bool:
    """Whether float32 is accurate enough: whether its error is at most a twentieth of the error allowed.

    `eigenvalues` are those of the infinite-width kernel on X, noise included; `steps` is a lower bound on the steps
    needed.

    >>> import numpy as np
    >>> from rndlib.training.flow import precision
    >>> [precision.single(np.inf, rtol, np.array([1e-3, 10.0])) for rtol in (1e-3, 1e-4)]
    [True, False]
    >>> [precision.single(time, 1e-3, np.array([1e-8, 10.0])) for time in (1e3, np.inf)]
    [True, False]
    """
    return (
        steps <= MOST_STEPS
        and rtol >= 20 * LEFT
        and conditioning.factor(eigenvalues, time) <= MOST_STRETCHED
        and 1e-16 < float(eigenvalues[-1]) < 1e16  # the square of the functions' size, well within float32's range
    )
