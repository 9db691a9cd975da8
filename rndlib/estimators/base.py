"""What the four estimators have in common: their parameters, `fit`, and what it leaves.

`rndlib.estimators.inputs` reads their arguments, `rndlib.estimators.functions` has the networks, and
`rndlib.estimators.fits` what training leaves of them.
"""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.estimators import departure
from rndlib.estimators.exact import Exact, fits
from rndlib.estimators.fits import Linear, Steps
from rndlib.estimators.functions import Networks
from rndlib.estimators.inputs import Inputs
from rndlib.estimators.outputs import fit_each, several, stacked
from rndlib.network import MLP
from rndlib.training import backends
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, Solver
from rndlib.training.weights import Role

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
class Estimator(Networks, Inputs):
    """A scikit-learn estimator whose parameters are the fields of a dataclass.

    The constructor checks them, and `fit` checks them again, as they can be set. `fit` keeps a copy of the estimator
    for predictions: attributes set afterwards take effect at the next `fit`.
    """

    net: MLP | AnyNetwork | Callable[[int], MLP] | None = None
    _: KW_ONLY
    seed: int = 0
    random_state: Any = None
    backend: str | None = None
    solver: Solver | None = None
    input_scales: Any = None

    # No annotations, so not parameters.
    linearised = False  # of estimators that cannot be
    _labelled = True  # or labels are ignored
    _covered = True  # whether a theorem is about them
    _any_length = False  # or automatic ones take as many points as N x N matrices fit in memory

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
            missing = f"gamma = {self.gamma!r} with net = None: give the network of the value function"
            checks.require(net is not None, missing)
            checks.require(
                self.linearised or isinstance(solver, GradientDescent),
                f"solver = {solver!r} with gamma = {self.gamma!r}: give GradientDescent(...), or linearised=True",
            )
        checks.require(mean is None or callable(mean), f"prior_mean = {mean!r}: give a function of X, or None for zero")
        checks.require(
            self.input_scales is None or net is None,
            "input_scales: only the automatic estimator (net=None) scales columns: divide X by them",
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

    @stacked
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
        states that follow X, and `terminal` (N,) marks the transitions that end an episode. No state may be in X twice.

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
        if self.net is None and self._labelled and several(y):
            fit_each(self, X, y, X_next=X_next, terminal=terminal)
            self._as_fitted = copy(self)
            return self
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
        Random draws are kept: the target of RND, the directions of the Bayesian methods, and the weights at which
        networks are linearised. Labels y (N,) are for ensembles, and for the mean of Bayesian RND if the first call had
        them. Parameters are those of the first call. A call that fails leaves the fit as it was.

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
        checks.require(not isinstance(now._fit, Exact), "the previous fit was automatic (net = None): call fit")
        checks.require(
            not now._noise,
            f"noise_std = {now._noise:g}: a stream has no noise: give noise_std=0, or fit all rows at once",
        )
        checks.require(
            getattr(now, "false_alarms", None) is None,
            "false_alarms: partial_fit has no threshold: leave false_alarms out, or call fit",
        )
        checks.require(
            now.gamma is None,
            f"gamma = {now.gamma!r}: value functions have no partial_fit: fit all transitions",
        )
        given, points = self._points(X)
        if now._labels is not None:
            checks.require(y is not None, "y = None: the first call had labels: give them in every call")
            labels = checks.outputs("y", [] if y is None else y, len(points))
            outputs = labels.shape[1:]
            checks.require(
                outputs == now._outputs, f"y has outputs {outputs}: give {now._outputs}, as in the first call"
            )
            now._labels = labels.reshape(len(points), -1) - now._prior(given, now.prior_)
        now._fit = type(now._fit).fit(now, points, now._fit)
        report = now._fit.trained.report
        now._report = replace(report, notes=(*report.notes, STREAM), departure=None)
        self._fit, self._report, self._as_fitted = now._fit, now._report, now
        return self

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
        # Linearised heads share a tangent, and have the theory of its kernel; each member has a kernel of its own.
        finite = isinstance(fit, Steps) or (isinstance(fit, Linear) and self._role is Role.MEMBER)
        covered = finite and self._covered and self._following is None
        found, refusal = departure.of(self, X) if covered else (None, ())
        notes = (*self._notes, *fit.trained.report.notes, *refusal)
        if isinstance(self.net, AnyNetwork) and self.net.untrained:
            notes += (f"Not trained, as they start the same in every draw: {', '.join(self.net.untrained)}.",)
        self._report = replace(fit.trained.report, notes=notes, departure=found)
        if found and found.departs:
            warnings.warn(str(found), departure.DepartureWarning, stacklevel=3)
        self._as_fitted = copy(self)
        return self

    def _deviations(self, variance: Float[np.ndarray, " t"]) -> Variances:
        """The roots of variances of the network's, in the user's units."""
        return self._units.spread(np.sqrt(variance), self._outputs)
