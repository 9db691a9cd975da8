"""Random network distillation: predictors trained to match random targets (Eq. 2)."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.cores import blockwise
from rndlib.estimators import linearised
from rndlib.estimators.base import Estimator, Functions, GroupVariances, PerHead, equal_parts
from rndlib.theory import laws, reference
from rndlib.theory.crowding import warn_if_narrow
from rndlib.training.problem import block_size
from rndlib.training.solvers import GradientFlow
from rndlib.training.weights import Params, Role, draw


@dataclass(eq=False, repr=False)
class Distillation(Estimator):
    """Predictors of `heads` outputs on `bodies` independent bodies, each trained to match a random target."""

    heads: int = 64
    bodies: int = 1
    _: KW_ONLY
    linearised: bool = False

    def _check(self) -> None:
        super()._check()
        checks.whole("heads", self.heads, at_least=1)
        checks.whole("bodies", self.bodies, at_least=1)
        if not isinstance(self.linearised, bool):
            raise ValueError(f"linearised = {self.linearised!r}: give True or False")
        if self.linearised and not isinstance(self.solver, GradientFlow | None):
            raise ValueError(f"solver = {self.solver!r}: a linearised network takes GradientFlow(time=...) or None")

    def errors(self, X: ArrayLike) -> Functions:
        """Predictor minus target of every head at X (T, in_dim): (bodies * heads, T), one body after the other.

        >>> from rndlib import MLP, RND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
        >>> model.errors(data.X_test).shape, bool(abs(model.errors(data.X)).max() < 1e-3)
        ((8, 5), True)
        """
        fitted, points = self._fitted, self._points(X)

        def values(bodies: list[int], params: Params) -> np.ndarray:
            target = fitted._target(bodies, None, points, fitted.dtype)
            if fitted.linearised:
                return linearised.functions(fitted, bodies, params, points) - target
            return fitted._functions(params, points, fitted.dtype) - target

        return fitted._trained.evaluate(values)

    def initial(self, X: ArrayLike) -> tuple[Functions, Functions]:
        """Predictors before training and targets at X (T, in_dim): each (bodies * heads, T), one body after the other.

        Their difference is the error before training. Needs no `fit`.

        >>> from rndlib import MLP, BayesianRND
        >>> u, g = BayesianRND(MLP(2, width=64), heads=4, bodies=2).initial([[1.0, 0.0]])
        >>> u.shape, g.shape
        ((8, 1), (8, 1))
        """
        model, points = self._before(X)

        def values(bodies: list[int]) -> np.ndarray:
            start, tangent = model._starts(bodies)
            predictor = model._functions(start, points, model.dtype)
            return np.stack([predictor, model._target(bodies, tangent, points, model.dtype)], axis=1)

        size = block_size(model.net_, model.heads, len(points))
        predictors, targets = blockwise(values, model.bodies, size).swapaxes(0, 1).reshape(2, -1, len(points))
        return predictors, targets

    def tangent_kernels(self, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
        fitted, points = self._fitted, self._points(X)
        if not fitted.linearised:
            return super().tangent_kernels(X)

        def values(bodies: list[int], _: Params) -> np.ndarray:
            kernel = np.add(*fitted._loaded.tangent_kernels(fitted.net_, fitted._starts(bodies)[1], points))
            return np.eye(fitted.heads)[:, :, None, None] * kernel  # no head shares its parameters with another

        return fitted._trained.per_body(values)

    def _target(self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str) -> PerHead:
        """The target's functions. `start` is the second result of `_starts`; None draws it again."""
        raise NotImplementedError

    def _starts(self, bodies: list[int]) -> tuple[Params, Params]:
        """The predictors at their start, and the networks whose tangents their heads have there.

        A linearised body has one tangent, that of one more head, so that all heads have the same kernel and are
        independent of it: its network has one output.
        """
        if not self.linearised:
            start = draw(self.net_, self.heads, self.seed, Role.PREDICTOR, bodies)
            return start, start
        *hidden, head = draw(self.net_, self.heads + 1, self.seed, Role.PREDICTOR, bodies)
        own, common = (tuple(a[:, part] for a in head) for part in (slice(1, None), slice(1)))
        return [*hidden, own], [*hidden, common]

    def _values(self, X: ArrayLike) -> Functions:
        return self.errors(X)

    def _group_variances(self, values: Functions, groups: int) -> GroupVariances:
        equal_parts("groups", groups, "bodies", self.bodies)
        return self._scale * np.mean(values.reshape(groups, -1, values.shape[1]) ** 2, axis=1)

    def _at_start(self, X: np.ndarray) -> PerHead:
        return np.subtract(*self.initial(X)).reshape(self.bodies, self.heads, len(X))

    @property
    def _crowded(self) -> bool:
        return self.heads > 1 and not self.linearised


@dataclass(eq=False, repr=False)
class RND(Distillation):
    """Random network distillation (Eq. 2): predictors u trained to match fixed random networks g.

    In the limit of width the errors of the heads are independent draws from `laws.rnd_error` (Theorem 3.1), and half
    their mean square has the law of the sample variance of an ensemble of `bodies * heads + 1` networks (Theorem 3.4).

    Parameters
    ----------
    net: Network of both predictor and target; the theorems need the two to be alike. Values as in `DeepEnsemble`.
    heads: Outputs per body, >= 1.
    bodies: Number of independent bodies, >= 1. `bodies=1` is the usual multi-head RND; `heads=1` is an ensemble of RND
        models.
    linearised: Whether to train the network linearised at its start, with parameters of its own for each head and
        exactly: the law of the network's own tangent kernel then holds at any number of heads. `fit` takes an N x N
        matrix per body, and no steps.
    seed, backend, solver, dtype: As in `DeepEnsemble`. With the same seed, predictor, target and ensembles are still
        independent of each other.

    >>> from rndlib import MLP, RND, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
    >>> model.variance(10 * data.X_test).mean() > model.variance(data.X_test).mean()  # farther out, less is known
    np.True_
    """

    _scale = 0.5  # Eq. 2, in the units of an ensemble's variance

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "RND":
        """Train the predictors on X (N, in_dim). y is ignored; it exists for scikit-learn pipelines.

        Warns with `HeadsWarning` if there are too many heads for the width. Raises as in `DeepEnsemble.fit`.

        >>> from rndlib import MLP, RND, datasets
        >>> RND(MLP(3, width=64), heads=4, bodies=2).fit(datasets.toy(seed=0).X).report.converged
        True
        """
        points, _ = self._begin(X)
        if self.linearised:
            return self._end(linearised.train(self, points, None), points)
        warn_if_narrow(self.net_, self.heads, len(points), "standard")
        targets = partial(self._target, X=points, dtype="float64")
        return self._end(self._train(self.heads, self.bodies, Role.PREDICTOR, points, targets), points)

    def _target(self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str) -> PerHead:
        return self._functions(draw(self.net_, self.heads, self.seed, Role.TARGET, bodies), X, dtype)

    def _law(self, net: reference.Network, X: np.ndarray, X_test: np.ndarray, **options: Any) -> laws.Gaussian:
        return laws.rnd_error(net, X, X_test, **options)
