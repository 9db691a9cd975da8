"""When many heads on one narrow network make the variance of standard RND vary too much over seeds.

The theorems assume a fixed number of heads and a large width. With K heads on a network of width n, half the squared
error keeps its mean, but its variance over seeds grows as 1 + c K / n. The c is between 1 and 5, depending on the
problem (SiLU, depth 2, 10 and 20 points in 3 dimensions, trained to convergence; notebook 02).
"""

import warnings

from rndlib.any_network import Network

TOLERATED = 0.5  # of the variance over seeds, which is predicted within a factor of 3

CROWDING = 3.3
"""c in the rule 1 + c K / n: the variance over seeds of half the squared RND error, over that of `laws.mean_square`."""


class HeadsWarning(UserWarning):
    """Too many heads for the width: the variance estimate has over 1.5 times its theoretical variance across seeds.

    >>> import warnings
    >>> from rndlib import MLP, RND
    >>> from rndlib import HeadsWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", HeadsWarning)
    ...     RND(MLP(3, width=64), heads=64).fit([[0.0, 0.0, 1.0]])
    Traceback (most recent call last):
    rndlib.theory.crowding.HeadsWarning: 64 heads on a network of width 64: over seeds, its variance estimate scatters with about 4.3 times the chi-squared variance; widen the network, or spread the heads over several (bodies=)
    """  # noqa: E501 - a message is one line


def warn_if_narrow(net: Network, heads: int, stacklevel: int = 3) -> None:
    """Warn if half the squared RND error of `heads` heads on one network is predicted to vary too much over seeds.

    Too much is half more than chi-squared. The variance itself is measured by each fit (`rndlib.estimators.departure`).

    Parameters
    ----------
    stacklevel: Of `warnings.warn`: 3 names the caller of the function that calls this.

    >>> from rndlib import MLP
    >>> from rndlib.theory import crowding
    >>> crowding.warn_if_narrow(MLP(3, width=512), heads=64)  # wide enough: no warning
    """
    if not net.hidden_parameters or heads == 1:  # no hidden parameters, or no other head to share them with
        return
    excess = CROWDING * heads / net.width
    if excess > TOLERATED:
        warnings.warn(
            f"{heads} heads on a network of width {net.width}: over seeds, its variance estimate scatters with about "
            f"{1 + excess:.2g} times the chi-squared variance; widen the network, or spread the heads over several "
            "(bodies=)",
            HeadsWarning,
            stacklevel=stacklevel,
        )
