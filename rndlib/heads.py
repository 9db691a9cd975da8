"""How far many heads on one narrow body drift from the theorems, which let the width grow at a fixed number of heads.

The predictions are fits to trained networks at convergence (SiLU, depth 2, N = 10 and 20 points in 3 dimensions,
widths 256 and 1024, K = 16 to 256 heads, sigma_b = 0.1 and 1), good to about 0.1; they warn, and correct nothing.
Notebook 03 holds the ones for Bayesian RND against networks.
What counts is the load x = N K / P: the equations that the heads put to the P hidden parameters they share.
"""

import warnings

from rndlib.network import MLP

TOLERATED = 0.1


class HeadsWarning(UserWarning):
    """Too many heads for the width: the variance is biased by more than a tenth, or its spread is not chi-squared."""


def warn_if_narrow(net: MLP, heads: int, n_samples: int, method: str) -> None:
    """Warn where `heads` on one body of `net` are predicted to miss the infinite-width law by more than a tenth.

    method: "standard" for RND, "shared" or "independent" for the directions of Bayesian RND.

    The predicted ratio of variance to law is `1 / (1 + x)` with a floor of 0.8 for shared directions, `1 + x / 4` for
    independent ones. Standard RND keeps its mean within a tenth; what grows is the spread of the variance over seeds,
    `1 + 3.3 K / n` times that of `laws.mean_square` in the linearised network.
    """
    if net.depth == 1 or heads == 1:  # no hidden parameters to share, or nobody to share them with
        return
    load = n_samples * heads / net.hidden_parameters
    crowding = heads / net.width
    if method == "standard":
        if 3.3 * crowding > 5 * TOLERATED:
            _warn(
                net, heads, f"the spread of its variance over seeds is about {1 + 3.3 * crowding:.2g} times chi-squared"
            )
        return
    ratio = predicted_ratio(load, method)
    if abs(ratio - 1) > TOLERATED:
        _warn(net, heads, f"the variance is about {ratio:.2g} times the posterior's")


def predicted_ratio(load: float, directions: str) -> float:
    """Variance of Bayesian RND over the posterior's at load `N K / P`, by the rule of `warn_if_narrow`."""
    return max(1 / (1 + load), 0.8) if directions == "shared" else 1 + load / 4


def _warn(net: MLP, heads: int, consequence: str) -> None:
    warnings.warn(
        f"{heads} heads on a body of width {net.width}: {consequence}; widen the network, or spread the heads over "
        "bodies",
        HeadsWarning,
        stacklevel=4,
    )
