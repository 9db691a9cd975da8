"""How far many heads on one narrow body drift from the theorems, which let the width grow at a fixed number of heads.

For Bayesian RND the predictions are fits to trained networks at convergence (SiLU, depth 2, N = 10 and 20 points in 3
dimensions, widths 256 and 1024, K = 16 to 256 heads, sigma_b = 0.1 and 1), good to about 0.1; they warn, and correct
nothing. Notebook 03 holds them against networks. What counts is the load x = N K / P: the equations that the heads put
to the P hidden parameters they share.

Observation noise takes away most from the equations of the smallest eigenvalues, which are the ones that do the harm.
So N counts as tr(S^2) then, with S = Theta (Theta + noise_std^2 I)^-1 the smoother on the training points, a usual
number for how many points a smoother still tells apart. It is on the side of warning: over 23 pairs of problem and
noise level (N = 10 and 20, widths 128 to 1024, 32 and 128 heads, noise_std = 0.1 to 2, tr(S^2) from 0.9 N to 0.2 N)
the departures found were never larger than predicted, and smaller by up to 0.13 with shared and 0.19 with independent
directions; with N itself they were smaller by up to 0.15 and 0.31.

For standard RND what counts is K / n. There the mean stays, and the variance over seeds grows as 1 + c K / n, with a c
that depends on the problem: from 1 (N = 5 points in 3 dimensions) to 5 (N = 20), 1.5 in 10 dimensions, 2 to 4 with two
hidden layers and with other scales. `CROWDING` stands in for it; notebook 02 shows the evidence.
"""

import warnings

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.theory import kernels

TOLERATED = 0.1  # of the mean
TOLERATED_SPREAD = 0.5  # of the variance over seeds, whose prediction is within a factor of 3

CROWDING = 3.3
"""c in 1 + c K / n, by how much the variance of standard RND's error over seeds exceeds that of `laws.mean_square`."""


class HeadsWarning(UserWarning):
    """Too many heads for the width: the variance is biased by a tenth, or scatters over seeds half as much again.

    >>> import warnings
    >>> from rndlib import MLP, RND
    >>> from rndlib import HeadsWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", HeadsWarning)
    ...     RND(MLP(3, width=64), heads=64).fit([[0.0, 0.0, 1.0]])
    Traceback (most recent call last):
    rndlib.theory.crowding.HeadsWarning: 64 heads on a body of width 64: the spread of its variance over seeds is about 4.3 times chi-squared; widen the network, or spread the heads over bodies
    """  # noqa: E501 - a message is one line


def warn_if_narrow(net: MLP, heads: int, n_samples: float, method: str) -> None:
    """Warn where `heads` on one body of `net` are predicted to miss the infinite-width law by too much.

    n_samples: N, or with noise `points_that_count`.
    method: "standard" for RND, "shared" or "independent" for the directions of Bayesian RND.

    The predicted ratio of variance to law is `1 / (1 + x)` with a floor of 0.8 for shared directions, `1 + x / 4` for
    independent ones; more than a tenth off is too much. Standard RND keeps its mean within a tenth. What grows is the
    scatter of its variance over seeds, by `1 + CROWDING K / n`; half as much again is too much, that is K > 0.15 n.

    >>> from rndlib import MLP
    >>> from rndlib.theory import crowding
    >>> crowding.warn_if_narrow(MLP(3, width=512), heads=64, n_samples=10, method="standard")  # wide enough: no warning
    """
    if net.depth == 1 or heads == 1:  # no hidden parameters to share, or nobody to share them with
        return
    load = n_samples * heads / net.hidden_parameters
    if method == "standard":
        excess = CROWDING * heads / net.width
        if excess > TOLERATED_SPREAD:
            _warn(net, heads, f"the spread of its variance over seeds is about {1 + excess:.2g} times chi-squared")
        return
    ratio = predicted_ratio(load, method)
    if abs(ratio - 1) > TOLERATED:
        _warn(net, heads, f"the variance is about {ratio:.2g} times the posterior's")


def points_that_count(net: MLP, X: Float[np.ndarray, "n d"], noise_std: float) -> float:
    """tr(S^2), S = Theta (Theta + noise_std^2 I)^-1 on X (N, in_dim): N without noise, and less the more there is.

    >>> import numpy as np
    >>> from rndlib import MLP
    >>> from rndlib.theory import crowding
    >>> X = np.eye(3)
    >>> crowding.points_that_count(MLP(3), X, 0.0), round(crowding.points_that_count(MLP(3), X, 0.5), 1)
    (3.0, 2.1)
    """
    if noise_std == 0:
        return float(len(X))
    eigenvalues = np.maximum(np.linalg.eigvalsh(kernels.kernel(net, X).ntk), 0)
    return float(np.sum((eigenvalues / (eigenvalues + noise_std**2)) ** 2))


def predicted_ratio(load: float, directions: str) -> float:
    """Variance of Bayesian RND over the posterior's at load `N K / P`, by the rule of `warn_if_narrow`.

    >>> from rndlib.theory import crowding
    >>> crowding.predicted_ratio(0.1, "independent"), crowding.predicted_ratio(0.5, "shared")
    (1.025, 0.8)
    """
    return max(1 / (1 + load), 0.8) if directions == "shared" else 1 + load / 4


def _warn(net: MLP, heads: int, consequence: str) -> None:
    warnings.warn(
        f"{heads} heads on a body of width {net.width}: {consequence}; widen the network, or spread the heads over "
        "bodies",
        HeadsWarning,
        stacklevel=4,
    )
