"""Networks of finite width that are trained: step by step by a solver, or linearised at their start and exactly."""

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import Network
from rndlib.cores import parallel, slices, split
from rndlib.training import linear
from rndlib.training.problem import Drawn, Task, Trained, block_size, column_group
from rndlib.training.report import Report
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role, draw

PerHead = Float[np.ndarray, "bodies heads t"]
Points = Float[np.ndarray, "t *shape"]
Labels = Float[np.ndarray, "n outputs"]


def check_linearised(linearised: Any, solver: Any) -> None:
    """Check whether networks are linearised, and that they can then be trained exactly."""
    checks.require(isinstance(linearised, bool), f"linearised = {linearised!r}: give True or False")
    checks.require(
        not linearised or isinstance(solver, GradientFlow | None),
        f"solver = {solver!r}: a linearised network takes GradientFlow(time=...) or None",
    )


def start(model: Any, drawn: Drawn, X: Points, dtype: str) -> PerHead:
    """e before training, at X."""
    return model._functions(drawn.start, X, dtype) + model._fixed(drawn, X, dtype)


def residual(model: Any, drawn: Drawn, X: Points) -> Float[np.ndarray, "bodies n heads"]:
    """e(X) - y before training, with the jitter of noisy targets: what training removes, at the training points X.

    Of values, the temporal differences e(X) - gamma e(X') - y.
    """
    r = np.swapaxes(start(model, drawn, X, "float64") - model._goal(drawn), 1, 2)
    if model._following is not None:
        r = r - np.swapaxes(model._following.discount * start(model, drawn, model._following.X, "float64"), 1, 2)
    return r if drawn.offsets is None else r + model._noise * drawn.offsets


def targets(model: Any, X: Points, drawn: Drawn) -> PerHead:
    """What networks f are trained to at X, so that e(X) = y; of values, rewards (`rndlib.training.problem.Problem`)."""
    goal = model._goal(drawn) - model._fixed(drawn, X, "float64")
    if model._following is not None:
        goal = goal + model._following.discount * model._fixed(drawn, model._following.X, "float64")
    return np.broadcast_to(goal, (*drawn.start[-1][0].shape[:2], len(X)))


def exactly(flow: GradientFlow, left: float, by: str) -> Report:
    """The report of linearised networks, solved for in the way `by`, with the residual `left`."""
    return Report(flow.time, left, 0.0, 1, True, (f"Each head is solved for exactly, by {by}.",))


def tangents(backend: Any, net: Network, drawn: Drawn, X: Points, dtype: str) -> PerHead:
    """J psi for all directions, as many at a time as memory holds."""
    at, psi = drawn.tangent, drawn.directions
    bodies, own_heads = at[-1][0].shape[:2]
    if not psi or len(psi[0][0]) == bodies:
        return backend.tangents(net, at, psi or [], X, dtype)
    heads = len(psi[0][0]) // bodies
    each, parts = mapped(lambda a: a.reshape(bodies, heads, *a.shape[1:]), psi), []
    for some in slices(heads, column_group(net, bodies)):
        own = [tuple(a[:, some].reshape(-1, *a.shape[2:]) for a in layer) for layer in each]
        head = at[-1] if own_heads == 1 else tuple(a[:, some] for a in at[-1])
        parts.append(backend.tangents(net, [*at[:-1], head], own, X, dtype))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Steps:
    """Networks trained by a solver, and the network that has the mean estimate of Bayesian RND, where there is one."""

    trained: Trained
    mean: Trained | None = None

    @classmethod
    def fit(cls, model: Any, role: Role, X: Points, y: Labels | None = None) -> "Steps":
        """Train the networks of an estimator on points X (N, *shape), and one more on labels `y`, if there are any.

        The mean network starts at 0: its initial function is subtracted.
        """

        def train(role: Role, heads: int, bodies: int, draws: Any, targets: Any) -> Trained:
            task = Task(model.net_, heads, bodies, role, model._seed, X, draws, targets, model._noise, model._following)
            trained = (model.solver or GradientFlow()).train(task, model._loaded)
            return replace(trained, drawn=[task.drawn[tuple(block)] for block, _ in trained.blocks])

        heads, bodies = model._sizes
        trained = train(role, heads, bodies, partial(model._draw, n_samples=len(X)), partial(targets, model, X))
        if y is None:
            return cls(trained)
        labels = y

        def alone(bodies: list[int]) -> Drawn:
            weights = draw(model.net_, labels.shape[1], model._seed, Role.MEAN, bodies)
            return Drawn(weights, weights)

        def shifted(drawn: Drawn) -> PerHead:
            return labels.T + model._functions(drawn.start, X, "float64")

        return cls(trained, train(Role.MEAN, labels.shape[1], 1, alone, shifted))

    def values(self, model: Any, X: Points, drawn: Drawn, params: Params) -> PerHead:
        """e after training, of a block of networks at X."""
        return model._functions(params, X, model._precision) + model._fixed(drawn, X, model._precision)

    def means(self, model: Any, X: Points) -> Float[np.ndarray, "1 outputs t"]:
        """The mean network at X."""

        def moved(drawn: Drawn, params: Params) -> PerHead:
            f, before = (model._functions(at, X, model._precision) for at in (params, drawn.start))
            return f - before

        assert self.mean is not None
        return self.mean.per_body(moved)


