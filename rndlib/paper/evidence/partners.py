"""Partners of trained networks, with which statistics need fewer of them (control variates).

The partner of a network is what training would make of it if it were linear in its parameters. From its own initial
function f_0 this is, by Eq. 24 with the gain G of `rndlib.theory.dynamics` and the kernels of infinite width,

    p(x) = f_0(x) - G^T (f_0(X) - y + noise_std xi).

A wide network and its partner are nearly the same function, and the partner needs no training. So n networks are
trained, and partners are made of them and of m heads of other, untrained bodies. With z for a trained function, p for
its partner and p' for that of an untrained head, a mean E q(z) is estimated by

    mean over n of q(z) - c q(p), plus mean over m of c q(p'),    c = m / (n + m).

Since p and p' have one law, this is unbiased at any depth and width, whether or not the theorems hold. If z were p, its
noise would be that of n + m trained networks. Heads of one body are dependent, so intervals count bodies. (Those over
trained networks take models of one head per body.)

(For one hidden layer the mean of q(p) is known: it is that of the theorem's law. With it in place of the mean over m,
even less noise would be left. But then a mistake would cancel that networks share with their partners: a target that is
the predictor itself makes both zero, and the estimate would be the law.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import clone

from rndlib import checks
from rndlib.estimators import BayesianEnsemble, DeepEnsemble
from rndlib.estimators.rnd import Distillation
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.theory.dynamics import gain
from rndlib.theory.reference import Network
from rndlib.training.linear import partners
from rndlib.training.solvers import GradientDescent, GradientFlow, Solver


@dataclass(frozen=True)
class Partners:
    """Partners of trained networks, `own`, and those of the heads of untrained bodies, `others`."""

    own: Float[np.ndarray, "networks *places"]
    others: Float[np.ndarray, "bodies heads *places"]

    @property
    def share(self) -> float:
        """c = m / (n + m), for the partners of n networks and those of m untrained heads."""
        untrained = self.others.shape[0] * self.others.shape[1]
        return untrained / (len(self.own) + untrained)

    def each(self, function: Callable[[np.ndarray], np.ndarray]) -> "Partners":
        """Both parts changed in the same way, such as at some of the points, which are last."""
        return Partners(function(self.own), function(self.others))

    def half_mean_squares(self, heads: int) -> "Partners":
        """The partners of 1/2 eps-bar^2 of bodies with so many heads each, as `rndlib.paper.fitted.variances` has it.

        `own` (bodies * heads, ...) becomes (bodies, ...), and `others` has one head per body.
        """
        heads = checks.whole("heads", heads, 1)
        if len(self.own) % heads or self.others.shape[1] != heads:
            raise ValueError(
                f"heads = {heads} for partners of {len(self.own)} trained heads and untrained bodies of "
                f"{self.others.shape[1]}: give the heads of one body, to Untrained as well"
            )
        own = self.own.reshape(-1, heads, *self.own.shape[1:])
        return Partners((own**2).mean(axis=1) / 2, (self.others**2).mean(axis=1, keepdims=True) / 2)

    @classmethod
    def joined(cls, parts: Sequence["Partners"]) -> "Partners":
        """The same networks at the points of several partners, one after the other."""
        return cls(*(np.concatenate(arrays, axis=-1) for arrays in _by_part(parts)))

    @classmethod
    def stacked(cls, parts: Sequence["Partners"]) -> "Partners":
        """The same networks at several times, which come before the points."""
        return cls(*(np.stack(arrays, axis=-2) for arrays in _by_part(parts)))


def _by_part(parts: Sequence[Partners]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [at.own for at in parts], [at.others for at in parts]


class Untrained:
    """The initial functions of a model's networks, and of the heads of further bodies, from which partners are made.

    Parameters
    ----------
    model: An ensemble, or (Bayesian) RND. It need not be fitted.
    X, X_test: Training points (N, *shape) and test points (T, *shape).
    bodies, heads: Number of further bodies, >= 2, and of heads on each. Their weights come from a seed of their own.
    kernel: Infinite kernels of the network, as a function of two arrays of points like those that `laws` takes. Those
        of an `MLP` are known.

    >>> from rndlib import MLP, RND, datasets
    >>> from rndlib.paper.evidence.partners import Untrained
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = RND(MLP(3, width=512), heads=1, bodies=4)
    >>> partners = Untrained(model, data.X, data.X_test, bodies=8).trained()
    >>> errors = model.fit(data.X).errors(data.X_test)
    >>> bool(abs(partners.own - errors).max() < 0.2 * abs(errors).max()), partners.others.shape
    (True, (8, 32, 5))
    """

    def __init__(
        self, model: Any, X: ArrayLike, X_test: ArrayLike, bodies: int, heads: int = 32, kernel: Network | None = None
    ):
        if not isinstance(model, Distillation | DeepEnsemble | BayesianEnsemble):
            raise ValueError(f"model = {model!r}: give an ensemble or RND")
        if kernel is None:
            if not isinstance(model.net, MLP):
                raise ValueError(f"kernel = None for net = {model.net!r}: give its infinite kernels, or an rndlib.MLP")
            kernel = model.net
        rnd = isinstance(model, Distillation)
        if rnd and model.linearised:
            raise ValueError(f"model = {model!r}: give a model with linearised=False")
        bodies, heads = checks.whole("bodies", bodies, 2), checks.whole("heads", heads, 1)
        self._kernel, self._labelled = kernel, not rnd
        self._X, self._tests = reference.points(kernel, X, X_test)
        places = np.concatenate([self._X, self._tests])
        further: Any = clone(model)
        further.set_params(seed=int(np.random.SeedSequence(model.seed).generate_state(1)[0]))
        self._seeds = model.seed, further.seed
        if rnd:
            further.set_params(bodies=bodies, heads=heads)
            own, others = (np.subtract(*of.initial(places)) for of in (model, further))
        else:
            further.set_params(members=bodies)
            own, others = model.initial(places), further.initial(places, heads)
        self._starts = own.reshape(-1, model.heads if rnd else 1, len(places)), others.reshape(bodies, heads, -1)

    def trained(
        self,
        y: ArrayLike | None = None,
        solver: Solver | None = None,
        noise_std: float = 0.0,
        kernel: Network | None = None,
    ) -> Partners:
        """The partners after training, at the test points; of RND, those of the errors.

        `y` (N,) are the labels of an ensemble. `solver` is gradient flow to convergence by default. `kernel` are
        kernels to train with in place of the network's own, for a control. Raises as `laws.ensemble`.
        """
        solver = GradientFlow() if solver is None else solver
        if not isinstance(solver, GradientFlow | GradientDescent):
            raise ValueError(f"solver = {solver!r}: give GradientFlow(...) or GradientDescent(...)")
        if (y is not None) != self._labelled:
            raise ValueError("y: give the labels of an ensemble, and none for RND")
        labels = np.zeros(len(self._X)) if y is None else checks.labels("y", y, len(self._X))
        noise_std = checks.non_negative("noise_std", noise_std)
        kernel = self._kernel if kernel is None else kernel
        A, C = (reference.between(kernel, self._X, other).ntk for other in (self._X, self._tests))
        A = A + noise_std**2 * np.eye(len(labels))
        rate = solver.learning_rate if isinstance(solver, GradientDescent) else None
        G = gain(A, C, solver.time, rate)
        own, others = (
            partners(start, labels, G, noise_std, seed) for start, seed in zip(self._starts, self._seeds, strict=True)
        )
        return Partners(own.reshape(-1, len(self._tests)), others)
