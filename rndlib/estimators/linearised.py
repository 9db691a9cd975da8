"""Bodies linearised at their start, in place of trained ones.

A head's error is `e(x) = u(x) - g(x) + J(x) delta`, with u and g its own predictor and target at the start, and J the
tangent that the heads of a body share. The change delta of the parameters is all that a prediction needs. It takes in
psi, as the target of Bayesian RND is J psi. One column more per output has the mean: the function 0, trained on y.
"""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.cores import parallel, slices, split
from rndlib.estimators.base import PerHead
from rndlib.training import linear
from rndlib.training.problem import Drawn, Trained, column_group
from rndlib.training.report import Report
from rndlib.training.solvers import GradientFlow
from rndlib.training.trees import mapped
from rndlib.training.weights import Params


def train(model: Any, X: Float[np.ndarray, "n *shape"], y: Float[np.ndarray, "n outputs"] | None) -> Trained:
    """The weights v (N, heads + outputs) of `linear.weights`, and delta = -J' v - psi in place of parameters."""
    flow, noise_std, net, backend = model.solver or GradientFlow(), model._noise, model.net_, model._loaded
    if flow.time == inf and not noise_std:
        checks.distinct("X", X)

    def one(block: list[int]) -> tuple[Drawn, tuple[Params, Report]]:
        drawn = model._draw(block, len(X))
        r = np.swapaxes(model._start_values(drawn, X, "float64"), 1, 2)
        if drawn.offsets is not None:
            r = r + noise_std * drawn.offsets
        if y is not None:
            r = np.concatenate([r, np.broadcast_to(-y, (len(block), *y.shape))], axis=2)
        v, left, by = linear.weights(backend, net, drawn.tangent, X, r, flow, noise_std)
        groups = slices(v.shape[2], column_group(net, len(block)))
        pulled = [backend.pull_back(net, drawn.tangent, X, v[:, :, some]) for some in groups]
        delta = mapped(lambda *parts: -np.concatenate(parts, axis=1), *pulled)
        if drawn.directions:
            for change, psi in zip(delta, drawn.directions, strict=False):
                for own, of_heads in zip(change, psi, strict=True):
                    own[:, : model.heads] -= of_heads.reshape(len(block), model.heads, *own.shape[2:])
        report = Report(flow.time, left, 0.0, 1, True, (f"Each head is solved for exactly, by {by}.",))
        # What a prediction does not need would take as much memory again.
        return drawn._replace(directions=None, offsets=None), ([(v,), *delta], report)

    blocks = split(model.bodies, 1)
    drawn, results = zip(*parallel(one, blocks), strict=True)
    return replace(Trained.joined(model.bodies, blocks, list(results)), drawn=list(drawn))


def errors(model: Any, drawn: Drawn, params: Params, X: Float[np.ndarray, "t *shape"]) -> PerHead:
    """The errors of every body at X."""
    own = model._functions(drawn.start, X, model._precision)
    if drawn.target is not None:
        own = own - model._functions(drawn.target, X, model._precision)
    return own + _pushed(model, drawn, params, slice(model.heads), X)


def means(
    model: Any, drawn: Drawn, params: Params, X: Float[np.ndarray, "t *shape"]
) -> Float[np.ndarray, "bodies outputs t"]:
    """The function 0 of every body, trained on y, at X."""
    return _pushed(model, drawn, params, slice(model.heads, None), X)


def initial(model: Any, drawn: Drawn, params: Params, X: Float[np.ndarray, "t *shape"]) -> np.ndarray:
    """Predictors and targets before training, (bodies, 2, heads, t): what training changed is Theta_xX v."""
    predictor = model._functions(drawn.start, X, model._precision)
    v = params[0][0][:, :, : model.heads]
    moved = linear.transfer(model._loaded, model.net_, drawn.tangent, model._X, v, X)
    return np.stack([predictor, predictor - errors(model, drawn, params, X) - moved], axis=1)


def _pushed(model: Any, drawn: Drawn, params: Params, columns: slice, X: np.ndarray) -> PerHead:
    _, *delta = params
    changes = mapped(lambda a: a[:, columns], delta)
    return model._loaded.push_forward(model.net_, drawn.tangent, changes, X, model._precision)
