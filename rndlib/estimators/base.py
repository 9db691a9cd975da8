"""Common base of the four estimators: a network, a seed, a backend, a solver and the trained bodies."""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from functools import partial
from math import inf
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.cores import slices, split
from rndlib.estimators import exact
from rndlib.estimators.automatic import Automatic, scaled_by_evidence
from rndlib.estimators.budget import ErrorBudget, error_budget
from rndlib.estimators.departure import NETWORKS, PROBES, Departure, Kind, measure, probes
from rndlib.estimators.units import Units
from rndlib.network import MLP
from rndlib.theory import kernels, reference
from rndlib.training import backends
from rndlib.training.problem import Drawn, Task, Trained, block_size, column_group
from rndlib.training.protocols import Backend
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, Solver, StochasticGradient
from rndlib.training.trees import mapped
from rndlib.training.weights import Params, Role

Functions = Float[np.ndarray, "functions t *outputs"]
Variances = Float[np.ndarray, "t *outputs"]
GroupVariances = Float[np.ndarray, "groups t *outputs"]
PerHead = Float[np.ndarray, "bodies heads t"]
Network = MLP | AnyNetwork | Callable[[int], MLP] | None
MeanFunction = Callable[[Float[np.ndarray, "t ..."]], Float[np.ndarray, "t ..."]]
"""A function of points in the user's units, (T,) or (T, outputs)."""
Prediction = Variances | tuple[Variances, Variances]
Model = TypeVar("Model", bound="Estimator")
MOST_MEASURED = 2000
"""Points up to which the departure is measured where training itself forms no kernel."""

MANY_DRAWS = 16
"""Networks whose tangent kernels are averaged for it: with 4, the factor is off by up to a tenth for that alone."""

