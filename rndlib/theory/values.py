"""The law of value functions that are trained by temporal differences, and of the RND error whose target is a value.

A transition leads from x to x' with a reward r; its value function should have f(x) = r + gamma f(x'), or r if x is
terminal. Semi-gradient flow treats f(x') as a label. With D = gamma on the diagonal, 0 for terminal transitions, and
delta = f(X) - D f(X') - r,

    d f(z)/dt = -Theta_zX delta,    d delta/dt = -A delta,    A = Theta_XX - D Theta_X'X.

A is not symmetric. If all its eigenvalues have positive real parts, delta vanishes, and f ends at the fixed point
f_0(z) - Theta_zX A^-1 delta_0: the map of `rndlib.theory.dynamics` for errors at X and X', with the gain
M = (I, -D)^T A^-T Theta_Xz. Otherwise training diverges, although the formula still has a value.
"""

import numpy as np
from numpy.typing import ArrayLike

from rndlib.theory import reference
from rndlib.theory.dynamics import covariance, fixed_point
from rndlib.theory.gaussian import Gaussian, mended
from rndlib.theory.reference import Network


def value_ensemble(
    net: Network,
    X: ArrayLike,
    X_next: ArrayLike,
    rewards: ArrayLike,
    gamma: float,
    X_test: ArrayLike,
    terminal: ArrayLike | None = None,
    full_cov: bool = False,
) -> Gaussian:
    """Law of a network's value function, trained by temporal differences to the fixed point, over initialisations.

    X, X_next: States (N, in_dim), no row of X twice, and the states that follow them. rewards: (N,).
    gamma: Discount factor, 0 or more. 0 is `ensemble` with labels `rewards`.
    terminal: (N,), whether the transition ends its episode, so that nothing follows; None is never.

    Returns mean and variance at `X_test` (T, in_dim), in the units of the value, and with `full_cov` the covariance.

    Raises
    ------
    ValueError: An eigenvalue of A has no positive real part, so that training diverges; or as `ensemble`.

    >>> import numpy as np
    >>> from rndlib import MLP, laws
    >>> chain = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
    >>> law = laws.value_ensemble(MLP(2), chain[:2], chain[1:], [1.0, 1.0], 0.5, chain, terminal=[False, True])
    >>> law.mean.round(3), law.var.round(3)
    (array([ 1.5  ,  1.   , -0.396]), array([0.   , 0.   , 0.795]))
    """
    X, rewards, X_test, _ = reference.inputs(net, X, rewards, X_test, np.inf, None, 0.0, labels="rewards")
    _, following = reference.points(net, X, X_next, "X_next")
    n, both = len(X), np.concatenate([X, following])
    discount = reference.discounts(gamma, terminal, following, n)[:, None]
    on, across, test = reference.blocks(net, both, X_test, full_cov)
    A = on.ntk[:n, :n] - discount * on.ntk[n:, :n]
    G = fixed_point(A, across.ntk[:n], gamma, float(np.abs(on.ntk).max()))
    cov = covariance(np.concatenate([G, -discount * G]), on.nngp, across.nngp, test.nngp)
    return mended(G.T @ rewards, test.nngp, cov)


def value_rnd_error(
    net: Network,
    X: ArrayLike,
    X_next: ArrayLike,
    gamma: float,
    X_test: ArrayLike,
    terminal: ArrayLike | None = None,
    full_cov: bool = False,
) -> Gaussian:
    """Law of the RND error u - g of one head, u trained by temporal differences with the rewards g(x) - gamma g(x').

    The fixed point of these rewards is the random target g itself. The mean is zero, and the covariance twice that of
    `value_ensemble`, whatever its rewards: half the squared error is the variance of an ensemble of value functions
    (Theorem 3.1 for values; compare universal value-function uncertainties, arXiv 2505.21119). Arguments, result and
    errors as there. `gamma` of 0 is `rnd_error`.

    >>> import numpy as np
    >>> from rndlib import MLP, laws
    >>> chain = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
    >>> laws.value_rnd_error(MLP(2), chain[:2], chain[1:], 0.5, chain, terminal=[False, True]).var.round(3)
    array([0.   , 0.   , 1.591])
    """
    return value_ensemble(net, X, X_next, np.zeros(np.shape(X)[:1]), gamma, X_test, terminal, full_cov).doubled()
