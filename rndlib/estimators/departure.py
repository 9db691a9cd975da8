"""How far a fit is from its theorem, measured on its own networks.

The theorems are about networks that are linear in their parameters, with the tangent kernel of infinite width. The
functions that such networks would have after training, from the same initial functions, are known in closed form
(control variates). Let V be the variance that the fit reports, P that of these linear networks, and L that of the law.
The factor by which V is off is the mean of V / L over points, divided by that of P / L: the Monte-Carlo error of few
heads or members is nearly the same in both. The theorems of the Bayesian methods are about convergence, so a training
that ends before has the factor L_t / L as well.

The remaining error comes from how far the parameters move. From a residual r at the start, training moves those of a
linear network by

    ||d theta||^2 = v' Theta v,    v = (Theta + noise_std^2 I)^-1 r    at convergence,

while each starts at N(0, 1). For residuals that are drawn from the prior N(0, Theta) this is N. It is much
larger for labels that are large compared with the prior, or that need small eigenvalues of the kernel. The movements
of heads on one network add up.
"""

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from rndlib.estimators.automatic import limit
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.theory.dynamics import carried, covariance, gain
from rndlib.theory.kernels import Kernel
from rndlib.training.probes import probes
from rndlib.training.solvers import GradientDescent, GradientFlow, StochasticGradient

TOLERATED = 0.1
"""Largest tolerated distance of the factor from 1."""

PROBES, NETWORKS, MANY_DRAWS = 256, 64, 16
"""Numbers of points and of networks that are enough to measure it, and of a user's networks whose tangent kernels are
averaged for it: with 4, the factor is off by up to a tenth for that alone."""

MOST_MEASURED = 2000
"""Points up to which it is measured where training itself forms no kernel."""

_BODIES = 4  # from so many on, the interval is over bodies; of fewer, over their heads
_CLOSE = 0.05  # the noise, over the size of the labels, that shows whether they ask most of a nearly singular kernel
_ROUNDING = 1e-6  # of the functions at the start: smaller ones are numerical error

Cause = Literal["width", "heads per width", "label scale", "time", "learning rate", "conditioning"]
Functions = Float[np.ndarray, "bodies heads _"]

REMEDIES: dict[Cause, str] = {
    "time": "train to convergence, or {rival}",
    "learning rate": "give at most half of 2 / lambda_max = {edge:.2g}, or GradientFlow()",
    "width": "widen the network, or {rival}",
    "heads per width": "{rival}, fewer heads per network, or a wider one",
    "label scale": "divide y by {scale:.2g} or more, widen the network, or {rival}",
    "conditioning": "drop points that nearly repeat others, give more noise_std where it is offered, or {rival}",
}


class DepartureWarning(UserWarning):
    """The variance of a fit differs by more than 10 % from its theorem.

    >>> import warnings
    >>> from rndlib import MLP, DeepEnsemble, DepartureWarning, datasets
    >>> data = datasets.toy(0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = DeepEnsemble(MLP(3, width=16), 8).fit(data.X, data.y)
    >>> DepartureWarning in [warning.category for warning in caught]
    True
    """


