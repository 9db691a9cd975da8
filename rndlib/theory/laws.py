"""The laws of the paper's theorems for infinitely wide networks, at any training time and noise level.

kappa is the NNGP kernel and Theta the NTK (`rndlib.kernels`); X are the N training points, x the T test points.
Training is gradient flow on `1/2 ||f(X) - y||^2` for `time`, or with `learning_rate` gradient descent on it for
`time / learning_rate` steps: the linear map of `rndlib.theory.dynamics`, applied to the covariance of the start. Its
gain G is made of A = Theta_XX + noise_std^2 I.

In place of an `MLP`, every law takes the kernels of any other network: a function `net(X1, X2)` whose result has `nngp`
and `ntk`, each (N1, N2), for points (N, *shape). `partial(kernels.empirical, net)` is one, and so is neural-tangents'
`kernel_fn` with `get=("nngp", "ntk")`.

`stream` has the law after training on one data set after the other; `value_ensemble` and `value_rnd_error` have the
laws of value functions trained by temporal differences.
"""

from dataclasses import replace
from math import inf, log, pi
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rndlib import checks
from rndlib.theory import reference
from rndlib.theory.dynamics import covariance, gain
from rndlib.theory.gaussian import Gaussian, mended
from rndlib.theory.reference import Network
from rndlib.theory.streams import Stage as Stage
from rndlib.theory.streams import stream as stream
from rndlib.theory.values import value_ensemble as value_ensemble
from rndlib.theory.values import value_rnd_error as value_rnd_error

if TYPE_CHECKING:
    from rndlib.prior import Prior


def ensemble(
    net: Network,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    time: float = inf,
    full_cov: bool = False,
    learning_rate: float | None = None,
) -> Gaussian:
    """Law of a network's function after training on `X` (N, in_dim), `y` (N,), over its initialisations.

    `N(G^T y, kappa_xx + G^T kappa_XX G - (G^T kappa_Xx + h.c.))`, without noise (Theorem 2.1, at any training time).
    Time 0 is the law at initialisation.

    Returns mean and variance at `X_test` (T, in_dim), in the units of y, and with `full_cov` the covariance (T, T).
    A variance that is negative by rounding error is set to 0.

    Raises
    ------
    ValueError: X repeats a point or its kernel is singular, and `time` is long enough for this to matter (infinite time
        always is); `learning_rate` is 2 / lambda_max of A or more, or `time` is not a whole number of its steps.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> law = laws.ensemble(net, data.X, data.y, data.X_test)
    >>> law.mean.round(3), law.var.round(3)
    (array([-5.018,  1.032]), array([5.702, 0.026]))
    """
    return _trained(net, X, y, X_test, time, full_cov, learning_rate)


def rnd_error(
    net: Network,
    X: ArrayLike,
    X_test: ArrayLike,
    time: float = inf,
    full_cov: bool = False,
    learning_rate: float | None = None,
) -> Gaussian:
    """Law of the RND error `u - g` of one head, `u` trained on `X` (N, in_dim) to match a fixed random network `g`.

    Its mean is zero, and its covariance is twice that of `ensemble` (Theorem 3.1, at any training time). Arguments,
    result and errors as in `ensemble`.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> (laws.rnd_error(net, data.X, data.X_test).var / laws.ensemble(net, data.X, data.y, data.X_test).var).round(6)
    array([2., 2.])
    """
    return _trained(net, X, None, X_test, time, full_cov, learning_rate).doubled()


def posterior(
    net: Network,
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    noise_std: float = 0.0,
    full_cov: bool = False,
    prior: "Prior | None" = None,
) -> Gaussian:
    """Posterior of `f ~ GP(0, Theta)` at `X_test`, given `y = f(X)` plus noise of standard deviation `noise_std`.

    `N(Theta_xX A^-1 y, Theta_xx - Theta_xX A^-1 Theta_Xx)`, the NTK-GP posterior (Section 4, with the footnote on
    noise). This is the law of f. For a new observation, add `noise_std**2` to the variance. Arguments, result and
    errors as in `ensemble`. With a `prior`, f is that process before the data.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> law = laws.posterior(net, data.X, data.y, data.X_test, noise_std=0.1)
    >>> law.mean.round(3), law.var.round(3)
    (array([-3.328,  0.978]), array([15.769,  0.128]))
    """
    if prior is None:
        return _trained(net, X, y, X_test, inf, full_cov, None, "ntk", noise_std)
    X, y, X_test, _ = reference.inputs(net, X, y, X_test, inf, None, noise_std)
    law = posterior(prior.kernel(net), X, y - prior._mean(X), X_test, noise_std, full_cov)
    return replace(law, mean=law.mean + prior._mean(X_test))


