"""Transitions, on which value functions are trained by temporal differences (`rndlib.theory.values`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.theory import reference
from rndlib.training.solvers import GradientDescent


class Following(NamedTuple):
    """The states (N, *shape) that follow the training points, and the discount (N,) of each, 0 for terminal ones."""

    X: np.ndarray
    discount: np.ndarray


def check(gamma: Any, net: Any, solver: Any, linearised: bool) -> None:
    """Check the discount factor of an estimator, and that it can be trained with it."""
    if gamma is None:
        return
    checks.non_negative("gamma", gamma)
    checks.require(net is not None, f"gamma = {gamma!r} with net = None: give the network that the values are of")
    checks.require(
        linearised or isinstance(solver, GradientDescent),
        f"solver = {solver!r} with gamma = {gamma!r}: give GradientDescent(...), or linearised=True",
    )


def following(model: Any, points: np.ndarray, X_next: ArrayLike | None, terminal: ArrayLike | None) -> Following | None:
    """What follows the training points of an estimator; None if it has no `gamma`."""
    if model.gamma is None:
        checks.require(X_next is None and terminal is None, "gamma = None: give gamma to use X_next and terminal")
        return None
    checks.require(X_next is not None, f"X_next = None with gamma = {model.gamma!r}: give the states that follow X")
    states = checks.points_of_any_shape("X_next", [] if X_next is None else X_next, points.shape[1:])
    return Following(states, reference.discounts(model.gamma, terminal, states, len(points)))
