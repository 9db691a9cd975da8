"""How far many heads on one narrow body drift from the theorems, which let the width grow at a fixed number of heads.

The rules are fits to trained networks at convergence (SiLU, depth 2, 10 and 20 points in 3 dimensions). They warn, and
correct nothing. Notebook 02 holds that of standard RND against networks, notebook 03 those of Bayesian RND.

The heads put N K equations to the P hidden parameters that they share. The drift of Bayesian RND follows the load
x = N K / P, to about 0.1. Observation noise removes most of the equations that do the harm, those of the smallest
eigenvalues of Theta. N is then tr(S^2), with S = Theta (Theta + noise_std^2 I)^-1 the smoother on the training points:
a usual count of the points that a smoother still tells apart, and one that errs on the side of warning.

Standard RND keeps its mean. Its variance over seeds grows as 1 + c K / n, with a c between 1 and 5 that depends on the
problem; `CROWDING` stands in for it.
"""

import warnings

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.theory import kernels

TOLERATED = 0.1  # of the mean
TOLERATED_SPREAD = 0.5  # of the variance over seeds, whose prediction is within a factor of 3

CROWDING = 3.3
"""c in 1 + c K / n, the factor by which standard RND's variance over seeds exceeds that of `laws.mean_square`."""


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

    Too much is a tenth of Bayesian RND's variance (`predicted_ratio`), and half of standard RND's variance over seeds.

    n_samples: N, or with noise `points_that_count`.
    method: "standard" for RND, "shared" or "independent" for the directions of Bayesian RND.

    >>> from rndlib import MLP
    >>> from rndlib.theory import crowding
    >>> crowding.warn_if_narrow(MLP(3, width=512), heads=64, n_samples=10, method="standard")  # wide enough: no warning
    """
    if net.depth == 1 or heads == 1:  # no hidden parameters, or no other head to share them with
        return
    if method == "standard":
        excess = CROWDING * heads / net.width
        if excess <= TOLERATED_SPREAD:
            return
        consequence = f"the spread of its variance over seeds is about {1 + excess:.2g} times chi-squared"
    else:
        ratio = predicted_ratio(n_samples * heads / net.hidden_parameters, method)
        if abs(ratio - 1) <= TOLERATED:
            return
        consequence = f"the variance is about {ratio:.2g} times the posterior's"
    warnings.warn(
        f"{heads} heads on a body of width {net.width}: {consequence}; widen the network, or spread the heads over "
        "bodies",
        HeadsWarning,
        stacklevel=3,
    )


def points_that_count(net: MLP, X: Float[np.ndarray, "n d"], noise_std: float) -> float:
    """tr(S^2) for the smoother S = Theta (Theta + noise_std^2 I)^-1 on X (N, in_dim): N without noise, fewer with it.

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
    """Variance of Bayesian RND over the posterior's at load `N K / P`, for "shared" or "independent" directions.

    >>> from rndlib.theory import crowding
    >>> crowding.predicted_ratio(0.1, "independent"), crowding.predicted_ratio(0.5, "shared")
    (1.025, 0.8)
    """
    return max(1 / (1 + load), 0.8) if directions == "shared" else 1 + load / 4
