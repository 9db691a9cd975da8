"""Random network distillation: predictors trained to match random targets (Eq. 2)."""

import warnings
from dataclasses import KW_ONLY, dataclass
from math import ceil, inf
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin, clone

from rndlib import checks
from rndlib.estimators.base import Estimator, Functions, Variances
from rndlib.estimators.exact import Exact
from rndlib.estimators.outputs import stacked
from rndlib.theory import reference
from rndlib.theory.crowding import warn_if_narrow
from rndlib.training.problem import Drawn
from rndlib.training.weights import Role


@dataclass(eq=False, repr=False)
class Distillation(Estimator):
    """`bodies` independent predictors with `heads` outputs each, trained to match random targets."""

    heads: int = 64
    bodies: int = 1
    _: KW_ONLY
    linearised: bool = False

    _role = Role.PREDICTOR
    _scale = 1.0  # from the mean square of errors to a variance

    def _check(self) -> None:
        super()._check()
        checks.whole("heads", self.heads, at_least=1)
        checks.whole("bodies", self.bodies, at_least=1)

    @stacked
    def errors(self, X: ArrayLike) -> Functions:
        """Predictor minus target of every head at X (T, in_dim): (bodies * heads, T), network by network.

        With labels of several outputs, (bodies * heads, T, outputs): the same error in the units of each output.

        >>> from rndlib import MLP, RND, datasets
        >>> X = datasets.toy(seed=0).X
        >>> errors = RND(MLP(3, width=64), heads=4, bodies=2).fit(X).errors(X)
        >>> errors.shape, bool(abs(errors).max() < 1e-3)
        ((8, 10), True)
        """
        fitted, (points, inputs) = self._fitted, self._points(X)
        return fitted._units.spread(fitted._ends(inputs).reshape(-1, len(points)), fitted._outputs)

    @stacked
    def initial(self, X: ArrayLike) -> tuple[Functions, Functions]:
        """Predictors before training and targets at X (T, in_dim): each (bodies * heads, T), network by network.

        Their difference is the error before training. Needs no `fit`, but for the automatic estimator (net=None).

        >>> from rndlib import MLP, BayesianRND
        >>> u, g = BayesianRND(MLP(2, width=64), heads=4, bodies=2).initial([[1.0, 0.0]])
        >>> u.shape, g.shape
        ((8, 1), (8, 1))
        """
        model, points = self._before(X)

        def both(drawn: Drawn) -> Float[np.ndarray, "bodies 2 heads t"]:
            u = model._functions(drawn.start, points)
            return np.stack(np.broadcast_arrays(u, model._target(drawn, points)), axis=1)

        each = model._at_start(both, points)
        u, g = (model._units.spread(each[:, i].reshape(-1, len(points)), model._outputs) for i in (0, 1))
        return u, g

    @property
    def _sizes(self) -> tuple[int, int]:
        return int(self.heads), int(self.bodies)

    @property
    def _linear(self) -> bool:
        return self.linearised or self.net is None

    def _values(self, X: ArrayLike) -> Functions:
        return self.errors(X)

    def _variance_of(self, values: Functions) -> Variances:
        return self._scale * np.mean(values**2, axis=0)