@dataclass(frozen=True)
class Linear:
    """Linearised networks. A head's error is e(x) = u(x) - g(x) + J(x) delta, with u and g its own predictor and target
    at the start, and J the tangent that the heads of a body share.

    X: The training points. trained: In place of parameters, a block has the weights v (bodies, N, heads + outputs) of
    `linear.weights`, and then the layers of delta = -J' v - psi, which is all that a prediction needs: the target of
    Bayesian RND is J psi. One column more per output has the mean, which is the function 0, trained on y.
    """

    X: Points
    trained: Trained

    @classmethod
    def fit(cls, model: Any, X: Points, y: Labels | None) -> "Linear":
        """Train the networks of an estimator on X (N, *shape), and their means on labels `y`, if there are any."""
        (_, bodies), flow, net, backend = model._sizes, model.solver or GradientFlow(), model.net_, model._loaded
        if flow.time == inf and not model._noise:
            checks.distinct("X", X)

        def one(block: list[int]) -> tuple[Drawn, tuple[Params, Report]]:
            drawn = model._draw(block, len(X))
            r = residual(model, drawn, X)
            heads = r.shape[2]
            if y is not None:
                r = np.concatenate([r, np.broadcast_to(-y, (len(block), *y.shape))], axis=2)
            if model._following is None:
                v, left, by = linear.weights(backend, net, drawn.tangent, X, r, flow, model._noise)
            else:
                v, left = linear.value_weights(backend, net, drawn.tangent, X, model._following, r, model.gamma), 0.0
                by = "matrices, at the fixed point of temporal differences"
            delta = mapped(np.negative, linear.pulled_back(backend, net, drawn.tangent, X, v))
            for change, psi in zip(delta, drawn.directions or [], strict=False):
                for own, of_heads in zip(change, psi, strict=True):
                    own[:, :heads] -= of_heads.reshape(len(block), heads, *own.shape[2:])
            report = exactly(flow, left, by)
            # What a prediction does not need would take as much memory again.
            return drawn._replace(directions=None, offsets=None), ([(v,), *delta], report)

        # Small networks, whose time is that of calls, are solved for several at a time, each with a matrix (N, N).
        blocks = split(bodies, block_size(net, max(model._sizes[0], len(X)), len(X)))
        drawn, results = zip(*parallel(one, blocks), strict=True)
        return cls(X.copy(), replace(Trained.joined(bodies, blocks, list(results)), drawn=list(drawn)))

    def values(self, model: Any, X: Points, drawn: Drawn, params: Params) -> PerHead:
        """e after training, of a block of bodies at X."""
        own = model._functions(drawn.start, X, model._precision)
        if drawn.target is not None:
            own = own - model._functions(drawn.target, X, model._precision)
        return own + self.pushed(model, drawn, params, slice(model._sizes[0]), X)

    def means(self, model: Any, X: Points) -> Float[np.ndarray, "bodies outputs t"]:
        """The function 0 of every body, trained on y, at X."""
        outputs = slice(model.heads, None)
        return self.trained.per_body(lambda drawn, params: self.pushed(model, drawn, params, outputs, X))

    def initial(self, model: Any, X: Points, drawn: Drawn, params: Params) -> Float[np.ndarray, "bodies 2 heads t"]:
        """Predictors and targets before training: training has changed their difference by -Theta_xX v."""
        predictor = model._functions(drawn.start, X, model._precision)
        v = params[0][0][:, :, : model.heads]
        moved = linear.transfer(model._loaded, model.net_, drawn.tangent, self.X, v, X)
        return np.stack([predictor, predictor - self.values(model, X, drawn, params) - moved], axis=1)

    def pushed(self, model: Any, drawn: Drawn, params: Params, columns: slice, X: Points) -> PerHead:
        _, *delta = params
        changes = mapped(lambda a: a[:, columns], delta)
        return model._loaded.push_forward(model.net_, drawn.tangent, changes, X, model._precision)
