"""The infinite kernels that a law refers to: those of an `MLP`, or of any network as a function `net(X1, X2)`."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.cores import slices
from rndlib.network import MLP
from rndlib.theory import kernels

Network = MLP | Callable[[Any, Any], Any]

_ROWS = 64  # of a block on the diagonal of a kernel that is given as a function


def between(net: Network, X1: np.ndarray, X2: np.ndarray) -> kernels.Kernel:
    """The kernels between X1 and X2, which are the same array where they are those of X1 with itself."""
    if isinstance(net, MLP):
        return kernels.Kernel(*kernels.matrices(net, X1, None if X2 is X1 else X2, names=("X", "X_test")))
    found, shape = net(X1, X2), (len(X1), len(X2))
    if not (hasattr(found, "nngp") and hasattr(found, "ntk")):
        raise ValueError(f"net(X1, X2) returns {type(found).__name__}: return an object that has nngp and ntk")
    checks.require(
        np.asarray(found.ntk).dtype.itemsize >= 8,
        f"net(X1, X2).ntk is {np.asarray(found.ntk).dtype}, whose rounding looks like small eigenvalues: compute it in "
        "float64, in JAX with jax.config.update('jax_enable_x64', True)",
    )
    # Copies: laws change them, and an array of JAX is read-only in NumPy.
    parts = (checks.array(f"net(X1, X2).{name}", getattr(found, name), *shape).copy() for name in ("nngp", "ntk"))
    return kernels.Kernel(*parts)


def diagonal(net: Network, X: np.ndarray) -> kernels.Kernel:
    if isinstance(net, MLP):
        return kernels.diagonal(net, X)
    blocks = [between(net, X[rows], X[rows]) for rows in slices(len(X), _ROWS)]
    return kernels.Kernel(*(np.concatenate([getattr(b, name).diagonal() for b in blocks]) for name in ("nngp", "ntk")))


def blocks(
    net: Network, X: np.ndarray, X_test: np.ndarray, full_cov: bool
) -> tuple[kernels.Kernel, kernels.Kernel, kernels.Kernel]:
    """The kernels on X, between X and X_test, and on X_test or, without `full_cov`, of each of its points."""
    train, across = between(net, X, X), between(net, X, X_test)
    return train, across, between(net, X_test, X_test) if full_cov else diagonal(net, X_test)


def points(
    net: Network, X: ArrayLike, X_test: ArrayLike, name: str = "X_test"
) -> tuple[Float[np.ndarray, "n *shape"], Float[np.ndarray, "T *shape"]]:
    """Training points, and test points or those called `name`, as arrays of a shape that the network takes."""
    if not (isinstance(net, MLP) or callable(net)):
        raise ValueError(f"net = {net!r}: give an rndlib.MLP, or a function net(X1, X2) that returns nngp and ntk")
    train = checks.points("X", X, (net.in_dim,) if isinstance(net, MLP) else None)
    return train, checks.points(name, X_test, train.shape[1:])


def inputs(
    net: Network,
    X: ArrayLike,
    y: ArrayLike | None,
    X_test: ArrayLike,
    time: float,
    learning_rate: float | None,
    noise_std: float,
    labels: str = "y",
) -> tuple[Float[np.ndarray, "n *shape"], Float[np.ndarray, " n"], Float[np.ndarray, "T *shape"], float]:
    """The arrays and the time, all arguments checked; zeros as labels for None."""
    train, tests = points(net, X, X_test)
    targets = np.zeros(len(train)) if y is None else checks.labels(labels, y, len(train))
    noise_std = checks.non_negative("noise_std", noise_std)
    if noise_std * noise_std == inf:
        raise ValueError(f"noise_std = {noise_std!r}: its square is beyond float64; give a smaller one")
    if checks.duration("time", time) == inf and noise_std == 0:
        checks.distinct(train)
    if learning_rate is not None:
        checks.positive("learning_rate", learning_rate)
    return train, targets, tests, float(time)


def discounts(gamma: float, terminal: ArrayLike | None, X_next: np.ndarray, n: int) -> Float[np.ndarray, " n"]:
    """gamma for each of n transitions, to the states `X_next`, and 0 for those that are terminal (N,)."""
    checks.require(len(X_next) == n, f"X_next has {len(X_next)} rows: give {n}, one for each of X")
    ends = np.zeros(n) if terminal is None else checks.labels("terminal", np.asarray(terminal, float), n)
    checks.require(bool(np.isin(ends, (0, 1)).all()), "terminal has other entries than 0 and 1: give booleans")
    return checks.non_negative("gamma", gamma) * (1 - ends)
