"""Bodies linearised at their start, in place of trained ones."""

from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.cores import parallel, split
from rndlib.estimators.base import PerHead
from rndlib.training import linear
from rndlib.training.problem import Trained, column_group
from rndlib.training.report import Report
from rndlib.training.solvers import GradientFlow
from rndlib.training.weights import Params, draw_directions, draw_offsets


def train(model: Any, X: Float[np.ndarray, "n *shape"], y: Float[np.ndarray, " n"] | None) -> Trained:
    """The weights (N, heads) that `linear.weights` gives each body in place of parameters; with y, in one more column.

    That column holds the weights of the mean: of the function 0 trained on y.
    """
    flow, noise_std = model.solver or GradientFlow(), float(model.noise_std)
    if flow.time == inf and not noise_std:
        checks.distinct("X", X)

    def one(block: list[int]) -> tuple[Params, Report]:
        predictor, tangent = model._starts(block)
        error = model._functions(predictor, X, "float64") - model._target(block, tangent, X, "float64")
        r = np.swapaxes(error, 1, 2)
        if noise_std:
            r = r + noise_std * draw_offsets(model.seed, block, len(X), model.heads)
        if y is not None:
            r = np.concatenate([r, np.broadcast_to(-y[:, None], (len(block), len(X), 1))], axis=2)
        v, left, _ = linear.weights(model._loaded, model.net_, tangent, X, r, flow, noise_std)
        return [(v,)], Report(flow.time, left, 0.0, 1, True)

    blocks = split(model.bodies, 1)
    return Trained.joined(model.bodies, blocks, parallel(one, blocks))


def functions(model: Any, bodies: list[int], params: Params, X: Float[np.ndarray, "t *shape"]) -> PerHead:
    """The trained predictors of every body at X."""
    v = params[0][0][:, :, : model.heads]
    return model._functions(model._starts(bodies)[0], X, model.dtype) - _transfer(model, bodies, v, X)


def means(
    model: Any, bodies: list[int], params: Params, X: Float[np.ndarray, "t *shape"]
) -> Float[np.ndarray, "bodies 1 t"]:
    """The function 0 of every body, trained on y, at X."""
    return -_transfer(model, bodies, params[0][0][:, :, model.heads :], X)


def targets(model: Any, bodies: list[int], tangent: Params, X: Float[np.ndarray, "t *shape"], dtype: str) -> PerHead:
    """g~, the function of Proposition 4.1 for the psi of every head, of the tangent that the heads of a body share."""
    net = model.net_
    if not tangent[:-1]:
        return np.zeros((len(bodies), model.heads, len(X)))  # no layers below the head
    groups = split(model.heads, column_group(net, len(bodies)))
    each = (draw_directions(net, model.seed, bodies, group) for group in groups)
    parts = [model._loaded.tangents(net, tangent, directions, X, dtype) for directions in each]
    return np.concatenate(parts, axis=1)[:, : model.heads]


def _transfer(model: Any, bodies: list[int], v: np.ndarray, X: np.ndarray) -> np.ndarray:
    return model._loaded.transfer(model.net_, model._starts(bodies)[1], model._X, v, X, model.dtype)
