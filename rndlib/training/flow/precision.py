"""The precision in which gradient flow takes its steps.

A step in float32 takes about two thirds of the time of one in float64. Rounding error grows with the stiffness ratio
of training (`rndlib.training.flow.conditioning.factor`). Factorisations of kernels, and the residual from which
Newton's method starts, are in float64 either way: how exactly training points are fitted does not depend on the
precision.
"""

import numpy as np
from jaxtyping import Float

from rndlib.training.flow import conditioning

MOST_STRETCHED = 2.0**18
"""The stiffness ratio up to which float32 is accurate enough."""

MOST_STEPS = 256
"""The number of steps up to which float32 is accurate enough. A network that needs more magnifies rounding error."""

LEFT = 2e-5
"""Relative error of the trained function that float32 leaves within these limits."""


def single(time: float, rtol: float, eigenvalues: Float[np.ndarray, " n"], steps: int = 1) -> bool:
    """Whether the error of float32 is at most a twentieth of the allowed one, if `steps` or more are needed."""
    return (
        steps <= MOST_STEPS
        and rtol >= 20 * LEFT
        and conditioning.factor(eigenvalues, time) <= MOST_STRETCHED
        and 1e-16 < float(eigenvalues[-1]) < 1e16  # the square of the functions' size, well within float32's range
    )