CHOSEN = ("net_", "noise_std_", "input_scales_", "log_evidence_")
"""Attributes of a fitted model that automatic mode chooses."""


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """A scikit-learn estimator whose parameters are the fields of a dataclass.

    The constructor and `set_params` check the parameters. `fit` checks them again, because attributes can be set
    directly, and keeps a copy of the estimator for predictions: attributes set afterwards count from the next `fit`.
    """

    net: Network = None
    _: KW_ONLY
    seed: int = 0
    random_state: Any = None
    backend: str | None = None
    solver: Solver | None = None
    dtype: Any = "float64"
    input_scales: Any = None

    # No annotations, so not parameters.
    noise_std = None  # of estimators without noise
    prior_mean = None  # of estimators without labels
    _scale = 1.0  # from the mean square of errors to a variance
    _bayesian = False  # whether errors start with covariance Theta rather than kappa
    _labelled = True  # whether labels choose the network in automatic mode
    _linear = False  # whether networks are linearised
    _covered = True  # whether a theorem is about them
    _kind: ClassVar[Kind] = "error"  # what `variance` is the mean square or the sample variance of
    _crowded = False  # whether many heads share their parameters
    _exact = cast("exact.Exact | None", None)
    _trained = cast("Trained | None", None)
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
        if self.net is None and self.solver is not None:
            raise ValueError(
                f"solver = {self.solver!r} with net = None: the automatic estimator trains exactly: leave solver out, "
                "or give the network that it should train, such as net=partial(MLP, width=512)"
            )
        checks.whole("seed", self.seed, at_least=0)
        if self.backend is not None:
            checks.choice("backend", self.backend, backends.BACKENDS)
        checks.choice("dtype", _name(self.dtype), ("float32", "float64"))
        if self.noise_std is not None:
            checks.non_negative("noise_std", self.noise_std)
        if self.prior_mean is not None and not callable(self.prior_mean):
            raise ValueError(f"prior_mean = {self.prior_mean!r}: give a function of X, or None for zero")
        if self.input_scales is not None and self.net is not None:
            raise ValueError("input_scales: the automatic estimator (net=None) alone scales columns: divide X by them")

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
        if not params:
            return self
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
        self._as_fitted = self._trained = self._exact = None
        return self

    def __str__(self) -> str:
        """The parameters, and after a fit what was chosen."""
        known = vars(self) if self._as_fitted is not None and self.net is None else {}
        chosen = [f"{name} = {known[name]}" for name in CHOSEN if known.get(name) is not None]
        return "\n".join([repr(self), *chosen])

    def __sklearn_is_fitted__(self) -> bool:
        return self._as_fitted is not None

    @property
    def report(self) -> Report:
        """The training report: time reached, residual, error, evaluations, and whether training converged.

        >>> from rndlib import MLP, RND, datasets
        >>> RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X).report.converged
        True
        """
        return self._fitted._report

    def variance(self, X: ArrayLike) -> Variances:
        """Estimated variance of the function at X (T, in_dim), without noise: (T,), in the squared units of y.

        For ensembles, the sample variance over two or more members (ddof = 1); for RND, half the mean squared error of
        all heads; for Bayesian RND, the mean squared error. In automatic mode (net=None), the variance that these
        estimate, at infinite width. With labels of several outputs, (T, outputs).

        >>> from rndlib import MLP, RND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
        >>> model.variance(data.X).max() < 1e-6 < model.variance(data.X_test).min()  # none at the training points
        np.True_
        """
        fitted = self._fitted
        if fitted._exact is None:
            return self.variances(X, 1)[0]
        exact = fitted._exact.variance(fitted._inputs(self._points(X)))
        sizes = np.broadcast_to(fitted._units.size, fitted._outputs or (1,)) ** 2
        return exact[:, None] * sizes if fitted._outputs else exact * sizes[0]

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
        fitted = self._fitted
        if fitted._exact is not None:
            raise ValueError("net = None: the automatic estimator's variance is exact: there is nothing to decompose")
        return error_budget(fitted, self.variance(X), X, single, kernel)

    def tangent_kernels(self, X: ArrayLike) -> Float[np.ndarray, "bodies heads heads t t"]:
        """Empirical tangent kernels of the trained networks, Theta_t of Eq. 5, at X (T, in_dim).

        Entry [b, i, j, p, q] is the product of the gradients of head i at point p and head j at point q of network b,
        with respect to all parameters. `rndlib.initial.tangent_kernels` has the tangent kernels before training.

        >>> from rndlib import MLP, RND, datasets
        >>> model = RND(MLP(3, width=64), heads=4).fit(datasets.toy(0).X)
        >>> model.tangent_kernels([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).shape
        (1, 4, 4, 2, 2)
        """
        fitted = self._fitted
        points, backend = fitted._inputs(self._points(X)), fitted._loaded

        def own(drawn: Drawn, params: Params) -> np.ndarray:
            if not fitted._linear:
                return np.add(*backend.tangent_kernels(fitted.net_, params, points))
            kernel = np.add(*backend.tangent_kernels(fitted.net_, drawn.tangent, points))
            return np.eye(drawn.start[-1][0].shape[1])[:, :, None, None] * kernel  # no head shares its parameters

        return fitted._trained.per_body(own)

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
        """Points of the shape of the training points, as float64, in the user's units."""
        if isinstance(self.net_, AnyNetwork):
            validate_data(self, X, reset=False, skip_check_array=True)  # names of columns
            return checks.points_of_any_shape("X", X, self._shape)
        return validate_data(self, X, reset=False, dtype=np.float64, order="C")

    def _inputs(self, points: np.ndarray) -> np.ndarray:
        """Points as the network reads them."""
        return self._units.inputs(points) if self.net is None else points

    def _begin(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Check all inputs, and choose what is not given: points and labels (N, outputs) in the network's units.

        Forgets the previous fit, so that a failed fit leaves the estimator unfitted.
        """
        self._as_fitted = self._trained = self._exact = None
        self._check()
        points, labels = self._validated(X, y)
        self._outputs = () if labels is None else labels.shape[1:]
        if labels is not None:
            labels = labels.reshape(len(points), -1) - self._prior(points)
        self._seed = self.seed
        if self.random_state is not None:
            self._seed = int(check_random_state(self.random_state).randint(2**31))
        self._units, self._noise, self._notes = Units(), float(self.noise_std or 0.0), ()
        if self.net is None:
            choice = Automatic.choose(points, labels if self._labelled else None, self.noise_std, self.input_scales)
            self.net_, self._units, self._noise, self._notes = choice.net, choice.units, choice.noise_std, choice.notes
            self.input_scales_, self.log_evidence_ = choice.units.scale, choice.log_evidence
            points, labels = self._units.inputs(points), None if labels is None else self._units.labels(labels)
        else:
            if isinstance(self.net_, AnyNetwork) and self.net_.output_scale is None and labels is not None:
                self.net_, noise, self._notes = scaled_by_evidence(self.net_, points, labels, self.noise_std)
                self._noise = noise if "noise_std" in self.get_params(deep=False) else 0.0
            judged = points[:1] if self._looks_up(points) else points
            checks.scales(judged, labels, None if labels is None else self._prior_std(points), self._noise)
        noise = self._noise * np.broadcast_to(self._units.size, self._outputs or (1,))
        self.noise_std_ = noise if self._outputs else float(noise[0])
        return points, labels

    def _looks_up(self, points: np.ndarray) -> bool:
        """Whether a user's network may look its points up, as they are whole numbers: their scale says nothing."""
        return isinstance(self.net_, AnyNetwork) and bool((points == np.round(points)).all())

    def _prior_std(self, points: np.ndarray) -> float | None:
        """The deviation of the network's prior at some points; None if its kernel is not known."""
        net: Any = self.net_
        if isinstance(net, AnyNetwork):
            net, points = partial(kernels.empirical, net, draws=2), points[:16]
        try:
            return float(np.sqrt(reference.diagonal(net, points).ntk.mean()))
        except ValueError:
            return None

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Points (N, *shape) and labels (N, *outputs) as float64, in the user's units."""
        points: Any
        if isinstance(self.net, AnyNetwork):
            backends.of(self.net, self.backend)
            validate_data(self, X, y, skip_check_array=True)  # names of columns, and whether labels are needed
            points = checks.points_of_any_shape("X", X)
            y = None if y is None else checks.outputs("y", y, len(points))
            self.net.examine(points)
            self.net_, self._shape = self.net, points.shape[1:]
            return points, y
        # X in row order: data frames are stored by columns, and the memory order changes rounding.
        options: dict[str, Any] = {"dtype": np.float64, "order": "C"}
        if y is None:
            points = validate_data(self, X, cast("Any", y), **options)  # it knows whether labels are needed
        else:
            points, y = validate_data(self, X, y, y_numeric=True, multi_output=True, **options)
            y = checks.outputs("y", y, len(points))
        if self.net is not None:
            self.net_ = self._network(points.shape[1])
        return points, y

    def _prior(self, points: np.ndarray) -> Any:
        """The prior mean at points in the user's units: (T, outputs), or 0."""
        return 0.0 if self.prior_mean is None else self._of_user("prior_mean", points).reshape(len(points), -1)

    def _of_user(self, name: str, points: np.ndarray) -> np.ndarray:
        """The values (T, *outputs) of a user's function of X."""
        values = checks.outputs(f"{name}(X)", getattr(self, name)(points), len(points))
        if values.shape[1:] != self._outputs:
            raise ValueError(f"{name}(X) has shape {values.shape}: give {(len(points), *self._outputs)}")
        return values

    def _functions_of(self, values: Float[np.ndarray, "functions outputs t"], points: np.ndarray) -> Functions:
        """Functions of the network's in the user's units, at points in these units: (functions, T, *outputs)."""
        found = np.swapaxes(values, 1, 2) * self._units.size + self._units.mean + self._prior(points)
        return found.reshape(len(values), len(points), *self._outputs)

    def _before(self, X: Any) -> tuple[Any, Any]:
        """The estimator as it was fitted, or a copy of it that will not be, and its points in the network's units."""
        if self._as_fitted is not None:
            return self._as_fitted, self._as_fitted._inputs(self._points(X))
        if self.net is None:
            raise NotFittedError("net = None: the automatic estimator chooses a network when it is fitted: call fit")
        model: Any = copy(self)
        return model, model._begin(X, np.zeros(np.shape(X)[:1]))[0]  # scikit-learn asks ensembles for labels

    def _end(self: Model, trained: Trained, X: np.ndarray, y: np.ndarray | None = None) -> Model:
        """Keep the trained bodies, what they were trained on, and a copy of the estimator that trained them.

        Warns with `DepartureWarning` if they are far from the theorem; y (N, outputs) are the labels that they have.
        """
        self._trained = trained
        measured = self._measure(X, y)
        if measured:
            measured.warn(stacklevel=3)
        notes = (*self._notes, *trained.report.notes)
        if isinstance(self.net_, AnyNetwork) and self.net_.untrained:
            notes += (f"Not trained, as they start the same in every draw: {', '.join(self.net_.untrained)}.",)
        self._report = replace(trained.report, notes=notes, departure=measured)
        self._X = None if isinstance(self.solver, StochasticGradient) else X.copy()  # It may be large, and has no law.
        self._as_fitted = copy(self)
        return self

    def _measure(self, X: np.ndarray, y: np.ndarray | None) -> Departure | None:
        """How far trained networks are from the theorem; None where there is no theorem, or its kernel is not known."""
        solver, trained, n = GradientFlow() if self.solver is None else self.solver, self._trained, len(X)
        if trained is None or self._linear or not self._covered or not self.net_.hidden_parameters:
            return None
        if isinstance(solver, StochasticGradient) and (not self._bayesian or solver.patience or n > MOST_MEASURED):
            return None  # there is no training time to which the theorem could refer
        if isinstance(solver, GradientDescent) and n > MOST_MEASURED:
            return None
        net, most = self.net_, PROBES
        kernel: Any = net
        if isinstance(net, AnyNetwork):
            kernel, most = partial(kernels.empirical, net, draws=MANY_DRAWS), PROBES // 4
        points = probes(X, most, isinstance(net, AnyNetwork))
        try:
            train, across = (reference.between(kernel, X, other) for other in (X, points))
            probe = reference.diagonal(kernel, points)
        except ValueError:  # an activation whose kernel cannot be integrated
            return None
        places, enough = np.concatenate([X, points]), 0
        start, after, offsets = [], [], []
        for drawn, (block, params) in zip(trained.drawn, trained.blocks, strict=True):
            start.append(self._start_values(drawn, places, "float64"))
            after.append(self._end_values(points, drawn, params))
            offsets += [] if drawn.offsets is None else [drawn.offsets]
            enough += len(block)
            if enough >= NETWORKS:
                break
        bodies = min(enough, trained.bodies)
        head = slice(1 if self._kind == "ensemble" else None)
        try:
            return measure(
                self._kind,
                np.concatenate(start)[:bodies, head],
                np.concatenate(after)[:bodies, head],
                train,
                across,
                probe,
                bayesian=self._bayesian,
                y=None if y is None else y[:, 0],
                noise_std=self._noise,
                offsets=np.concatenate(offsets)[:bodies, :, head] if offsets else None,
                time=getattr(solver, "time", inf),
                learning_rate=solver.learning_rate if isinstance(solver, GradientDescent) else None,
                mean=self._mean_at(points),
            )
        except ValueError:  # a kernel that is singular in float64
            return None

    def _start_values(self, drawn: Drawn, X: np.ndarray, dtype: str) -> PerHead:
        """Functions of an ensemble, or errors, before training, at points X in the network's units."""
        raise NotImplementedError

    def _end_values(self, X: np.ndarray, drawn: Drawn, params: Params) -> PerHead:
        """The same after training."""
        raise NotImplementedError

    def _mean_at(self, X: np.ndarray) -> Float[np.ndarray, " t"] | None:
        """The mean network at points X in the network's units, where there is one; of its first output."""
        return None

    def _network(self, columns: int) -> MLP:
        """The network for points with this number of columns."""
        if isinstance(self.net, MLP):
            if self.net.in_dim != columns:
                raise ValueError(f"X has {columns} columns: give the {self.net.in_dim} of net = {self.net}")
            return self.net
        made: Any = self.net(columns) if callable(self.net) else None
        if not isinstance(made, MLP) or made.in_dim != columns:
            raise ValueError(f"net({columns}) = {made!r}: give a function whose result is an MLP of in_dim {columns}")
        return made

    def _train(
        self,
        heads: int,
        bodies: int,
        role: Role,
        X: np.ndarray,
        draw: Callable[[list[int]], Drawn],
        targets: Callable[[Drawn], PerHead],
    ) -> Trained:
        solver = GradientFlow() if self.solver is None else self.solver
        task = Task(self.net_, int(heads), int(bodies), role, int(self._seed), X, draw, targets, self._noise)
        trained = solver.train(task, self._loaded)
        return replace(trained, drawn=[task.drawn[tuple(block)] for block, _ in trained.blocks])

    def _train_exactly(
        self, heads: int, bodies: int, X: np.ndarray, draw: Callable[[list[int]], Drawn], y: np.ndarray
    ) -> Trained:
        """The map of infinite width for labels y (N, outputs), and the random numbers that it transports."""
        exact.demand(len(X))
        self._exact = exact.Exact.fit(self.net_, X, y, self._noise, self._bayesian)
        blocks = split(bodies, block_size(self.net_, heads, len(X)))
        return Trained(bodies, [(block, []) for block in blocks], exact.REPORT, [draw(block) for block in blocks])

    def _transported(self, drawn: Drawn, X: np.ndarray) -> PerHead:
        """What exact training on labels of zero makes of the values at the start, at points X."""
        assert self._exact is not None
        r = np.swapaxes(self._start_values(drawn, self._exact.X, "float64"), 1, 2)
        if drawn.offsets is not None:
            r = r + self._noise * drawn.offsets
        v = self._exact.solve(np.moveaxis(r, 1, 0).reshape(r.shape[1], -1))
        return self._start_values(drawn, X, self._precision) - self._exact.transfer(v, X).reshape(len(r), -1, len(X))

    @property
    def _precision(self) -> str:
        return _name(self.dtype)

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> PerHead:
        return self._loaded.functions(self.net_, params, X, dtype)

    def _tangents(self, drawn: Drawn, X: np.ndarray, dtype: str) -> PerHead:
        """g~, the function of Proposition 4.1, of each body's initial parameters."""
        at, psi = drawn.tangent, drawn.directions
        bodies, own_heads = at[-1][0].shape[:2]
        if not psi or len(psi[0][0]) == bodies:
            return self._loaded.tangents(self.net_, at, psi or [], X, dtype)
        heads, parts = len(psi[0][0]) // bodies, []
        for some in slices(heads, column_group(self.net_, bodies)):
            own = [tuple(a.reshape(bodies, heads, *a.shape[1:])[:, some] for a in layer) for layer in psi]
            own = mapped(lambda a: a.reshape(-1, *a.shape[2:]), own)
            head = at[-1] if own_heads == 1 else tuple(a[:, some] for a in at[-1])
            parts.append(self._loaded.tangents(self.net_, [*at[:-1], head], own, X, dtype))
        return np.concatenate(parts, axis=1)


def _name(dtype: Any) -> str:
    """The name of a floating-point type, or what it is called wrongly."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return dtype


class Regressor(RegressorMixin):
    """What estimators with a mean have in common: labels of several outputs, and intervals for new ones."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def interval(self: Any, X: ArrayLike, level: float = 0.9) -> tuple[Variances, Variances]:
        """Lower and upper end of the central interval for a new label at X (T, in_dim), noise included: each (T,).

        level: Probability that a new label falls inside, between 0 and 1.

        >>> from rndlib import BayesianRND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> low, high = BayesianRND().fit(data.X, data.y).interval(data.X_test)
        >>> bool((low < high).all())
        True
        """
        mean, std = self.predict(X, return_std=True)
        noise_std = self._fitted.noise_std_
        half = float(ndtri(0.5 + checks.fraction("level", level) / 2)) * np.sqrt(std**2 + np.square(noise_std))
        return mean - half, mean + half


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
