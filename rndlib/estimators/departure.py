"""How far a fit is from its theorem, measured on the fit's own networks.

The theorems are about networks that are linear in their parameters, with the tangent kernel of infinite width. What
training would make of a fit's own initial functions if its networks were such is known in closed form (control
variates, `rndlib.training.linear.partners`). Let V be the variance that the fit reports, P that of these linear
networks, and L that of the law. The factor by which V is off is the mean of V / L over points, divided by that of
P / L: the Monte-Carlo error of few heads or members is nearly the same in both. The theorems of the Bayesian methods
are about convergence, so a training that ends before has the factor L_t / L as well.

What else there is has a cause in how far the parameters move. From a residual r at the start, training moves those of a
linear network by

    ||d theta||^2 = v' Theta v,    v = (Theta + noise_std^2 I)^-1 r    at convergence,

while each starts at N(0, 1). For residuals that are drawn from the prior N(0, Theta) this is N. Labels for which it is
much more are large beside the prior, or ask most of a nearly singular kernel. Heads that share a body add up.
"""

import warnings
from dataclasses import dataclass
from functools import partial
from math import exp, inf, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.theory.dynamics import gain
from rndlib.theory.kernels import Kernel
from rndlib.training.flow.integration import _around

TOLERATED = 0.1
"""Distance of the factor from 1 that is no departure."""

PROBES, NETWORKS = 256, 64
"""Numbers of points and of networks that are enough to measure it."""

_BODIES = 4  # from so many on, the interval is over bodies; of fewer, over their heads
_CLOSE = 0.05  # the noise, over the size of the labels, that shows whether they ask most of a nearly singular kernel
_ROUNDING = 1e-6  # of the functions at the start: smaller ones are numerical error

Kind = Literal["ensemble", "error"]
Cause = Literal["width", "heads per width", "label scale", "time", "learning rate", "conditioning"]
Functions = Float[np.ndarray, "bodies heads _"]


class DepartureWarning(UserWarning):
    """The variance that a fit reports is off by more than a tenth of what its theorem says.

    >>> import warnings
    >>> from rndlib.estimators.departure import Departure, DepartureWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DepartureWarning)
    ...     Departure(1.3, 1.2, 1.4, departs=True, cause="width", remedy="widen the network").warn()
    Traceback (most recent call last):
    rndlib.estimators.departure.DepartureWarning: the variance is 1.3 times (95 %: 1.2 to 1.4) that of the theorem, because of width: widen the network
    """  # noqa: E501 - a message is one line


@dataclass(frozen=True)
class Departure:
    """How far a fit is from its theorem, over probe points of the training distribution.

    factor: The variance that is reported, over what the theorem makes of the same start.
    low, high: Its 95 % interval over members, bodies or heads; 0 and infinity where they are too few for one.
    mean: Squared distance of the mean estimate from the theorem's, over the theorem's variance; 0 where there is none.
    departs: Whether the factor is more than a tenth from 1 and its interval excludes 1, or the mean is more than a
        tenth and not by chance.
    cause: What contributes most, or None where factor and mean are within a tenth of 1 and 0.
    remedy: What to change, or an empty string.

    >>> from rndlib.estimators.departure import Departure
    >>> print(Departure(0.98, 0.95, 1.01))
    the variance is 0.98 times (95 %: 0.95 to 1.01) that of the theorem
    """

    factor: float
    low: float = 0.0
    high: float = inf
    mean: float = 0.0
    departs: bool = False
    cause: Cause | None = None
    remedy: str = ""

    @property
    def spread(self) -> float:
        """Mean square of samples about the theorem's mean, over the theorem's variance: `factor + mean`.

        >>> from rndlib.estimators.departure import Departure
        >>> Departure(0.97, mean=0.5).spread
        1.47
        """
        return self.factor + self.mean

    def warn(self, stacklevel: int = 1) -> None:
        """Warn with `DepartureWarning` if it `departs`; `stacklevel` counts from the caller, as in `warnings.warn`.

        >>> from rndlib.estimators.departure import Departure
        >>> Departure(1.05, 1.02, 1.08).warn()
        """
        if self.departs:
            warnings.warn(str(self), DepartureWarning, stacklevel=stacklevel + 1)

    def __str__(self) -> str:
        interval = f"95 %: {self.low:.3g} to {self.high:.3g}" if self.high < inf else "too few networks for an interval"
        found = f"the variance is {self.factor:.3g} times ({interval}) that of the theorem"
        if self.mean > TOLERATED:
            found += f", and {self.spread:.3g} times with the squared error of the mean"
        if self.cause is None:
            return found
        reason = "because of" if self.departs else "by chance or because of"
        return f"{found}, {reason} {self.cause}: {self.remedy}"


