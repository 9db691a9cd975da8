"""Relative errors, one a network, and what they are typically (claims P2, P4 and P5)."""

from math import exp

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.evidence.claims import Finding
from rndlib.evidence.statistics.seeds import t_interval


def relative_error(found: ArrayLike, expected: ArrayLike, scale: ArrayLike | None = None) -> Float[np.ndarray, " n"]:
    """`||found - expected|| / ||scale||` of each network, Euclidean over everything else.

    Parameters
    ----------
    found: `(networks, ...)`.
    expected: of the same shape, or `(...)` for all networks alike.
    scale: what the error is relative to, in either shape; `expected` itself where it is not given.

    Raises
    ------
    ValueError: shapes disagree, or a scale of zero.
    """
    found = checks.array("found", found, *(None,) * max(1, np.ndim(found)))
    expected = _like("expected", expected, found.shape)
    scale = expected if scale is None else _like("scale", scale, found.shape)
    size = np.linalg.norm(scale.reshape(len(found), -1), axis=1)
    if size.min() == 0:
        raise ValueError("scale is zero for a network: no error is relative to it")
    return np.linalg.norm((found - expected).reshape(len(found), -1), axis=1) / size


def typical(errors: ArrayLike, confidence: float = 0.95) -> Finding:
    """Geometric mean over networks of `errors`, `(networks,)`: Student's interval of the log, upper end as the value.

    confidence: of each end, one-sided.

    Raises
    ------
    ValueError: fewer than two networks, or an error that is not positive.
    """
    errors = checks.array("errors", errors, None)
    if errors.min() <= 0:
        raise ValueError("errors must be positive: their logarithms are averaged")
    low, high = map(exp, t_interval(np.log(errors), checks.fraction("confidence", confidence)))
    return Finding(high, (low, high), "typical")


def _like(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    array = checks.array(name, values, *(shape[1:] if np.ndim(values) == len(shape) - 1 else shape))
    return np.broadcast_to(array, shape)
