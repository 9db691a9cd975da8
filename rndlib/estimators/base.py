"""What the four estimators have in common: their parameters, what `fit` makes of its arguments, and what it leaves.

`rndlib.estimators.functions` has the networks, and `rndlib.estimators.fits` what training leaves of them.
"""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.estimators import departure
from rndlib.estimators.automatic import Choice, choose, prior_std
from rndlib.estimators.exact import Exact, fits
from rndlib.estimators.fits import Linear, Steps
from rndlib.estimators.functions import Following, Networks
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.training import backends
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, Solver

Functions = Float[np.ndarray, "functions t *outputs"]
Variances = Float[np.ndarray, "t *outputs"]
Prediction = Variances | tuple[Variances, Variances]
Model = TypeVar("Model", bound="Estimator")

CHOSEN = ("net_", "prior_", "noise_std_", "input_scales_", "log_evidence_")
"""Attributes of a fitted model that automatic mode chooses."""

STREAM = "Trained further from its weights on other data: held against no theorem, but `laws.stream` has its limit."


def _given(model: Any) -> bool:
    if model.net is None:
        raise AttributeError(
            "net = None: the automatic estimator chooses anew for all rows: call fit, or give a network"
        )
    return True


@dataclass(eq=False, repr=False)
class Estimator(Networks, BaseEstimator):
    """A scikit-learn estimator whose parameters are the fields of a dataclass.

    The constructor checks them, and `fit` checks them again, as they can be set. `fit` keeps a copy of the estimator
    for predictions: attributes set afterwards count from the next `fit`.
    """

    net: MLP | AnyNetwork | Callable[[int], MLP] | None = None
    _: KW_ONLY
    seed: int = 0
    random_state: Any = None
    backend: str | None = None
    solver: Solver | None = None
    input_scales: Any = None

    # No annotations, so not parameters.
    noise_std = None  # of estimators without noise
    prior_mean = None  # of estimators without labels
    prior = None  # of estimators whose prior is not chosen
    prior_ = None  # the one of `_priors` that the fit took
    _priors = (None,)
    gamma = None  # of estimators without values
    linearised = False  # of estimators that cannot be
    _labelled = True  # or labels are ignored
    _covered = True  # whether a theorem is about them
    _any_length = False  # or automatic ones take as many points as N x N matrices fit in memory
    _as_fitted = None

    def __post_init__(self):
        self._check()

    def _check(self) -> None:
        """Check the values of all parameters."""
        net, solver, mean = self.net, self.solver, self.prior_mean
        checks.require(
            net is None or isinstance(net, MLP | AnyNetwork) or callable(net),
            f"net = {net!r}: give an rndlib.MLP, a function of the number of columns that makes one, an "
            "rndlib.torch.Module, an rndlib.jax.Function, or None",
        )
        checks.require(
            isinstance(solver, Solver | None),
            f"solver = {solver!r}: give rndlib.GradientFlow(...), GradientDescent(...) or StochasticGradient(...)",
        )
        checks.require(
            solver is None or net is not None,
            f"solver = {solver!r} with net = None: the automatic estimator trains exactly: leave solver out, or give "
            "the network that it should train, such as net=partial(MLP, width=512)",
        )
        checks.whole("seed", self.seed, at_least=0)
        if self.backend is not None:
            checks.choice("backend", self.backend, backends.BACKENDS)
        if self.noise_std is not None:
            checks.non_negative("noise_std", self.noise_std)
        checks.require(isinstance(self.linearised, bool), f"linearised = {self.linearised!r}: give True or False")
        checks.require(
            not self.linearised or isinstance(solver, GradientFlow | None),
            f"solver = {solver!r}: a linearised network takes GradientFlow(time=...) or None",
        )
        if self.gamma is not None:
            checks.non_negative("gamma", self.gamma)
            missing = f"gamma = {self.gamma!r} with net = None: give the network that the values are of"
            checks.require(net is not None, missing)
            checks.require(
                self.linearised or isinstance(solver, GradientDescent),
                f"solver = {solver!r} with gamma = {self.gamma!r}: give GradientDescent(...), or linearised=True",
            )
        checks.require(mean is None or callable(mean), f"prior_mean = {mean!r}: give a function of X, or None for zero")
        checks.require(
            self.input_scales is None or net is None,
            "input_scales: the automatic estimator (net=None) alone scales columns: divide X by them",
        )

    def __str__(self) -> str:
        """The parameters, and after a fit what was chosen."""
        known = vars(self) if self._as_fitted is not None and self.net is None else {}
        return "\n".join([repr(self), *(f"{name} = {known[name]}" for name in CHOSEN if known.get(name) is not None)])

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

    def variance(self: Any, X: ArrayLike) -> Variances:
        """Estimated variance of the function at X (T, in_dim), without noise: (T,), in the squared units of y.

        For ensembles, the sample variance over two or more members (ddof = 1); for RND, half the mean squared error of
        all heads; for Bayesian RND, the mean squared error. In automatic mode (net=None), the exact variance at
        infinite width. With labels of several outputs, (T, outputs).

        >>> from rndlib import MLP, RND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
        >>> model.variance(data.X).max() < 1e-6 < model.variance(data.X_test).min()  # none at the training points
        np.True_
        """
        fitted = self._fitted
        if not isinstance(fitted._fit, Exact):
            return self._variance_of(self._values(X))
        return fitted._deviations(fitted._fit.moments(self._points(X)[1])[1]) ** 2

    def fit(
        self: Model,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        X_next: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
    ) -> Model:
        """Train all networks on X (N, in_dim) and, but for RND, labels y (N,) or (N, outputs).

        Ensembles need labels. Bayesian RND trains a mean network on them if they are given and `mean` is not. RND
        ignores them; they exist for scikit-learn pipelines. With `gamma`, y are rewards, `X_next` (N, in_dim) the
        states that follow X, and `terminal` (N,) says of which transitions nothing follows. No state may be in X twice.

        Warns with `DepartureWarning` if variance or mean are far from the theorem's, with `HeadsWarning` if RND has too
        many heads for the width, with `ScaleWarning` if X or y are on scales that no network is made for, and with
        `ConditionWarning` if training may take long.

        Raises
        ------
        ValueError: X has a singular kernel.
        DivergenceError: A network diverged.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0)
        >>> DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y).report.converged
        True
        """
        points = self._begin(X, y if self._labelled else None)
        self._following = self._read_next(points, X_next, terminal)
        self._examine()
        exact = self.net is None and (fits(len(points)) or not self._any_length)
        self._fit = (Exact if exact else Linear if self._linear else Steps).fit(self, points)
        return self._end(points)

    @available_if(_given)
    def partial_fit(self: Any, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Train on from the current weights, on the points X (N, in_dim) alone; the first call is `fit`.

        Each call is a stage of `laws.stream`: earlier points are not kept, and what is learnt about them may be lost.
        What is random stays as it was drawn: the target of RND, the directions of the Bayesian methods, and the point
        at which a linearised network has its tangent. Labels y (N,) are those of ensembles, and of the mean of Bayesian
        RND where the first call had them. Parameters are those of the first call. A call that fails leaves the fit as
        it was.

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
        if now._labels is not None:
            checks.require(y is not None, "y = None: the first call had labels: give them to each")
            labels = checks.outputs("y", [] if y is None else y, len(points))
            outputs = labels.shape[1:]
            checks.require(
                outputs == now._outputs, f"y has outputs {outputs}: give {now._outputs}, as in the first call"
            )
            now._labels = labels.reshape(len(points), -1) - now._prior(given)
        now._fit = type(now._fit).fit(now, points, now._fit)
        report = now._fit.trained.report
        now._report = replace(report, notes=(*report.notes, STREAM), departure=None)
        self._fit, self._report, self._as_fitted = now._fit, now._report, now
        return self

    @property
    def _fitted(self) -> Any:
        """The estimator as it was when it was fitted."""
        check_is_fitted(self)
        return self._as_fitted

    # --------------------------------------------------------------------------------------------- the arguments of fit

    def _begin(self, X: Any, y: Any = None) -> Any:
        """Check all inputs, and choose what is not given: points, and `_labels` (N, outputs), in the network's units.

        Forgets the previous fit, so that a failed fit leaves the estimator unfitted.
        """
        self._as_fitted = None
        self._fit: Any = None
        self._check()
        points, labels = self._read(X, y)
        self._outputs = () if labels is None else labels.shape[1:]
        self._seed = int(self.seed)
        if self.random_state is not None:
            self._seed = int(check_random_state(self.random_state).randint(2**31))
        choice, labels = self._compared(points, labels)
        self.net_, self._units, self._notes = choice.net, choice.units, choice.notes
        if self.prior_ is not None and (self.net is not None or self.prior_.features is not None):
            self.net_ = self.prior_._network(self.net_, points, self.backend)
            self._units = replace(self._units, prior=self.prior_)
        # An ensemble on a user's network has no noise, even where the evidence of its output scale has.
        noisy = self.net is None or "noise_std" in self.get_params(deep=False)
        self._noise = choice.noise_std if noisy else 0.0
        noise = self._noise * np.broadcast_to(self._units.size, self._outputs or (1,))
        self.noise_std_ = noise if self._outputs else float(noise[0])
        if self.net is None:
            self.input_scales_, self.log_evidence_ = choice.units.scale, choice.log_evidence
        inputs = self._units.inputs(points)
        if self.net is not None:
            # A network of the user's own may look up whole numbers, whose scale says nothing.
            looked_up = isinstance(self.net, AnyNetwork) and bool((points == np.round(points)).all())
            deviation = None if labels is None else prior_std(self.net_, inputs)
            checks.scales(points[:1] if looked_up else points, labels, deviation, self._noise)
        self._labels: Any = None if labels is None else self._units.labels(labels)
        return inputs

    def _compared(self, points: np.ndarray, labels: Any) -> tuple[Choice, Any]:
        """The choice for the prior of largest evidence, which becomes `prior_`, and labels less its mean."""
        checks.require(
            labels is not None or len(self._priors) == 1,
            f"y = None with {len(self._priors)} priors: give y, whose evidence compares them, or one prior",
        )
        found = []
        for prior in self._priors:
            self.prior_ = prior
            rest = None if labels is None else labels.reshape(len(points), -1) - self._prior(points)
            choice = choose(self.net_, points, rest, self.noise_std, self.input_scales, prior)
            found.append((choice, rest, prior))
        choice, rest, self.prior_ = max(found, key=lambda each: each[0].log_evidence or 0.0)
        if len(found) > 1:
            nats = ", ".join(f"{each[0].log_evidence:.1f}" for each in found)
            note = f"That is the largest evidence of {len(found)} priors, which have {nats} nats."
            choice = replace(choice, notes=(*choice.notes, note))
        return choice, rest

    def _validated(self, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> tuple[Any, Any]:
        """Points (N, *shape) as float64 and labels, in the user's units; of new points, those of a fit have a `shape`.

        A `y` of "no_validation" is scikit-learn's word for no labels where there have to be some.
        """
        labelled = not isinstance(y, str | None)
        if isinstance(self.net, AnyNetwork):
            validate_data(self, X, y, reset=shape is None, skip_check_array=True)  # names, and whether y is needed
            return checks.points_of_any_shape("X", X, shape), y
        # X in row order: data frames are stored by columns, and the memory order changes rounding.
        options: Any = {"y_numeric": True, "multi_output": True} if labelled else {}
        read: Any = validate_data(self, X, y, reset=shape is None, dtype=np.float64, order="C", **options)
        return read if labelled else (read, y)

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Points (N, *shape) and labels (N, *outputs) as float64, in the user's units, and `net_` for them."""
        if isinstance(self.net, AnyNetwork):
            backends.of(self.net, self.backend)
        points, y = self._validated(X, y)
        net: Any = self.net
        if callable(self.net):
            columns = points.shape[1]
            net = self.net(columns)
            checks.require(
                isinstance(net, MLP) and net.in_dim == columns,
                f"net({columns}) = {net!r}: give a function whose result is an MLP of in_dim {columns}",
            )
        if net is not None:
            net.examine(points)
        self.net_: Any = net
        self._shape = points.shape[1:]
        return points, None if isinstance(y, str | None) else checks.outputs("y", y, len(points))

    def _read_next(self, points: np.ndarray, X_next: Any, terminal: Any) -> Following | None:
        """What follows the training points; None without `gamma`."""
        if self.gamma is None:
            checks.require(X_next is None and terminal is None, "gamma = None: give gamma to use X_next and terminal")
            return None
        checks.require(X_next is not None, f"X_next = None with gamma = {self.gamma!r}: give the states that follow X")
        states = checks.points_of_any_shape("X_next", X_next, points.shape[1:])
        return Following(states, reference.discounts(self.gamma, terminal, states, len(points)))

    def _points(self, X: Any) -> tuple[Any, Any]:
        """Points of the shape of the training points: in the user's units, and as the network reads them."""
        fitted = self._fitted
        points, _ = fitted._validated(X, "no_validation", fitted._shape)
        return points, fitted._units.inputs(points)

    def _prior(self, points: np.ndarray) -> Any:
        """The prior mean at points in the user's units: (T, outputs), or 0."""
        mean: Any = self.prior_mean if self.prior_ is None else self.prior_.mean
        return 0.0 if mean is None else self._of_user("prior_mean", mean, points).reshape(len(points), -1)

    def _of_user(self, name: str, function: Callable[[Any], Any], points: np.ndarray) -> np.ndarray:
        """The values (T, *outputs) of a user's function of X."""
        values = checks.outputs(f"{name}(X)", function(points), len(points))
        if values.shape[1:] != self._outputs:
            raise ValueError(f"{name}(X) has shape {values.shape}: give {(len(points), *self._outputs)}")
        return values

    # ------------------------------------------------------------------------------------------------ what a fit leaves

    def _examine(self) -> None:
        """Refuse or warn of what has been chosen for a fit, before it trains."""

    def _calibrate(self, X: np.ndarray) -> None:
        """Add to a fit on X what more the estimator needs for predictions."""

    def _end(self: Model, X: np.ndarray) -> Model:
        """Report on training on X, and keep a copy of the estimator for predictions.

        Warns with `DepartureWarning` if networks are far from the theorem.
        """
        fit = self._fit
        self._calibrate(X)
        covered = isinstance(fit, Steps) and self._covered and self._following is None
        found, refusal = departure.of(self, X) if covered else (None, ())
        notes = (*self._notes, *fit.trained.report.notes, *refusal)
        if isinstance(self.net, AnyNetwork) and self.net.untrained:
            notes += (f"Not trained, as they start the same in every draw: {', '.join(self.net.untrained)}.",)
        self._report = replace(fit.trained.report, notes=notes, departure=found)
        if found and found.departs:
            warnings.warn(str(found), departure.DepartureWarning, stacklevel=3)
        self._as_fitted = copy(self)
        return self

    def _before(self, X: Any) -> tuple[Any, Any]:
        """The estimator as it was fitted, or a copy of it that will not be, and its points in the network's units."""
        if self._as_fitted is not None:
            return self._as_fitted, self._points(X)[1]
        if self.net is None:
            raise NotFittedError("net = None: the automatic estimator chooses a network when it is fitted: call fit")
        model: Any = copy(self)
        return model, model._begin(X, "no_validation")

    def _deviations(self, variance: Float[np.ndarray, " t"]) -> Variances:
        """The roots of variances of the network's, in the user's units."""
        return self._units.spread(np.sqrt(variance), self._outputs)