def probes(
    X: Float[np.ndarray, "n *shape"], most: int = PROBES, own: bool = False
) -> Float[np.ndarray, "places *shape"]:
    """At most so many points with about the mean and covariance of X (N, *shape), but not those points themselves.

    For a user's `own` network, each coordinate keeps its values, which are permuted over the points.

    >>> import numpy as np
    >>> from rndlib.estimators.departure import probes
    >>> probes(np.arange(12.0).reshape(6, 2)).shape, probes(np.arange(2000.0)[:, None], most=100).shape
    ((18, 2), (100, 1))
    """
    around = _around(X, own)
    return around[:: -(-len(around) // most)]


def measure(
    kind: Kind,
    start: Functions,
    trained: Functions,
    train: Kernel,
    across: Kernel,
    probe: Kernel,
    *,
    bayesian: bool = False,
    y: Float[np.ndarray, " n"] | None = None,
    noise_std: float = 0.0,
    offsets: Float[np.ndarray, "bodies n heads"] | None = None,
    time: float = inf,
    learning_rate: float | None = None,
    heads: int | None = None,
    mean: Float[np.ndarray, " T"] | None = None,
) -> Departure:
    """The departure of a fit, from its functions before and after training at N training points and T probe points.

    Parameters
    ----------
    kind: "ensemble" if the variance is the sample variance over bodies of one head; "error" if it is the mean square
        over all heads, or half of it.
    start: Functions before training, (bodies, heads, N + T), at X and then at the probe points; errors u - g of RND.
    trained: The same after training at the probe points, (bodies, heads, T).
    train, across, probe: Kernels of the limit on X, (N, N); between X and the probe points, (N, T); and their diagonal
        at the probe points, (T,). Noise is not in them.
    bayesian: Whether the functions start with the covariance of the NTK, and the theorem is about the end of training.
        If not, it is that of the NNGP, and the theorem holds at any time.
    y: Labels (N,) of an ensemble, or of the mean estimate.
    noise_std, offsets: Noise of the targets, and its draws xi (bodies, N, heads) if they are jittered.
    time, learning_rate: Training time, and the rate of gradient descent; None for gradient flow.
    heads: Number of heads on each body, if `start` has only some of them.
    mean: Mean estimate of Bayesian RND at the probe points, (T,), by a network that is trained on y and started at 0.

    Raises
    ------
    ValueError: The kernel on X is singular, and training went on for long enough for this to matter.

    >>> import numpy as np
    >>> from rndlib import MLP, RND, datasets, kernels
    >>> from rndlib.estimators.departure import measure, probes
    >>> net, X = MLP(3, width=1024), datasets.toy(seed=0).X
    >>> model, points = RND(net, heads=4, bodies=8).fit(X), probes(X)
    >>> start = np.subtract(*model.initial(np.concatenate([X, points]))).reshape(8, 4, -1)
    >>> trained = model.errors(points).reshape(8, 4, -1)
    >>> across, probe = kernels.kernel(net, X, points), kernels.diagonal(net, points)
    >>> measure("error", start, trained, kernels.kernel(net, X), across, probe).departs
    False
    """
    n, rnd, sharing = len(train.ntk), kind == "error", heads or start.shape[1]
    labels = np.zeros(n) if y is None or (rnd and mean is None) else y
    errors = start[:, :, :n]
    if offsets is not None:
        errors = errors + noise_std * np.swapaxes(offsets, 1, 2)
    residual = errors if rnd else errors - labels
    noise = noise_std**2 * np.eye(n)
    theta, prior = train.ntk + noise, (train.ntk + noise if bayesian else train.nngp)
    between, at = (part.ntk if bayesian else part.nngp for part in (across, probe))
    top = float(np.linalg.norm(theta, 2)) if learning_rate else 0.0
    unstable = learning_rate is not None and learning_rate * top >= 2  # in the limit, only smaller steps train
    rate = None if unstable else learning_rate

    # The gain between X and the probe points, and v of the errors at the start and of the labels.
    sources = np.concatenate([across.ntk, errors.reshape(-1, n).T, labels[:, None]], axis=1)
    G, v = np.split(gain(theta, sources, time, rate), [across.ntk.shape[1]], axis=1)
    G_end = _at_convergence(theta, across.ntk) if bayesian and (time < inf or rate is not None) else G

    def law(G: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " T"]:
        rounding = _ROUNDING**2 * (float(np.mean(at)) or 1.0)
        return np.maximum(at + np.einsum("nt,nt->t", G, prior @ G - 2 * between), 0) + rounding

    variance = law(G_end)
    early = float(np.mean(law(G) / variance))
    linear = start[:, :, n:] - residual @ G
    nonlinear, *interval = _ratio(kind, trained / np.sqrt(variance), linear / np.sqrt(variance))
    factor, low, high = (early * each for each in (nonlinear, *interval))

    off, late, sure = 0.0, float(np.mean(((G - G_end).T @ labels) ** 2 / variance)), True
    if not rnd:
        off, sure = _offset((trained - linear)[:, 0] / np.sqrt(variance))
    elif mean is not None:
        off = float(np.mean((mean - G.T @ labels) ** 2 / variance))
    departs = abs(factor - 1) > TOLERATED and not low <= 1 <= high
    departs |= off + late > TOLERATED and (sure or late > TOLERATED)
    found = partial(Departure, factor, low, high, off + late, departs)
    if abs(factor - 1) <= TOLERATED and off + late <= TOLERATED:
        return found()

    rival = "give linearised=True" if rnd else f"take {'Bayesian' if bayesian else ''}RND(linearised=True)"
    spread = abs(nonlinear - 1) * early
    if unstable or abs(early - 1) + late > spread + off:
        # Large steps leave the largest mode, and a short time the smallest.
        if learning_rate is not None and abs(1 - learning_rate * top) ** round(time / learning_rate) > exp(-1):
            return found("learning rate", f"give at most half of 2 / lambda_max = {2 / top:.2g}, or GradientFlow()")
        return found("time", f"train to convergence, or {rival}")

    def moved(v: Float[np.ndarray, "n columns"]) -> float:
        return float(np.mean(np.einsum("nc,nc->c", v, train.ntk @ v)))

    of_labels = off > spread or not rnd
    from_start = 0.0 if rnd and of_labels else moved(v[:, :-1])
    from_labels = moved(v[:, -1:]) if of_labels else 0.0
    shares: dict[Cause, float] = {
        "width": from_start + min(from_labels, n),
        "heads per width": (sharing - 1) * from_start,
        "label scale": from_labels - n,
    }
    cause = max(shares, key=lambda cause: shares[cause])
    if cause == "label scale":
        blurred = theta + _CLOSE**2 * np.trace(theta) / n * np.eye(n)
        if moved(gain(blurred, labels[:, None], time, None)) - n < shares["width"]:
            cause = "conditioning"
    # Where kernels differ among networks, the variance has the labels' square; where labels move them all, the fourth
    # power at least.
    scale = max((spread / TOLERATED) ** (1 / 2), (off / TOLERATED) ** (1 / 4))
    remedies: dict[Cause, str] = {
        "width": f"widen the network, or {rival}",
        "heads per width": f"{rival}, fewer heads per body, or a wider network",
        "label scale": f"divide y by {scale:.2g} or more, widen the network, or {rival}",
        "conditioning": f"drop points that nearly repeat others, give more noise_std where it is offered, or {rival}",
    }
    return found(cause, remedies[cause])


def _at_convergence(theta: Float[np.ndarray, "n n"], C: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n T"]:
    """The gain at the end of training; that of the least noise which float64 resolves, if theta is singular."""
    try:
        return gain(theta, C, inf, None)
    except ValueError:
        least = 10 * len(theta) * np.finfo(float).eps * np.trace(theta)
        return gain(theta + least * np.eye(len(theta)), C, inf, None)


def _ratio(kind: Kind, trained: Functions, linear: Functions) -> tuple[float, float, float]:
    """Variance of trained functions over that of linear ones, each the mean over points, with its 95 % interval.

    The interval is by the jackknife, on the logarithm.
    """
    squares = np.stack([_squares(kind, of) for of in (trained, linear)])  # (2, bodies, heads)
    units = squares.mean(axis=2) if squares.shape[1] >= _BODIES else squares.reshape(2, -1)
    count, ddof = units.shape[1], int(kind == "ensemble")
    # A sample variance is the sum of squared deviations over M - 1. Without member i, it is that sum, less
    # M / (M - 1) times the square of i, over M - 2.
    total, weight = units.sum(axis=1, keepdims=True), count / (count - ddof) if count > ddof else 1.0
    variance, trail = total / max(count - ddof, 1) + _ROUNDING**2, count - 1 - ddof
    factor = float(variance[0, 0] / variance[1, 0])
    if trail < 1:
        return factor, 0.0, inf
    without = np.log(np.maximum(total - weight * units, 0) / trail + _ROUNDING**2)
    each = without[0] - without[1]
    error = sqrt((count - 1) / count * float(np.sum((each - each.mean()) ** 2)))
    reach = exp(min(error * float(stats.t.ppf(0.975, count - 1)), 700.0))
    return factor, factor / reach, factor * reach


def _squares(kind: Kind, values: Functions) -> Float[np.ndarray, "bodies heads"]:
    """The mean over points of the squares that the variance is made of."""
    centred = values - values.mean(axis=(0, 1)) if kind == "ensemble" else values
    return np.mean(centred**2, axis=2)


def _offset(moved: Float[np.ndarray, "members T"]) -> tuple[float, bool]:
    """The squared mean over members, its own sampling error subtracted, and whether that is not by chance (F test)."""
    members = len(moved)
    if members < 2:
        return 0.0, False
    mean, error = float(np.mean(moved.mean(axis=0) ** 2)), float(np.mean(moved.var(axis=0, ddof=1))) / members
    return max(mean - error, 0.0), mean > float(stats.f.ppf(0.95, 1, members - 1)) * error
