"""How a fit reads its arguments, and new points after it.

The arguments are checked, what is not given is chosen (`rndlib.estimators.automatic`), and points and labels are put
into the units of the network.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.estimators.automatic import Choice, choose, prior_std
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.training import backends
from rndlib.training.problem import Following


def of_user(name: str, function: Callable[[Any], Any], points: Any, outputs: tuple[int, ...]) -> np.ndarray:
    """The values (T, *outputs) of a user's function of X."""
    values = checks.outputs(f"{name}(X)", function(points), len(points))
    if values.shape[1:] != outputs:
        raise ValueError(f"{name}(X) has shape {values.shape}: give {(len(points), *outputs)}")
    return checks.row_by_row(name, function, points, values)


class Inputs(BaseEstimator):
    """The part of an estimator that reads its arguments."""

    net: Any
    seed: Any
    random_state: Any
    backend: Any
    input_scales: Any

    noise_std: Any = None  # of estimators without noise
    prior_mean: Any = None  # of estimators without labels
    prior_: Any = None  # the one of `_priors` that the fit took
    _priors = (None,)
    gamma: Any = None  # of estimators without values
    _as_fitted: Any = None
    _parts: Any = ()  # the fits of several outputs in automatic mode

    def _begin(self: Any, X: Any, y: Any = None) -> Any:
        """Check all inputs, and choose what is not given: points, and `_labels` (N, outputs), in the network's units.

        Forgets the previous fit, so that a failed fit leaves the estimator unfitted.
        """
        self._seed = self._restart()
        points, labels = self._read(X, y)
        self._outputs = () if labels is None else labels.shape[1:]
        choice, labels = self._compared(points, labels)
        self.net_, self._units, self._notes = choice.net, choice.units, choice.notes
        if self.prior_ is not None and (self.net is not None or self.prior_.features is not None):
            self.net_ = self.prior_._network(self.net_, points, self.backend)
            self._units = replace(self._units, prior=self.prior_)
        # An ensemble on a user's network has no noise, even where the evidence of its output scale has.
        noisy = self.net is None or "noise_std" in self.get_params(deep=False)
        self._noise = choice.noise_std if noisy else 0.0
        noise = self._noise * self._units.size
        self.noise_std_ = np.full(self._outputs, noise) if self._outputs else float(noise)
        if self.net is None:
            self.input_scales_, self.log_evidence_ = choice.units.scale, choice.log_evidence
        inputs = self._units.inputs(points)
        if self.net is not None:
            # A network of the user's own may look up whole numbers, whose scale says nothing.
            looked_up = isinstance(self.net, AnyNetwork) and bool((points == np.round(points)).all())
            deviation = None if labels is None else prior_std(self.net_, inputs)
            checks.scales(points[:1] if looked_up else points, labels, deviation, self._noise)
        self._labels = None if labels is None else self._units.labels(labels)
        return inputs

    def _restart(self: Any) -> int:
        """Forget the previous fit, check the parameters, and return the seed of the next."""
        self._as_fitted, self._fit, self._parts = None, None, []
        self._check()
        return int(self.seed if self.random_state is None else check_random_state(self.random_state).randint(2**31))

    def _compared(self, points: np.ndarray, labels: Any) -> tuple[Choice, Any]:
        """The choice for the prior of largest evidence, which becomes `prior_`, and labels less its mean."""
        checks.require(
            labels is not None or len(self._priors) == 1,
            f"y = None with {len(self._priors)} priors: give y, whose evidence compares them, or one prior",
        )
        found = []
        for prior in self._priors:
            rest = None if labels is None else labels.reshape(len(points), -1) - self._prior(points, prior)
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
            return checks.points("X", X, shape), y
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
        states = checks.points("X_next", X_next, points.shape[1:])
        following = Following(states, reference.discounts(self.gamma, terminal, states, len(points)))
        if self._labels is not None:  # rewards of what is left of the value without its prior mean
            self._labels = self._labels + following.discount[:, None] * self._prior(states, self.prior_)
        return following

    def _points(self, X: Any) -> tuple[Any, Any]:
        """Points of the shape of the training points: in the user's units, and as the network reads them."""
        fitted = self._fitted
        points, _ = fitted._validated(X, "no_validation", fitted._shape)
        return points, fitted._units.inputs(points)

    def _prior(self, points: np.ndarray, prior: Any) -> Any:
        """The mean of a prior, or of an ensemble's, at points in the user's units: (T, outputs), or 0."""
        mean: Any = self.prior_mean if prior is None else prior.mean
        return 0.0 if mean is None else of_user("prior_mean", mean, points, self._outputs).reshape(len(points), -1)

    @property
    def _fitted(self) -> Any:
        """The estimator as it was when it was fitted."""
        check_is_fitted(self)
        return self._as_fitted

    def _before(self, X: Any) -> tuple[Any, Any]:
        """The estimator as it was fitted, or a copy of it that will not be, and its points in the network's units."""
        if self._as_fitted is not None:
            return self._as_fitted, self._points(X)[1]
        if self.net is None:
            raise NotFittedError("net = None: the automatic estimator chooses a network when it is fitted: call fit")
        model: Any = copy(self)
        return model, model._begin(X, "no_validation")
