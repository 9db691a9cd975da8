"""What the estimators have in common: a description, a seed, a backend, a solver, and the trained bodies."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import backends, checks, training
from rndlib.network import MLP
from rndlib.solvers import GradientDescent, GradientFlow, Report, Solver
from rndlib.training import Targets, Trained
from rndlib.weights import Params, Role, draw_directions

Functions = Float[np.ndarray, "outputs t"]
Variances = Float[np.ndarray, " t"]
GroupVariances = Float[np.ndarray, "groups t"]
Prediction = Variances | tuple[Variances, Variances]

DIRECTIONS_BYTES = 2**28
"""With a direction a head, as many heads are evaluated at a time as keep their directions within this."""


def parts(name: str, count: int, of: str, total: int) -> int:
    """The size of each of `count` equal parts of `total`; ValueError naming both where it does not divide."""
    count = checks.whole(name, count, at_least=1)
    if total % count:
        raise ValueError(f"{name} = {count}: give a divisor of {of} = {total}")
    return total // count


class NotFittedError(RuntimeError):
    """A method that needs training was called before `fit`."""


class Estimator:
    """What the four have in common: a description, a seed, a backend, a solver, and the trained bodies."""

    def __init__(self, net: MLP, seed: int, backend: str, solver: Solver | None, dtype: str):
        if not isinstance(net, MLP):
            raise ValueError(f"net = {net!r}: give an rndlib.MLP")
        solver = GradientFlow() if solver is None else solver
        if not isinstance(solver, GradientFlow | GradientDescent):
            raise ValueError(f"solver = {solver!r}: give rndlib.GradientFlow(...) or rndlib.GradientDescent(...)")
        self.net = net
        self.seed = checks.whole("seed", seed, at_least=0)
        self.backend = checks.choice("backend", backend, backends.BACKENDS)
        self.solver = solver
        self.dtype = checks.choice("dtype", dtype, ("float32", "float64"))
        self._trained: Trained | None = None

    @property
    def report(self) -> Report:
        """What training did: time reached, residual, error, evaluations, converged or not."""
        return self._fitted.report

    def tangent_kernels(self, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
        """Empirical tangent kernels of the networks as trained, Theta_t of Eq. 5, at X (T, in_dim).

        Entry [b, i, j, p, q] is the product of the gradients of head i at point p and head j at point q of network b,
        with respect to all parameters. `rndlib.initial.tangent_kernels` gives those before training.
        """
        X = self._points(X)
        backend = backends.load(self.backend)
        return self._fitted.per_body(lambda _, params: np.add(*backend.tangent_kernels(self.net, params, X)))

    @property
    def _fitted(self) -> Trained:
        if self._trained is None:
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self._trained

    def _points(self, X: ArrayLike) -> Float[np.ndarray, "t d"]:
        return checks.points("X", X, self.net.in_dim)

    def _train(self, heads: int, bodies: int, role: Role, X: np.ndarray, targets: Targets, **noise) -> Trained:
        backend = backends.load(self.backend)
        return training.train(self.net, heads, bodies, role, self.seed, backend, self.solver, X, targets, **noise)

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> Float[np.ndarray, "bodies heads t"]:
        return backends.load(self.backend).functions(self.net, params, X, dtype)

    def _tangents(
        self, bodies: list[int], start: Params, X: np.ndarray, dtype: str, by_head: bool
    ) -> Float[np.ndarray, "bodies heads t"]:
        """g~, the function of Proposition rndntkgpinit, of each body's initial parameters."""
        backend = backends.load(self.backend)
        if not by_head:
            return backend.tangents(self.net, start, draw_directions(self.net, self.seed, bodies, None), X, dtype)
        heads = start[-1][0].shape[1]
        size = max(1, DIRECTIONS_BYTES // (8 * max(1, self.net.hidden_parameters * len(bodies))))
        parts = []
        for first in range(0, heads, size):
            group = range(first, min(first + size, heads))
            last = tuple(a[:, group.start : group.stop] for a in start[-1])
            directions = draw_directions(self.net, self.seed, bodies, group)
            parts.append(backend.tangents(self.net, [*start[:-1], last], directions, X, dtype))
        return np.concatenate(parts, axis=1)
