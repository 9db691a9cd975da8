"""Bayesian RND: an RND target with which errors are draws from the centred NTK-GP posterior, and posterior samples."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError

from rndlib import checks
from rndlib.estimators import linearised
from rndlib.estimators.base import PerHead, Prediction, Variances
from rndlib.estimators.rnd import Distillation
from rndlib.network import MLP
from rndlib.theory import laws, reference
from rndlib.theory.crowding import points_that_count, warn_if_narrow
from rndlib.training import matrices
from rndlib.training.solvers import GradientFlow
from rndlib.training.weights import Params, Role, draw

MeanFunction = Callable[[Float[np.ndarray, "t d"]], Variances]


@dataclass(eq=False, repr=False)
class BayesianRND(RegressorMixin, Distillation):
    """RND whose errors are draws from the centred NTK-GP posterior (Proposition 4.1, Theorem 4.2).

    The target is `g~(x) = J u(x) psi*`, where J is the Jacobian at the predictor's own initial parameters and psi is
    random, with zeros for the last layer. In the limit of width and time the errors are independent draws from
    `laws.bayesian_rnd_error`, and mean + error is a draw from `laws.posterior` (Corollary 4.3).

    Parameters
    ----------
    net, heads, bodies: As in `RND`.
    directions: "shared", one psi for all heads of a body, as in the paper's footnote; or "independent", one psi per
        head, which costs one Jacobian-vector product per head.
    noise_std: Standard deviation of the observation noise, >= 0, in the units of y. Training then jitters the targets
        and pulls the parameters back to their start, so that the error has the covariance of the noisy posterior.
    linearised: As in `RND`. Each head then has a psi of its own, and errors are exact draws from the posterior of the
        network's own tangent kernel, at any width. The mean estimate of each body is that of its kernel.
    mean: Function that returns the mean estimate (T,) for X (T, in_dim). By default, a network trained on y, with its
        initial function subtracted.
    seed, backend, solver, dtype: As in `DeepEnsemble`.

    >>> from rndlib import MLP, BayesianRND, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y)
    >>> mean, std = model.predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """

    _: KW_ONLY
    directions: str = "shared"
    noise_std: float = 0.0
    mean: MeanFunction | None = None

    _mean_network = None

    def _check(self) -> None:
        super()._check()
        checks.choice("directions", self.directions, ("shared", "independent"))
        if self.mean is not None and not callable(self.mean):
            raise ValueError(f"mean = {self.mean!r}: give a function of X, or None for a network trained on y")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # errors and variances need no labels
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "BayesianRND":
        """Train the predictors on X (N, in_dim), and the mean network on y (N,) if y is given and `mean` is not.

        Warns with `HeadsWarning` if there are too many heads for the width. Raises as in `DeepEnsemble.fit`.

        >>> from rndlib import MLP, BayesianRND, datasets
        >>> data = datasets.toy(seed=0)
        >>> BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y).report.converged
        True
        """
        points, labels = self._begin(X, y)
        self._mean_network = None
        labels = labels if self.mean is None else None
        if self.linearised:
            trained = linearised.train(self, points, labels)
            self._mean_network = None if labels is None else trained
            return self._end(trained, points)
        warn_if_narrow(self.net_, self.heads, self._points_that_count(points), self.directions)

        def mean_targets(_: list[int], start: Params) -> np.ndarray:
            return labels + self._functions(start, points, "float64")

        targets = partial(self._target, X=points, dtype="float64")
        trained = self._train(self.heads, self.bodies, Role.PREDICTOR, points, targets)
        if labels is not None:
            self._mean_network = self._train(1, 1, Role.MEAN, points, mean_targets, jitter=False)
        return self._end(trained, points)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean estimate at X (T, in_dim): (T,); with `return_std` also the posterior standard deviation.

        Raises NotFittedError also if `fit` was called without y and no `mean` was given.

        >>> from rndlib import MLP, BayesianRND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y)
        >>> abs(model.predict(data.X) - data.y).max() < 1e-6
        np.True_
        """
        mean = self._means(X).mean(axis=0)
        return (mean, np.sqrt(self.variance(X))) if return_std else mean

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: int | np.random.Generator | None = 0
    ) -> Float[np.ndarray, "t samples"]:
        """Functions drawn from the posterior, jointly over X (T, in_dim): (T, n_samples).

        Sample i is the mean estimate plus the error of one head. Heads are drawn without replacement, so there are at
        most `bodies * heads` samples. The draw from U[1, K] of Corollary 4.3 can repeat a head, and repeated samples
        are not independent. Raises as in `predict`.

        >>> from rndlib import MLP, BayesianRND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y)
        >>> model.sample_y(data.X_test, n_samples=3).shape
        (5, 3)
        """
        available = self._fitted.bodies * self._fitted.heads
        if checks.whole("n_samples", n_samples, at_least=1) > available:
            raise ValueError(
                f"n_samples = {n_samples}: the {available} heads give as many independent samples and no more: draw "
                "fewer, or fit more heads or bodies"
            )
        chosen = np.random.default_rng(random_state).permutation(available)[:n_samples]
        means = self._means(X)
        return (means[chosen // self._fitted.heads % len(means)] + self.errors(X)[chosen]).T

    def _points_that_count(self, X: np.ndarray) -> float:
        solver = self.solver or GradientFlow()
        # Other solvers need no kernel, so there may be more points than a kernel matrix has room for.
        formed = isinstance(solver, GradientFlow) and matrices.fit(len(X), solver.memory)
        if self.heads == 1 or not isinstance(self.net_, MLP) or not formed:
            return len(X)
        return points_that_count(self.net_, X, float(self.noise_std))

    def _means(self, X: ArrayLike) -> Float[np.ndarray, "means t"]:
        """The mean estimate, one for all bodies or, of linearised ones, one for each."""
        fitted, points = self._fitted, self._points(X)
        if fitted.mean is not None:
            return checks.labels("mean(X)", fitted.mean(points), len(points))[None]
        if fitted._mean_network is None:
            raise NotFittedError("fit had no y to train a mean on: call fit(X, y), or give mean= a function of X")
        if fitted.linearised:
            return fitted._mean_network.evaluate(partial(linearised.means, fitted, X=points))

        def centred(_: list[int], params: Params) -> np.ndarray:
            start = draw(fitted.net_, 1, fitted.seed, Role.MEAN, range(1))
            return fitted._functions(params, points, fitted.dtype) - fitted._functions(start, points, fitted.dtype)

        return fitted._mean_network.evaluate(centred)

    def _target(self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str) -> PerHead:
        start = start or self._starts(bodies)[1]
        if self.linearised:
            return linearised.targets(self, bodies, start, X, dtype)
        return self._tangents(bodies, start, X, dtype, by_head=self.directions == "independent")

    def _law(self, net: reference.Network, X: np.ndarray, X_test: np.ndarray, **options: Any) -> laws.Gaussian:
        noise, directions = float(self.noise_std), self.directions
        return laws.bayesian_rnd_error(net, X, X_test, noise_std=noise, directions=directions, **options)
