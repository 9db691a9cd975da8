"""Training that goes on from the current weights on other data: `partial_fit` of the four estimators.

Each call is one stage of `laws.stream`. What is random stays as it was drawn: the target of RND, the directions of the
Bayesian methods, and the point at which a linearised network has its tangent.
"""

from copy import copy
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from rndlib import checks
from rndlib.cores import parallel
from rndlib.estimators.networks import Linear, Steps, exactly, targets
from rndlib.training import linear
from rndlib.training.problem import Drawn, Task, Trained
from rndlib.training.report import Report
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role

NOTE = "Trained further from its weights on other data: held against no theorem, but `laws.stream` has its limit."


def _given(model: Any) -> bool:
    if model.net is None:
        raise AttributeError(
            "net = None: the automatic estimator chooses anew for all rows: call fit, or give a network"
        )
    return True


class Streamed:
    """What estimators have in common whose training can go on."""

    @available_if(_given)
    def partial_fit(self: Any, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Train on from the current weights, on the points X (N, in_dim) alone; the first call is `fit`.

        Earlier points are not kept: what is learnt about them may be lost, as `laws.stream` says. Labels y (N,) are
        those of ensembles, and of the mean of Bayesian RND where the first call had them. Parameters are those of the
        first call. A call that fails leaves the fit as it was.

        Returns the estimator. Raises as `fit`, and ValueError for noise, for `false_alarms`, or if labels are missing.

        >>> from rndlib import MLP, RND, datasets
        >>> X = datasets.toy(seed=0).X
        >>> model = RND(MLP(3, width=64), heads=4).partial_fit(X[:5]).partial_fit(X[5:])
        >>> model.variance(X[5:]).max() < 1e-6 < model.variance(X[:5]).max()  # the first points are known less well
        np.True_
        """
        if self._as_fitted is None:
            return self.fit(X, y)
        now = copy(self._as_fitted)
        checks.require(
            not now._noise,
            f"noise_std = {now._noise:g}: a stream has no noise: give noise_std=0, or fit all rows at once",
        )
        checks.require(
            getattr(now, "false_alarms", None) is None,
            "false_alarms: its threshold is that of one fit: leave it out to call partial_fit",
        )
        checks.require(now.gamma is None, f"gamma = {now.gamma!r}: values have no partial_fit: fit all transitions")
        given, points = self._points(X)
        labels = _labels(now, given, y)
        if hasattr(now, "_labels"):
            now._labels = labels
        now._fit = _linear(now, points, labels) if isinstance(now._fit, Linear) else _steps(now, points, labels)
        report = now._fit.trained.report
        now._report = replace(report, notes=(*report.notes, NOTE), departure=None)
        self._fit, self._report, self._as_fitted = now._fit, now._report, now
        return self


def _labels(model: Any, points: np.ndarray, y: ArrayLike | None) -> np.ndarray | None:
    """The labels of a stage (N, outputs), without the prior mean; None for models that have none."""
    if not (hasattr(model, "_labels") or getattr(model, "_has_mean", False)):
        return None
    checks.require(y is not None, "y = None: the first call had labels: give them to each")
    labels = checks.outputs("y", y if y is not None else [], len(points))
    outputs = labels.shape[1:]
    checks.require(outputs == model._outputs, f"y has outputs {outputs}: give {model._outputs}, as in the first call")
    return labels.reshape(len(points), -1) - model._prior(points)


def _at(trained: Trained, bodies: list[int]) -> tuple[Drawn, Params]:
    """The random numbers and the current parameters of these bodies."""
    where = {body: (k, i) for k, (block, _) in reversed([*enumerate(trained.blocks)]) for i, body in enumerate(block)}

    def one(trees: Any, body: int) -> Any:
        k, i = where[body]
        rows = len(trained.blocks[k][0])  # directions may be several for each body
        return mapped(lambda a: a[i * len(a) // rows : (i + 1) * len(a) // rows], trees[k])

    def joined(trees: Any) -> Any:
        return mapped(lambda *parts: np.concatenate(parts), *(one(trees, body) for body in bodies))

    fields: Any = zip(*trained.drawn, strict=True)
    each: Any = (None if trees[0] is None else joined(trees) for trees in fields)
    return Drawn(*each), joined([params for _, params in trained.blocks])


def _steps(model: Any, X: np.ndarray, y: np.ndarray | None) -> Steps:
    """Networks trained on by their solver."""
    fit: Steps = model._fit

    def train(trained: Trained, role: Role, goals: Any) -> Trained:
        def current(bodies: list[int]) -> Drawn:
            drawn, params = _at(trained, bodies)
            return drawn._replace(start=params)

        heads = trained.blocks[0][1][-1][0].shape[1]
        task = Task(model.net_, heads, trained.bodies, role, model._seed, X, current, goals)
        after = (model.solver or GradientFlow()).train(task, model._loaded)
        return replace(after, drawn=[_at(trained, block)[0] for block, _ in after.blocks])

    trained = train(fit.trained, Role.PREDICTOR, partial(targets, model, X))
    if fit.mean is None or y is None:
        return Steps(trained)
    # The mean network began at `tangent`, whose function is subtracted from it.
    return Steps(trained, train(fit.mean, Role.MEAN, lambda drawn: y.T + model._functions(drawn.tangent, X, "float64")))


def _linear(model: Any, X: np.ndarray, y: np.ndarray | None) -> Linear:
    """Linearised networks after one more change of theirs, -J' v for the points X."""
    fit: Linear = model._fit
    flow, net, backend, exact = model.solver or GradientFlow(), model.net_, model._loaded, copy(model)
    exact.dtype = "float64"
    if flow.time == inf:
        checks.distinct("X", X)

    def one(block: tuple[Drawn, Params]) -> tuple[Params, Report]:
        drawn, (before, *delta) = block
        errors = fit.values(exact, X, drawn, [before, *delta]) - model._goal(drawn)
        if y is not None and getattr(model, "_has_mean", False):
            means = fit.pushed(exact, drawn, [before, *delta], slice(model._sizes[0], None), X)
            errors = np.concatenate([errors, means - y.T], axis=1)
        v, left, by = linear.weights(backend, net, drawn.tangent, X, np.swapaxes(errors, 1, 2), flow, 0.0)
        moved = linear.pulled_back(backend, net, drawn.tangent, X, v)
        after = [(np.concatenate([before[0], v], axis=1),), *mapped(lambda a, b: a - b, delta, moved)]
        return after, exactly(flow, left, by)

    trained = fit.trained
    results = parallel(one, zip(trained.drawn, (params for _, params in trained.blocks), strict=True))
    after = Trained.joined(trained.bodies, [block for block, _ in trained.blocks], results)
    return Linear(np.concatenate([fit.X, X]), replace(after, drawn=trained.drawn))