@dataclass(frozen=True)
class Departure:
    """How far a fit is from its theorem, over probe points of the training distribution.

    factor: The reported variance over the one that the theorem predicts from the same initial weights.
    low, high: Its 95 % interval over members, networks or heads; 0 and infinity where they are too few for one.
    mean: Squared distance of the mean estimate from the theorem's, over the theorem's variance; 0 where there is none.
    departs: Whether the factor differs from 1 by more than 10 % and its interval excludes 1, or `mean` is significantly
        above 0.1.
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

    def __str__(self) -> str:
        interval = f"95 %: {self.low:.3g} to {self.high:.3g}" if self.high < inf else "too few networks for an interval"
        found = f"the variance is {self.factor:.3g} times ({interval}) that of the theorem"
        if self.mean > TOLERATED:
            found += f", and {self.factor + self.mean:.3g} times with the squared error of the mean"
        if self.cause is None:
            return found
        reason = "because of" if self.departs else "by chance or because of"
        return f"{found}, {reason} {self.cause}: {self.remedy}"


def of(model: Any, X: Float[np.ndarray, "n *shape"]) -> tuple[Departure | None, tuple[str, ...]]:
    """The departure of a model whose networks a solver has just trained on X, or None and why it is not measured.

    Of several outputs, the largest.
    """
    solver, n, net, y, trained = model.solver or GradientFlow(), len(X), model.net_, model._labels, model._trained
    own, rnd = not isinstance(net, MLP), hasattr(model, "errors")
    if not net.hidden_parameters:
        return None, ()  # the network is linear in its parameters
    if isinstance(solver, StochasticGradient) and not model._bayesian:
        return None, ("Not compared with the theorem: minibatches have no training time that it could refer to.",)
    if n > MOST_MEASURED and (model._linear or not isinstance(solver, GradientFlow)):
        return None, (f"Not compared with the theorem, which takes kernels of {n} x {n} numbers.",)
    points = probes(X, own)
    points = points[:: -(-len(points) // (PROBES // 4 if own else PROBES))]
    places, before, after = np.concatenate([X, points]), [], []
    for _, drawn, params in trained.blocks[: -(-NETWORKS // len(trained.blocks[0].bodies))]:
        values = model._start(drawn, places)
        if drawn.offsets is not None:
            values[:, :, :n] += model._noise * np.swapaxes(drawn.offsets, 1, 2)
        before.append(values)
        after.append(model._fit.values(model, points, drawn, params))
    before, after = (np.concatenate(each)[: trained.bodies] for each in (before, after))
    means = model._fit.means(model, points)[0] if rnd and y is not None else None
    try:
        kernel = reference.between(limit(net, MANY_DRAWS), places, places)
        each = [
            measure(
                "error" if rnd else "ensemble",
                before if rnd else before[:, [output]],
                after if rnd else after[:, [output]],
                kernel,
                bayesian=model._bayesian,
                y=None if y is None else y[:, output],
                noise_std=model._noise,
                time=getattr(solver, "time", inf),
                learning_rate=solver.learning_rate if isinstance(solver, GradientDescent) else None,
                mean=None if means is None else means[output],
            )
            for output in range(1 if y is None else y.shape[1])
        ]
    except ValueError as error:  # an activation whose kernel is not known, or a kernel that is singular in float64
        return None, (f"Not compared with the theorem: {error}.",)
    return max(each, key=lambda found: (found.departs, max(abs(log(max(found.factor, 1e-300))), found.mean))), ()


def measure(
    kind: Literal["ensemble", "error"],
    before: Functions,
    trained: Functions,
    kernel: Kernel,
    *,
    bayesian: bool = False,
    y: Float[np.ndarray, " n"] | None = None,
    noise_std: float = 0.0,
    time: float = inf,
    learning_rate: float | None = None,
    mean: Float[np.ndarray, " T"] | None = None,
) -> Departure:
    """The departure of a fit, from its functions before and after training at N training points and T probe points.

    `kind` is what the variance is of: the sample variance over bodies of one head, or the mean square over all heads,
    or half of it. `before` is at X, with the jitter of noisy targets, and then at the probe points; `trained` at the
    probe points. Of RND, they are errors u - g. `kernel` has those of the limit, without noise, between the same N + T
    points. `bayesian` functions start with the covariance of the NTK, and their theorem is about the end of training;
    others with that of the NNGP, and theirs holds at any time. `y` (N,) are the labels of an ensemble, or of the `mean`
    estimate (T,) at the probe points, by a network that is started at 0. `learning_rate` is that of gradient descent;
    None is gradient flow.

    Raises a ValueError if the kernel on X is singular, and training went on for long enough for this to matter.
    """
    n, rnd = before.shape[2] - trained.shape[2], kind == "error"
    labels = np.zeros(n) if y is None or (rnd and mean is None) else y
    on_X, at_probes = before[:, :, :n], before[:, :, n:]
    initial, noise = kernel.ntk if bayesian else kernel.nngp, noise_std**2 * np.eye(n)
    theta, across, prior = kernel.ntk[:n, :n] + noise, kernel.ntk[:n, n:], initial[:n, :n] + noise * bayesian
    top = float(np.linalg.norm(theta, 2)) if learning_rate else 0.0
    unstable = learning_rate is not None and learning_rate * top >= 2  # in the limit, only smaller steps train
    rate = None if unstable else learning_rate

    # The gain between X and the probe points, and v of the errors at the start and of the labels.
    sources = np.concatenate([across, on_X.reshape(-1, n).T, labels[:, None]], axis=1)
    G, v = np.split(gain(theta, sources, time, rate), [across.shape[1]], axis=1)
    G_end = _at_convergence(theta, across) if bayesian and (time < inf or rate is not None) else G

    def law(G: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " T"]:
        at = initial.diagonal()[n:]
        found = covariance(G, prior, initial[:n, n:], at)
        return np.maximum(found, 0) + _ROUNDING**2 * (float(np.mean(at)) or 1.0)

    # The factor, and the squared error of the mean.
    variance, linear = law(G_end), carried(G, on_X - (0 if rnd else labels), at_probes)
    early, late = float(np.mean(law(G) / variance)), float(np.mean(((G - G_end).T @ labels) ** 2 / variance))
    nonlinear, *interval = _ratio(kind == "ensemble", trained / np.sqrt(variance), linear / np.sqrt(variance))
    factor, low, high = (early * each for each in (nonlinear, *interval))
    off, sure = 0.0, True
    if not rnd:
        off, sure = _offset((trained - linear)[:, 0] / np.sqrt(variance))
    elif mean is not None:
        off = float(np.mean((mean - G.T @ labels) ** 2 / variance))
    departs = abs(factor - 1) > TOLERATED and not low <= 1 <= high
    departs |= off + late > TOLERATED and (sure or late > TOLERATED)
    if abs(factor - 1) <= TOLERATED and off + late <= TOLERATED:
        return Departure(factor, low, high, off + late, departs)

    # What contributes most: the end of training, or else what moves the parameters most.
    spread = abs(nonlinear - 1) * early
    cause: Cause
    if unstable or abs(early - 1) + late > spread + off:
        # Large steps leave the largest mode, and a short time the smallest.
        coarse = learning_rate is not None and abs(1 - learning_rate * top) ** round(time / learning_rate) > exp(-1)
        cause = "learning rate" if coarse else "time"
    else:

        def moved(v: Float[np.ndarray, "n columns"]) -> float:
            return float(np.mean(np.einsum("nc,nc->c", v, kernel.ntk[:n, :n] @ v)))

        of_labels = off > spread or not rnd
        from_start = 0.0 if rnd and of_labels else moved(v[:, :-1])
        from_labels = moved(v[:, -1:]) if of_labels else 0.0
        shares: dict[Cause, float] = {
            "width": from_start + min(from_labels, n),
            "heads per width": (before.shape[1] - 1) * from_start,
            "label scale": from_labels - n,
        }
        cause = max(shares, key=lambda cause: shares[cause])
        if cause == "label scale":
            blurred = theta + _CLOSE**2 * np.trace(theta) / n * np.eye(n)
            if moved(gain(blurred, labels[:, None], time, None)) - n < shares["width"]:
                cause = "conditioning"
    remedy = REMEDIES[cause].format(
        rival="give linearised=True" if rnd else f"take {'Bayesian' if bayesian else ''}RND(linearised=True)",
        edge=2 / top if top else inf,
        # Where kernels differ among networks, the variance has the labels' square; where labels move them all, the
        # fourth power at least.
        scale=max((spread / TOLERATED) ** (1 / 2), (off / TOLERATED) ** (1 / 4)),
    )
    return Departure(factor, low, high, off + late, departs, cause, remedy)


def _at_convergence(theta: Float[np.ndarray, "n n"], C: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n T"]:
    """The gain at the end of training; that of the least noise which float64 resolves, if theta is singular."""
    try:
        return gain(theta, C, inf, None)
    except ValueError:
        least = 10 * len(theta) * np.finfo(float).eps * np.trace(theta)
        return gain(theta + least * np.eye(len(theta)), C, inf, None)


def _ratio(ensemble: bool, trained: Functions, linear: Functions) -> tuple[float, float, float]:
    """Variance of trained functions over that of linear ones, each the mean over points, with its 95 % interval.

    The interval is by the jackknife, on the logarithm, over bodies, or over the heads of few.
    """
    bodies, heads, places = trained.shape
    units = np.stack([trained, linear]).reshape(2, bodies if bodies >= _BODIES else bodies * heads, -1, places)

    def ratio(of: Float[np.ndarray, "2 units each T"]) -> float:
        sizes = of.var(axis=1, ddof=1) if ensemble else of**2
        return float(np.divide(*sizes.reshape(2, -1).mean(axis=1) + _ROUNDING**2))

    count = units.shape[1]
    if ensemble and count < 2:
        return 1.0, 0.0, inf  # one network has no variance
    factor = ratio(units)
    if count < (3 if ensemble else 2):
        return factor, 0.0, inf
    without = [log(ratio(np.delete(units, unit, axis=1))) for unit in range(count)]
    reach = exp(min(sqrt((count - 1) * float(np.var(without))) * float(stats.t.ppf(0.975, count - 1)), 700.0))
    return factor, factor / reach, factor * reach


def _offset(moved: Float[np.ndarray, "members T"]) -> tuple[float, bool]:
    """The squared mean over members, its own sampling error subtracted, and whether that is not by chance (F test)."""
    members = len(moved)
    if members < 2:
        return 0.0, False
    mean, error = float(np.mean(moved.mean(axis=0) ** 2)), float(np.mean(moved.var(axis=0, ddof=1))) / members
    return max(mean - error, 0.0), mean > float(stats.f.ppf(0.95, 1, members - 1)) * error
