"""What the estimators have in common: a description, a seed, a backend, a solver, and the trained bodies."""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.estimators import columns
from rndlib.estimators.protocol import Parameterised, not_fitted
from rndlib.network import MLP
from rndlib.training import backends
from rndlib.training.problem import Targets, Task, Trained
from rndlib.training.solvers import GradientFlow, Report, Solver
from rndlib.training.weights import Params, Role, draw_directions

Functions = Float[np.ndarray, "outputs t"]
Variances = Float[np.ndarray, " t"]
GroupVariances = Float[np.ndarray, "groups t"]
Network = MLP | Callable[[int], MLP] | None
Prediction = Variances | tuple[Variances, Variances]

DIRECTIONS_BYTES = 2**28
"""With a direction a head, as many heads are evaluated at a time as keep their directions within this."""


def parts(name: str, count: int, of: str, total: int) -> int:
    """The size of each of `count` equal parts of `total`; ValueError naming both where it does not divide."""
    count = checks.whole(name, count, at_least=1)
    if total % count:
        raise ValueError(f"{name} = {count}: give a divisor of {of} = {total}")
    return total // count


class Estimator(Parameterised):
    """What the four have in common: a description, a seed, a backend, a solver, and the trained bodies.

    Parameters are stored as given, for scikit-learn to find them unchanged. They are checked by the constructor, by
    `set_params`, and once more by `fit`, as an attribute can be set by hand.

    A fitted estimator is self-contained: `fit` keeps a copy of the estimator as it was, and all that is predicted comes
    from that copy. Attributes that are set afterwards count from the next `fit` on.
    """

    net_: MLP
    _trained: Trained
    n_features_in_: int

    def __init__(self, net: Network, seed: int, backend: str, solver: Solver | None, dtype: str):
        self.net = net
        self.seed = seed
        self.backend = backend
        self.solver = solver
        self.dtype = dtype

    def _check(self) -> None:
        if self.net is not None and not isinstance(self.net, MLP) and not callable(self.net):
            raise ValueError(
                f"net = {self.net!r}: give an rndlib.MLP, a function of the number of columns that makes one, or None"
            )
        if self.solver is not None and not isinstance(self.solver, Solver):
            raise ValueError(
                f"solver = {self.solver!r}: give rndlib.GradientFlow(...), GradientDescent(...) or "
                "StochasticGradient(...)"
            )
        checks.whole("seed", self.seed, at_least=0)
        checks.choice("backend", self.backend, backends.BACKENDS)
        checks.choice("dtype", self.dtype, ("float32", "float64"))

    @property
    def report(self) -> Report:
        """What training did: time reached, residual, error, evaluations, converged or not. NotFittedError before `fit`.

        >>> from rndlib import MLP, RND, datasets
        >>> RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report.converged
        True
        """
        return self._fitted._trained.report

    def tangent_kernels(self, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
        """Empirical tangent kernels of the networks as trained, Theta_t of Eq. 5, at X (T, in_dim).

        Entry [b, i, j, p, q] is the product of the gradients of head i at point p and head j at point q of network b,
        with respect to all parameters. `rndlib.initial.tangent_kernels` gives those before training.

        >>> from rndlib import MLP, RND, datasets
        >>> model = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X)
        >>> model.tangent_kernels([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).shape
        (1, 4, 4, 2, 2)
        """
        X, fitted = self._points(X), self._fitted
        backend = backends.load(fitted.backend)
        return fitted._trained.per_body(lambda _, params: np.add(*backend.tangent_kernels(fitted.net_, params, X)))

    @property
    def _fitted(self) -> Any:
        """The estimator as it was when it was fitted."""
        if self._as_fitted is None:
            raise not_fitted(f"this {type(self).__name__} is not trained yet: call fit first")
        return self._as_fitted

    def _described(self, X: Float[np.ndarray, "t d"]) -> Any:
        """The estimator as it was when it was fitted; before that as it is now, with a network for X's columns."""
        if self._as_fitted is not None:
            return self._as_fitted
        now = copy(self)
        now.net_ = self._network(X)
        return now

    def _end(self, trained: Trained) -> Any:
        """The end of `fit`: what was trained, and a copy of all that it was trained with."""
        self._as_fitted = copy(self)
        self._as_fitted._trained = trained
        return self

    def _begin(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Training points, checked along with the parameters. The last fit is forgotten: one that fails leaves none."""
        self._as_fitted = None
        self._check()
        names = columns.names(X)
        points = _by_rows(checks.points("X", X, self._in_dim))
        self.net_ = self._network(points)
        self.n_features_in_ = points.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return points

    def _points(self, X: ArrayLike) -> Float[np.ndarray, "t d"]:
        if self._as_fitted is None:  # Some of what comes next needs no training, and the rest says so.
            return _by_rows(checks.points("X", X, self._in_dim))
        columns.check(X, getattr(self, "feature_names_in_", None), type(self).__name__)
        return _by_rows(checks.points("X", X, self.n_features_in_, type(self).__name__))

    def _labels(self, y: ArrayLike | None, n_samples: int) -> Float[np.ndarray, " n"]:
        if y is None:
            name = type(self).__name__
            raise ValueError(f"y = None: {name} requires y to be passed, but the target y is None: give ({n_samples},)")
        return checks.labels("y", y, n_samples)

    def _network(self, X: Float[np.ndarray, "n d"]) -> MLP:
        """The network's description for points of these columns."""
        if isinstance(self.net, MLP):
            return self.net
        columns = X.shape[1]
        made = MLP(columns) if self.net is None else self.net(columns)
        if not isinstance(made, MLP) or made.in_dim != columns:
            raise ValueError(f"net({columns}) = {made!r}: give a function whose result is an MLP of in_dim {columns}")
        return made

    @property
    def _in_dim(self) -> int | None:
        return self.net.in_dim if isinstance(self.net, MLP) else None

    def _train(self, heads: int, bodies: int, role: Role, X: np.ndarray, targets: Targets, **noise) -> Trained:
        backend = backends.load(self.backend)
        solver = GradientFlow() if self.solver is None else self.solver
        task = Task(self.net_, int(heads), int(bodies), role, int(self.seed), X, targets, **noise)
        return solver.train(task, backend)

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> Float[np.ndarray, "bodies heads t"]:
        return backends.load(self.backend).functions(self.net_, params, X, dtype)

    def _tangents(
        self, bodies: list[int], start: Params, X: np.ndarray, dtype: str, by_head: bool
    ) -> Float[np.ndarray, "bodies heads t"]:
        """g~, the function of Proposition 4.1, of each body's initial parameters."""
        backend, net = backends.load(self.backend), self.net_
        if not by_head:
            return backend.tangents(net, start, draw_directions(net, self.seed, bodies, None), X, dtype)
        heads = start[-1][0].shape[1]
        size = max(1, DIRECTIONS_BYTES // (8 * max(1, net.hidden_parameters * len(bodies))))
        parts = []
        for first in range(0, heads, size):
            group = range(first, min(first + size, heads))
            w, b = (a[:, group.start : group.stop] for a in start[-1])
            directions = draw_directions(net, self.seed, bodies, group)
            parts.append(backend.tangents(net, [*start[:-1], (w, b)], directions, X, dtype))
        return np.concatenate(parts, axis=1)


def _by_rows(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Data frames come by columns, and the order in memory changes the rounding of products."""
    return np.ascontiguousarray(X)
