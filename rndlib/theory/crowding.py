"""How far many heads on one narrow body are from the theorems, which assume a fixed number of heads and a large width.

The rules are fits to trained networks at convergence (SiLU, depth 2, 10 and 20 points in 3 dimensions). They are used
for warnings only, and correct nothing. Notebooks 02 (standard RND) and 03 (Bayesian RND) compare them with networks.

K heads at N points pose N K equations for the P hidden parameters that they share. The variance of Bayesian RND is off
by an amount that follows the load x = N K / P, to about 0.1. Observation noise weakens the equations of the smallest
eigenvalues of Theta most, and these do the harm. So with noise, N is replaced by tr(S^2), where
S = Theta (Theta + noise_std^2 I)^-1 is the smoother on the training points: its effective number of points.

Standard RND keeps its mean. Its variance over seeds grows as 1 + c K / n, with a c between 1 and 5 that depends on the
problem; `CROWDING` is a typical value.
"""

import warnings

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.network import MLP
from rndlib.theory import kernels

TOLERATED = 0.1  # of the mean
TOLERATED_SPREAD = 0.5  # of the variance over seeds, which is predicted within a factor of 3

CROWDING = 3.3
"""c in the rule 1 + c K / n: the variance over seeds of half the squared RND error, over that of `laws.mean_square`."""


class HeadsWarning(UserWarning):
    """Too many heads for the width.

    The variance estimate is biased by more than a tenth, or its variance over seeds is more than half too large.

    >>> import warnings
    >>> from rndlib import MLP, RND
    >>> from rndlib import HeadsWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", HeadsWarning)
    ...     RND(MLP(3, width=64), heads=64).fit([[0.0, 0.0, 1.0]])
    Traceback (most recent call last):
    rndlib.theory.crowding.HeadsWarning: 64 heads on a body of width 64: the spread of its variance over seeds is about 4.3 times chi-squared; widen the network, or spread the heads over bodies
    """  # noqa: E501 - a message is one line


def warn_if_narrow(net: Network, heads: int, n_samples: float, method: str) -> None:
    """Warn if `heads` heads on one body of `net` are predicted to be too far from the infinite-width law.

    Too far is a tenth of Bayesian RND's variance (`predicted_ratio`), or half of standard RND's variance over seeds.

    n_samples: N, or with noise `points_that_count`.
    method: "standard" for RND, "shared" or "independent" for the directions of Bayesian RND.

    >>> from rndlib import MLP
    >>> from rndlib.theory import crowding
    >>> crowding.warn_if_narrow(MLP(3, width=512), heads=64, n_samples=10, method="standard")  # wide enough: no warning
    """
    if not net.hidden_parameters or heads == 1:  # no hidden parameters, or no other head to share them with
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
    """tr(S^2) for the smoother S on X (N, in_dim): the effective number of points, N without noise.

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