def log_evidence(
    net: Network, X: ArrayLike, y: ArrayLike, noise_std: float = 0.0, prior: "Prior | None" = None
) -> float:
    """log N(y | m(X), Theta_XX + noise_std^2 I) in nats, with the mean m and the covariance Theta of `posterior`.

    >>> from rndlib import MLP, datasets, laws
    >>> data = datasets.toy(seed=0)
    >>> round(laws.log_evidence(MLP(in_dim=3), data.X, data.y, noise_std=0.1), 2)
    -15.8
    """
    X, y, _, _ = reference.inputs(net, X, y, X, inf, None, noise_std)
    if prior is not None:
        net, y = prior.kernel(net), y - prior._mean(X)
    A = reference.between(net, X, X).ntk
    A.flat[:: len(X) + 1] += noise_std**2
    fit = gain(A, y[:, None], inf, None)[:, 0]
    return float(-(y @ fit + np.linalg.slogdet(A)[1] + len(X) * log(2 * pi)) / 2)


def bayesian_rnd_error(
    net: Network,
    X: ArrayLike,
    X_test: ArrayLike,
    time: float = inf,
    noise_std: float = 0.0,
    full_cov: bool = False,
    learning_rate: float | None = None,
) -> Gaussian:
    """Law of the error of Bayesian RND, whose target makes the error at initialisation GP(0, Theta).

    Its mean is zero, its covariance `Theta_xx - Theta_xX A^-1 (I - E^2) Theta_Xx`: at infinite time the covariance of
    `posterior` (Theorem 4.2). With noise, training jitters the targets and adds L2 regularisation towards
    initialisation, both by `noise_std`. Arguments, result and errors as in `ensemble`.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> laws.bayesian_rnd_error(net, data.X, data.X_test, noise_std=0.1).var.round(3)
    array([15.769,  0.128])
    """
    return _trained(net, X, None, X_test, time, full_cov, learning_rate, "ntk", noise_std)


def mean_square(variance: ArrayLike, dof: int) -> Any:
    """`variance / dof * chi2(dof)`: law of the mean square of `dof` independent N(0, variance) numbers.

    With the variance of `ensemble`, this is the law of half the mean squared error of `dof` RND heads, and of the
    sample variance (ddof = 1) of `dof + 1` ensemble members (Theorem 3.4).

    Returns a frozen SciPy distribution, with one entry per entry of `variance`, which must be above 0 (at 0 the law is
    a point mass and has no density).

    >>> from rndlib import laws
    >>> law = laws.mean_square(variance=2.0, dof=512)
    >>> [round(float(quantile), 2) for quantile in law.interval(0.95)]
    [1.76, 2.25]
    """
    dof = checks.whole("dof", dof, at_least=1)
    variance = checks.array("variance", variance, *np.shape(variance))
    if variance.min() <= 0:
        raise ValueError(
            f"variance has an entry of {variance.min():.6g}: give entries above 0, leaving out known points"
        )
    return stats.chi2(dof, scale=variance / dof)


def _trained(
    net: Network,
    X: ArrayLike,
    y: ArrayLike | None,
    X_test: ArrayLike,
    time: float,
    full_cov: bool,
    learning_rate: float | None,
    prior: Literal["nngp", "ntk"] = "nngp",
    noise_std: float = 0.0,
) -> Gaussian:
    """The law of a function or error that starts as GP(0, `prior`); with noise on X, `prior` is the ntk."""
    X, y, X_test, time = reference.inputs(net, X, y, X_test, time, learning_rate, noise_std)
    train, across, test = reference.blocks(net, X, X_test, full_cov)
    train.ntk.flat[:: len(X) + 1] += noise_std**2  # A, and the covariance at the start
    converged = time == inf
    G = gain(train.ntk, across.ntk, time, learning_rate, overwrite=converged)
    XX, Xx, xx = (getattr(kernel, prior) for kernel in (train, across, test))
    return mended(G.T @ y, xx, covariance(G, None if converged and prior == "ntk" else XX, Xx, xx))
