"""What training leaves of an estimator: networks trained step by step by a solver, or linearised and exactly.

Each has the `trained` bodies, their `values` e(x) and the `means` of Bayesian RND, and a fit can train it further. The
exact limit of width is in `rndlib.estimators.exact`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import inf
from operator import or_
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.cores import parallel, split
from rndlib.estimators.functions import PerHead, Points
from rndlib.training import linear
from rndlib.training.problem import Block, Drawn, Task, Trained, block_size
from rndlib.training.report import Report
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role, draw

Begin = Callable[[list[int]], tuple[Drawn, Params]]
"""The random numbers of some bodies, and the parameters from which they train."""


@dataclass(frozen=True)
class Steps:
    """Networks trained by a solver, and the network that has the mean estimate of Bayesian RND, where there is one."""

    trained: Trained
    mean: Trained | None = None

    @classmethod
    def fit(cls, model: Any, X: Points, before: "Steps | None" = None) -> "Steps":
        """Train an estimator's networks on X (N, *shape), and one more on labels, if it has a mean, or those `before`
        further."""

        def drawn(bodies: list[int]) -> tuple[Drawn, Params]:
            drawn = model._draw(bodies, len(X))
            return drawn, drawn.start

        def alone(bodies: list[int]) -> tuple[Drawn, Params]:
            weights = draw(model.net_, labels.shape[1], model._seed, Role.MEAN, bodies)
            return Drawn(weights, weights), weights

        def shifted(drawn: Drawn) -> PerHead:
            # The mean network starts at 0: its initial function is subtracted.
            return labels.T + model._functions(drawn.tangent, X)

        solver, labels, (heads, bodies) = model.solver or GradientFlow(), model._labels_of_mean, model._sizes
        begin, targets = _current(before.trained) if before else drawn, partial(model._targets, X)
        common = {"noise_std": model._noise, "following": model._following}
        task = Task(model.net_, heads, bodies, model._role, model._seed, X, begin, targets, **common)
        trained = solver.train(task, model._loaded)
        if labels is None or (before and before.mean is None):
            return cls(trained)
        begin = _current(before.mean) if before and before.mean else alone
        of_mean = replace(task, heads=labels.shape[1], bodies=1, role=Role.MEAN, begin=begin, targets=shifted)
        return cls(trained, solver.train(of_mean, model._loaded))

    def values(self, model: Any, X: Points, drawn: Drawn, params: Params) -> PerHead:
        """e after training, of a block of networks at X."""
        return model._functions(params, X) + model._sign * model._target(drawn, X)

    def means(self, model: Any, X: Points) -> Float[np.ndarray, "1 outputs t"]:
        """The mean network at X."""
        assert self.mean is not None
        return self.mean.per_body(lambda drawn, params: model._functions(params, X) - model._functions(drawn.start, X))


@dataclass(frozen=True)
class Linear:
    """Linearised networks. A head's error is e(x) = u(x) - g(x) + J(x) delta, with u and g its own predictor and target
    at the start, and J the tangent that the heads of a body share.

    trained: In place of parameters, a block has the layers of delta (bodies, heads + outputs, ...), in which Bayesian
    RND's target J psi is included: delta starts at -psi, or at 0, and training adds minus the
    J' v of `linear.trained`. One column more per output has the mean, which is the function 0, trained on y.
    """

    trained: Trained

    @classmethod
    def fit(cls, model: Any, X: Points, before: "Linear | None" = None) -> "Linear":
        """Train an estimator's networks on X (N, *shape), and their means on labels, if any, or those `before`
        further."""
        flow, net, backend, y = model.solver or GradientFlow(), model.net_, model._loaded, model._labels_of_mean
        if flow.time == inf and not model._noise:
            checks.distinct(X)

        def drawn(bodies: list[int]) -> tuple[Drawn, Params]:
            drawn = model._draw(bodies, len(X))
            return drawn, mapped(lambda a: -a.reshape(len(bodies), -1, *a.shape[1:]), drawn.directions or [])

        def one(bodies: list[int]) -> Trained:
            drawn, start = begin(bodies)
            at = drawn.tangent
            r = model._residual(drawn, lambda points: _errors(model, points, drawn, start), X)
            if y is not None:
                means = _pushed(model, X, drawn, start, slice(r.shape[2], None)) - y.T
                r = np.concatenate([r, np.broadcast_to(np.swapaxes(means, 1, 2), (len(bodies), *y.shape))], axis=2)
            if model._following is None:
                pulled, left, by = linear.trained(backend, net, at, X, r, flow, model._noise)
            else:
                pulled, left = linear.values(backend, net, at, X, model._following, r, model.gamma), 0.0
                by = "matrices, at the fixed point of temporal differences"
            delta = mapped(np.negative, pulled)
            for layer, more in zip(delta, start, strict=False):  # layers and columns that start at 0 are left out
                for a, b in zip(layer, more, strict=True):
                    a[:, : b.shape[1]] += b
            report = Report(flow.time, left, 0.0, 1, True, (f"Each head is solved for exactly, by {by}.",))
            return Trained(model._sizes[1], [Block(bodies, drawn._replace(offsets=None), delta)], report)

        # Small networks, whose time is that of calls, are solved for several at a time, each with a matrix (N, N).
        heads, count = model._sizes
        begin = _current(before.trained) if before else drawn
        groups = split(count, block_size(net, max(heads, len(X)), len(X)))
        return cls(reduce(or_, parallel(one, groups)))

    def values(self, model: Any, X: Points, drawn: Drawn, delta: Params) -> PerHead:
        """e after training, of a block of bodies at X."""
        return _errors(model, X, drawn, delta)

    def means(self, model: Any, X: Points) -> Float[np.ndarray, "bodies outputs t"]:
        """The function 0 of every body, trained on y, at X."""
        columns = slice(model._sizes[0], None)
        return self.trained.per_body(lambda drawn, delta: _pushed(model, X, drawn, delta, columns))


def _errors(model: Any, X: Points, drawn: Drawn, delta: Params) -> PerHead:
    e = model._functions(drawn.start, X) + _pushed(model, X, drawn, delta, slice(model._sizes[0]))
    return e if drawn.target is None else e - model._functions(drawn.target, X)


def _pushed(model: Any, X: Points, drawn: Drawn, delta: Params, columns: slice) -> PerHead:
    """J delta at X, of some columns: 0 where there are none yet."""
    changes = mapped(lambda a: a[:, columns], delta)
    if not changes or not changes[0][0].shape[1]:
        return np.zeros((1, 1, 1))
    return model._loaded.push_forward(model.net_, drawn.tangent, changes, X)


def _current(trained: Trained) -> Begin:
    """The random numbers of any bodies, and their parameters after training, however they were grouped."""
    count = sum(len(block.bodies) for block in trained.blocks)
    joined = mapped(lambda *parts: np.concatenate(parts), *((block.drawn, block.params) for block in trained.blocks))

    def at(bodies: list[int]) -> tuple[Drawn, Params]:
        def rows(a: np.ndarray) -> np.ndarray:  # of which there may be several for each body
            each = len(a) // count
            return a.reshape(count, each, *a.shape[1:])[bodies].reshape(len(bodies) * each, *a.shape[1:])

        return mapped(rows, joined)

    return at
