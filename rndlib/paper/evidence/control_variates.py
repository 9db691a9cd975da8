"""Samples of trained networks with control variates, with which statistics need fewer networks.

The control variate of a network is the function that training would give if the network were linear in its parameters.
From its own initial function f_0 this is, by Eq. 24 with the gain G of `rndlib.theory.dynamics` and the kernels of
infinite width,

    p(x) = f_0(x) - G^T (f_0(X) - y + noise_std xi).

A wide network and its control variate are nearly the same function, and the latter needs no training. So n networks are
trained, and control variates are computed for them and for m heads of other, untrained networks. With z for a trained
function, p for its control variate and p' for that of an untrained head, a mean E q(z) is estimated by

    mean over n of q(z) - c q(p), plus mean over m of c q(p'),    c = m / (n + m).

p and p' have the same distribution, so this is unbiased at any depth and width, whether or not the theorems hold. If z
were p, its Monte-Carlo error would be that of n + m trained networks.

(For one hidden layer the mean of q(p) is known from the theorem. With it in place of the mean over m, the error would
be smaller still. But then a mistake that networks share with their control variates would cancel: a target that is the
predictor itself makes both zero, and the estimate would be the theory.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import clone

from rndlib import checks
from rndlib.theory import reference
from rndlib.theory.dynamics import carried, gain
from rndlib.theory.reference import Network
from rndlib.training.solvers import GradientFlow
from rndlib.training.weights import draw_offsets


@dataclass(frozen=True)
class Sample:
    """`values` of independent networks, with their control variates `own`, and those of heads of untrained networks.

    Every statistic takes a sample. An array is one without control variates.
    """

    values: Float[np.ndarray, "networks *places"]
    own: Float[np.ndarray, "networks *places"] | None = None
    others: Float[np.ndarray, "bodies heads *places"] | None = None

    @classmethod
    def of(cls, values: Any) -> "Sample":
        """A sample, which may be an array of values (networks, *places)."""
        return values if isinstance(values, cls) else cls(np.asarray(values, float))

    def __len__(self) -> int:
        return len(self.values)

    def each(self, function: Callable[[np.ndarray], np.ndarray]) -> "Sample":
        """The sample with `function` applied to the last axes of its values and of its control variates."""
        own, others = (None if part is None else function(part) for part in (self.own, self.others))
        return Sample(function(self.values), own, others)

    def at(self, points: Any) -> "Sample":
        """The sample at some of its points, which are its last axis."""
        return self.each(lambda values: values[..., points])

    def by_network(self, heads: int) -> "Sample":
        """All heads of a network together, (networks, heads, T), from those of one network after the other, (., T)."""
        values, own = (
            None if of is None else np.stack(np.split(of, len(of) // heads)) for of in (self.values, self.own)
        )
        return Sample(values, own, None if self.others is None else self.others[:, None])  # pyright: ignore

    def groups(self, each: Callable[[np.ndarray], np.ndarray]) -> list[Float[np.ndarray, "_ ..."]]:
        """Independent groups of networks whose means of `each` add up to an estimate of its mean over networks.

        `each` takes functions (functions, *places), and gives an array of as many rows. The heads of an untrained
        network are dependent: their mean is one row.
        """
        if self.own is None or self.others is None:
            return [each(self.values)]
        bodies, heads = self.others.shape[:2]
        further = each(self.others.reshape(bodies * heads, *self.values.shape[1:]))
        further = further.reshape(bodies, heads, *further.shape[1:]).mean(axis=1)
        return [each(self.values) - self.share * each(self.own), self.share * further]

    @property
    def share(self) -> float:
        """c = m / (n + m), for n networks and m untrained heads."""
        untrained = 0 if self.others is None else self.others.shape[0] * self.others.shape[1]
        return untrained / (len(self) + untrained)


def joined(samples: Sequence[Sample]) -> Sample:
    """The same networks at the points of several samples, one after the other."""
    values, own, others = zip(*((sample.values, sample.own, sample.others) for sample in samples), strict=True)
    return Sample(*(np.concatenate(parts, axis=-1) for parts in (values, own, others)))


def trained(
    model: Any,
    X: ArrayLike,
    points: ArrayLike,
    y: ArrayLike | None = None,
    untrained: int = 1024,
    heads: int = 32,
    kernel: Network | None = None,
) -> Sample:
    """Fit a model and evaluate its networks, with control variates.

    Parameters
    ----------
    model: An ensemble, whose functions are evaluated, or (Bayesian) RND, whose errors are.
    X, points, y: Training points (N, *shape), test points (T, *shape), and the labels (N,) of an ensemble.
    untrained, heads: Number of untrained networks, >= 2, and of heads on each. Their weights have a seed of their own.
    kernel: Infinite-width kernels of the network, as a function of two arrays of points like those that `laws` takes.
        Those of an `MLP` are known.

    >>> from rndlib import MLP, RND, datasets
    >>> from rndlib.paper.evidence.control_variates import trained
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> errors = trained(RND(MLP(3, width=512), heads=1, bodies=4), data.X, data.X_test, untrained=8)
    >>> bool(abs(errors.own - errors.values).max() < 0.2 * abs(errors.values).max()), errors.others.shape
    (True, (8, 32, 5))
    """
    own = regressions(model, X, points, y, kernel)
    sizes = {"bodies": untrained, "heads": heads} if hasattr(model, "errors") else {"members": untrained}
    further: Any = clone(model)
    further.set_params(seed=int(np.random.SeedSequence(model.seed).generate_state(1)[0]), **sizes)
    others = regressions(further, X, points, y, kernel, heads)
    values = model.fit(X).errors(points) if y is None else model.fit(X, y).functions(points)
    return Sample(values, own, others.reshape(untrained, heads, -1))


def regressions(
    model: Any,
    X: ArrayLike,
    points: ArrayLike,
    y: ArrayLike | None = None,
    kernel: Network | None = None,
    heads: int = 1,
) -> Float[np.ndarray, "functions T"]:
    """The control variates of a model's own networks: kernel regressions from their initial functions or errors.

    Arguments as in `trained`, but `heads` are those of each member of an ensemble, and `kernel` may be a wrong one.
    """
    rnd, solver = hasattr(model, "errors"), model.solver or GradientFlow()
    limit: Any = model.net if kernel is None else kernel
    X, tests = reference.points(limit, X, points)
    n, places, noise_std = len(X), np.concatenate([X, tests]), model.noise_std or 0.0
    start = np.subtract(*model.initial(places)) if rnd else model.initial(places, heads)
    residual = start[:, :n] - (0.0 if y is None else checks.labels("y", y, n))
    if noise_std:
        heads = model.heads if rnd else heads
        xi = draw_offsets(model.seed, range(len(start) // heads), n, heads)
        residual = residual + noise_std * np.swapaxes(xi, 1, 2).reshape(-1, n)
    A, C = (reference.between(limit, X, other).ntk for other in (X, tests))
    rate = getattr(solver, "learning_rate", None)
    return carried(gain(A + noise_std**2 * np.eye(n), C, solver.time, rate), residual, start[:, n:])
