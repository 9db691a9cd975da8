"""Common base of the four estimators: a network, a seed, a backend, a solver and the trained bodies."""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.cores import slices
from rndlib.estimators.budget import ErrorBudget, error_budget
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.training import backends
from rndlib.training.problem import Targets, Task, Trained, column_group
from rndlib.training.protocols import Backend
from rndlib.training.solvers import GradientFlow, Report, Solver, StochasticGradient
from rndlib.training.weights import Params, Role, draw_directions

Functions = Float[np.ndarray, "outputs t"]
Variances = Float[np.ndarray, " t"]
GroupVariances = Float[np.ndarray, "groups t"]
PerHead = Float[np.ndarray, "bodies heads t"]
Network = MLP | AnyNetwork | Callable[[int], MLP] | None
Prediction = Variances | tuple[Variances, Variances]
Model = TypeVar("Model", bound="Estimator")


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """A scikit-learn estimator whose parameters are the fields of a dataclass.

    The constructor and `set_params` check the parameters. `fit` checks them again, because attributes can be set
    directly, and keeps a copy of the estimator for predictions: attributes set afterwards count from the next `fit`.
    """

    net: Network = None
    _: KW_ONLY
    seed: int = 0
    backend: str | None = None
    solver: Solver | None = None
    dtype: str = "float64"

    # No annotations, so not parameters.
    noise_std = 0.0  # of estimators without noise
    _scale = 1.0  # from the mean square of errors to a variance
    _crowded = False  # whether many heads share their parameters
    _as_fitted = None

    def __post_init__(self):
        self._check()

    def _check(self) -> None:
        """Check the values of all parameters."""
        if self.net is not None and not isinstance(self.net, MLP | AnyNetwork) and not callable(self.net):
            raise ValueError(
                f"net = {self.net!r}: give an rndlib.MLP, a function of the number of columns that makes one, an "
                "rndlib.torch.Module, an rndlib.jax.Function, or None"
            )
        if self.solver is not None and not isinstance(self.solver, Solver):
            raise ValueError(
                f"solver = {self.solver!r}: give rndlib.GradientFlow(...), GradientDescent(...) or "
                "StochasticGradient(...)"
            )
        checks.whole("seed", self.seed, at_least=0)
        if self.backend is not None:
            checks.choice("backend", self.backend, backends.BACKENDS)
        checks.choice("dtype", self.dtype, ("float32", "float64"))
        checks.non_negative("noise_std", self.noise_std)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the fields of `net` and `solver`, such as `net__width`.

        >>> from rndlib import MLP, RND
        >>> RND(MLP(3, width=64), heads=8).get_params()["net__width"]
        64
        """
        params = super().get_params(deep=False)
        return params | _nested(params) if deep else params

    def set_params(self: Model, **params: Any) -> Model:
        """Set parameters by the names that `get_params` gives, or none if one is refused. Forgets the previous fit.

        >>> from rndlib import MLP, RND
        >>> RND(MLP(3, width=64), heads=8).set_params(net__width=256, seed=1).net.width
        256
        """
        new = self.get_params(deep=False)
        for name in sorted(params, key=lambda name: "__" in name):  # `net` before its fields, such as `net__width`
            outer, _, field = name.partition("__")
            if name in new:
                new[name] = params[name]
            elif name in _nested(new):
                new[outer] = replace(new[outer], **{field: params[name]})
            else:
                unset = f"{outer} is {new[outer]!r} and has no {field}; " if outer in new else ""
                known = ", ".join([*new, *_nested(new)])
                raise ValueError(f"{name} = {params[name]!r}: {unset}choose among the parameters {known}")
        vars(self).update(vars(type(self)(**new)))  # the constructor refuses bad values before anything changes
        self._as_fitted = None
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._as_fitted is not None

    @property
    def report(self) -> Report:
        """The training report: time reached, residual, error, evaluations, and whether training converged.

        >>> from rndlib import MLP, RND, datasets
        >>> RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report.converged
        True
        """
        return self._fitted._trained.report

    def variance(self, X: ArrayLike) -> Variances:
        """Estimated variance at X (T, in_dim): (T,), in the squared units of y.

        For ensembles, the sample variance over two or more members (ddof = 1); for RND, half the mean squared error of
        all heads; for Bayesian RND, the mean squared error.

        >>> from rndlib import MLP, RND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
        >>> model.variance(data.X).max() < 1e-6 < model.variance(data.X_test).min()  # none at the training points
        np.True_
        """
        return self.variances(X, 1)[0]

    def variances(self, X: ArrayLike, groups: int) -> GroupVariances:
        """`variance` of each of `groups` equal groups of members or bodies, which are independent: (groups, T).

        >>> from rndlib import MLP, RND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X).variances(data.X_test, groups=2).shape
        (2, 5)
        """
        return self._fitted._group_variances(self._values(X), groups)

    def error_budget(self, X: ArrayLike, single: int = 64, kernel: reference.Network | None = None) -> ErrorBudget:
        """What the distance of `variance` from the theorem's, at X (T, in_dim), is made of (`ErrorBudget`).

        The parts are those of a finite number of heads or members, of the width, of the heads that share a body, of the
        training time and of the learning rate. If heads share a body, `single` networks of one head are trained to tell
        what this does from what the width does. `kernel` has the infinite kernels of a network of your own, as a
        function `kernel(X1, X2)` like those that `laws` takes; those of an `MLP` are known.

        Raises
        ------
        ValueError: The solver is neither gradient flow nor gradient descent, or a network of your own has no `kernel`.

        >>> from rndlib import MLP, RND, GradientFlow, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = RND(MLP(3, width=512), heads=1, bodies=64, solver=GradientFlow(time=1.0)).fit(data.X)
        >>> print(model.error_budget(data.X_test))
        variance off by +75.4 % of the law: sampling +19.7 %, width +1.9 %, heads +0.0 %, time +53.9 %, step +0.0 %
        """
        return error_budget(self._fitted, self.variance(X), X, single, kernel)

    def tangent_kernels(self, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
        """Empirical tangent kernels of the trained networks, Theta_t of Eq. 5, at X (T, in_dim).

        Entry [b, i, j, p, q] is the product of the gradients of head i at point p and head j at point q of network b,
        with respect to all parameters. `rndlib.initial.tangent_kernels` has the tangent kernels before training.

        >>> from rndlib import MLP, RND, datasets
        >>> model = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X)
        >>> model.tangent_kernels([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).shape
        (1, 4, 4, 2, 2)
        """
        fitted, points = self._fitted, self._points(X)
        backend = fitted._loaded
        return fitted._trained.per_body(lambda _, params: np.add(*backend.tangent_kernels(fitted.net_, params, points)))

    def _values(self, X: ArrayLike) -> Functions:
        """What `variance` is the variance or the mean square of."""
        raise NotImplementedError

    def _group_variances(self, values: Functions, groups: int) -> GroupVariances:
        raise NotImplementedError

    @property
    def _fitted(self) -> Any:
        """The estimator as it was when it was fitted."""
        check_is_fitted(self)
        return self._as_fitted

    @property
    def _loaded(self) -> Backend:
        return backends.of(self.net_, self.backend)

    def _points(self, X: Any) -> Any:
        """Points of the shape of the training points, as float64."""
        if isinstance(self.net_, AnyNetwork):
            return checks.points_of_any_shape("X", X, self._shape)
        return validate_data(self, X, reset=False, dtype=np.float64, order="C")

    def _begin(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Check all inputs. Forgets the previous fit, so that a failed fit leaves the estimator unfitted."""
        self._as_fitted = None
        self._check()
        points: Any
        if isinstance(self.net, AnyNetwork):
            backends.of(self.net, self.backend)
            points = checks.points_of_any_shape("X", X)
            y = None if y is None else checks.labels("y", y, len(points))
            self.net.examine(points)
            self.net_, self._shape = self.net, points.shape[1:]
            return points, y
        # X in row order: data frames are stored by columns, and the memory order changes rounding.
        options: dict[str, Any] = {"y": y, "dtype": np.float64, "order": "C"}
        if y is None:
            points = validate_data(self, X, **options)
        else:
            points, y = validate_data(self, X, y_numeric=True, **options)
            y = np.asarray(y, np.float64)
        self.net_ = self._network(points.shape[1])
        return points, y

    def _before(self, X: Any) -> tuple[Any, Any]:
        """The estimator as it was fitted, or a copy of it that will not be, and its points."""
        if self._as_fitted is not None:
            return self._as_fitted, self._points(X)
        model: Any = copy(self)
        return model, model._begin(X, np.zeros(np.shape(X)[:1]))[0]  # scikit-learn asks ensembles for labels

    def _end(self: Model, trained: Trained, X: np.ndarray) -> Model:
        """Keep the trained bodies, what they were trained on, and a copy of the estimator that trained them."""
        self._trained = trained
        self._X = None if isinstance(self.solver, StochasticGradient) else X.copy()  # It may be large, and has no law.
        self._as_fitted = copy(self)
        return self

    def _network(self, columns: int) -> MLP:
        """The network for points with this number of columns."""
        if isinstance(self.net, MLP):
            if self.net.in_dim != columns:
                raise ValueError(f"X has {columns} columns: give the {self.net.in_dim} of net = {self.net}")
            return self.net
        made: Any = self.net(columns) if callable(self.net) else MLP(columns)
        if not isinstance(made, MLP) or made.in_dim != columns:
            raise ValueError(f"net({columns}) = {made!r}: give a function whose result is an MLP of in_dim {columns}")
        return made

    def _train(self, heads: int, bodies: int, role: Role, X: np.ndarray, targets: Targets, **options: bool) -> Trained:
        solver = GradientFlow() if self.solver is None else self.solver
        noise_std = float(self.noise_std)
        task = Task(self.net_, int(heads), int(bodies), role, int(self.seed), X, targets, noise_std, **options)
        return solver.train(task, self._loaded)

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> PerHead:
        return self._loaded.functions(self.net_, params, X, dtype)

    def _tangents(self, bodies: list[int], start: Params, X: np.ndarray, dtype: str, by_head: bool) -> PerHead:
        """g~, the function of Proposition 4.1, of each body's initial parameters."""
        backend, net = self._loaded, self.net_
        if not by_head:
            return backend.tangents(net, start, draw_directions(net, self.seed, bodies, None), X, dtype)
        heads, parts = range(start[-1][0].shape[1]), []
        for some in slices(len(heads), column_group(net, len(bodies))):
            head = tuple(array[:, some] for array in start[-1])
            directions = draw_directions(net, self.seed, bodies, heads[some])
            parts.append(backend.tangents(net, [*start[:-1], head], directions, X, dtype))
        return np.concatenate(parts, axis=1)


def equal_parts(name: str, count: int, of: str, total: int) -> int:
    """Size of each of `count` equal parts of `total`; a ValueError names both if `count` does not divide `total`."""
    count = checks.whole(name, count, at_least=1)
    if total % count:
        raise ValueError(f"{name} = {count}: give a divisor of {of} = {total}")
    return total // count


def _nested(params: dict[str, Any]) -> dict[str, Any]:
    """The fields of those parameters that are dataclasses, by names such as `net__width`."""
    described = {name: value for name, value in params.items() if is_dataclass(value) and not isinstance(value, type)}
    return {f"{name}__{f.name}": getattr(value, f.name) for name, value in described.items() for f in fields(value)}