@dataclass(eq=False, repr=False)
class RND(OutlierMixin, Distillation):
    """Random network distillation (Eq. 2): predictors u trained to match fixed random networks g.

    In the limit of width the errors of the heads are independent draws from `laws.rnd_error` (Theorem 3.1), and half
    their mean square is distributed as the sample variance of an ensemble of `bodies * heads + 1` networks (Theorem
    3.4).

    Parameters
    ----------
    net: Network of predictor and target, which have the same architecture. Values as in `DeepEnsemble`.
    heads: Outputs per network, >= 1.
    bodies: Number of independent networks, >= 1. `bodies=1` is the usual multi-head RND; `heads=1` is an ensemble of
        RND models.
    linearised: Whether to train the network linearised at initialisation, exactly and with separate parameters for each
        head. The theory of the network's own NTK then holds for any number of heads. `fit` forms an N x N matrix per
        network, and takes no steps.
    false_alarms: Fraction of ordinary new points that `predict` may call outliers, between 0 and 1. The threshold comes
        from held-out points, because the error at training points is zero: by leaving out one point at a time in closed
        form in automatic mode, and otherwise by one more fit on four fifths of the rows. None is 0.1 in automatic mode,
        and no threshold otherwise.
    gamma: Discount factor of value RND, 0 or more, by temporal differences on transitions to `X_next`. The errors are
        draws from `laws.value_rnd_error`, and `variance` is that of an ensemble of value functions. It takes
        `GradientDescent`, or is linearised and trained to the fixed point.
    seed, random_state, backend, solver, input_scales: As in `DeepEnsemble`. With the same seed, predictor, target and
        ensembles are still independent of each other.

    >>> from rndlib import MLP, RND, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = RND(MLP(3, width=64), heads=4, bodies=2).fit(data.X)
    >>> model.variance(10 * data.X_test).mean() > model.variance(data.X_test).mean()  # farther out, less is known
    np.True_
    """

    _: KW_ONLY
    false_alarms: float | None = None
    gamma: float | None = None

    _labelled = False
    _scale = 0.5  # Eq. 2, in the units of an ensemble's variance

    def _check(self) -> None:
        super()._check()
        if self.false_alarms is not None:
            checks.fraction("false_alarms", self.false_alarms)
            wanted = "false_alarms with gamma: a threshold is of novelty alone: leave one out"
            checks.require(self.gamma is None, wanted)

    def _examine(self) -> None:
        if not self._linear:
            warn_if_narrow(self.net_, self.heads, stacklevel=4)

    def _calibrate(self, X: np.ndarray) -> None:
        self._held_out: Any = self._fit.held_out() if isinstance(self._fit, Exact) else None
        held_out, rate = self._held_out, 0.1 if self.false_alarms is None else self.false_alarms
        if held_out is None and self.false_alarms is not None:
            checks.require(len(X) > 1, "X has 1 row: false_alarms needs rows to hold out: give more")
            order = np.random.default_rng(self._seed).permutation(len(X))
            out, rest = np.split(order, [max(1, len(X) // 5)])
            part: Any = clone(self)
            held_out = part.set_params(false_alarms=None).fit(X[rest]).variance(X[out])
        if held_out is None:
            self._threshold = None
            return
        rounding = 0.0
        if isinstance(self._fit, Exact):
            # Exact variances are differences of kernels, and mean nothing below their rounding.
            rounding = 10 * len(X) * np.finfo(float).eps * float(reference.diagonal(self.net_, X).nngp.max())
            rows, count = np.unique(X, axis=0, return_counts=True)
            repeats = int(count[count > 1].sum())
            # Of real numbers, as rows of few values repeat by themselves: some column tells all rows apart.
            if repeats > rate * len(X) and any(len(np.unique(column)) == len(rows) for column in X.T):
                text = f"X: {repeats} of {len(X)} rows repeat others, and the threshold expects this of new points: "
                warnings.warn(f"{text}drop repeated rows, unless new points repeat them as often", stacklevel=4)
        self._threshold = max((1 + 1e-6) * quantile_of_new(held_out, rate), rounding)
        if self._threshold == inf and self.false_alarms is not None:
            text = f"false_alarms = {rate}: {len(held_out)} rows held out are too few, so nothing is an outlier: "
            warnings.warn(f"{text}it takes {ceil(1 / rate) - 1}: give more rows or a larger rate", stacklevel=4)

    def score_samples(self, X: ArrayLike) -> Variances:
        """Similarity of each row of X (T, in_dim) to the training points: minus `variance`, (T,).

        >>> from rndlib import RND
        >>> score = RND().fit([[1.0, 0.0], [0.0, 1.0]]).score_samples([[1.0, 0.0], [5.0, 0.0]])
        >>> bool(score[0] > score[1])
        True
        """
        return -self.variance(X)

    def decision_function(self, X: ArrayLike) -> Variances:
        """`score_samples` minus its threshold, (T,): negative for outliers, and for a fraction `false_alarms` of new
        points.

        Raises ValueError if the fit has no threshold.

        >>> import numpy as np
        >>> from rndlib import RND
        >>> model = RND().fit(np.random.default_rng(0).normal(size=(50, 2)))
        >>> (model.decision_function([[0.0, 0.0], [9.0, 9.0]]) > 0).tolist()
        [True, False]
        """
        checks.require(
            self._fitted._threshold is not None,
            "false_alarms = None: with a given network, there is no threshold by default: give a rate, such as "
            "0.05, with which fit trains once more on four fifths of the rows",
        )
        return self.score_samples(X) - self.offset_

    @property
    def offset_(self) -> float:
        """`score_samples` minus `decision_function`: minus the threshold.

        >>> from rndlib import RND
        >>> RND().fit([[1.0, 0.0], [0.0, 1.0]]).offset_ < 0
        True
        """
        threshold = self._fitted._threshold
        return -inf if threshold is None else -threshold

    def predict(self, X: ArrayLike) -> Int[np.ndarray, " t"]:
        """1 for inliers and -1 for outliers among the rows of X (T, in_dim): (T,). Raises as `decision_function`.

        >>> import numpy as np
        >>> from rndlib import RND
        >>> RND().fit(np.random.default_rng(0).normal(size=(50, 2))).predict([[0.0, 0.0], [9.0, 9.0]])
        array([ 1, -1])
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def fit_predict(self, X: ArrayLike, y: Any = None, **kwargs: Any) -> Int[np.ndarray, " n"]:
        """1 or -1 for each training point (N,), by a fit without this point; only in automatic mode.

        Raises ValueError if a network is given: its error at the points that it trained on is 0.

        >>> import numpy as np
        >>> from rndlib import RND
        >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)), [[9.0, 9.0]]])
        >>> int(RND().fit_predict(X)[-1])
        -1
        """
        self.fit(X)
        checks.require(
            self._held_out is not None,
            f"net = {self.net!r}: the RND error is 0 at training points: call fit, and predict for new ones",
        )
        return np.where(-self._held_out >= self.offset_, 1, -1)


def quantile_of_new(held_out: Variances, rate: float) -> float:
    """The value that a new point, exchangeable with those held out, exceeds with a probability of `rate` at most.

    It is infinite if there are too few of them to tell.
    """
    place = ceil((len(held_out) + 1) * (1 - rate))
    return float(np.sort(held_out)[place - 1]) if place <= len(held_out) else inf
