"""Bayesian RND: errors that are draws from the centred NTK-GP posterior, and posterior samples."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from rndlib import checks
from rndlib.estimators.automatic import MeanFunction
from rndlib.estimators.base import Functions, Variances
from rndlib.estimators.exact import Exact
from rndlib.estimators.inputs import of_user
from rndlib.estimators.regressor import Regressor
from rndlib.estimators.rnd import Distillation
from rndlib.prior import Prior


@dataclass(eq=False, repr=False)
class BayesianRND(Regressor, Distillation):
    """RND whose errors are draws from the centred NTK-GP posterior (Proposition 4.1, Theorem 4.2).

    The target is `g~(x) = J u(x) psi*`, where J is the Jacobian at the predictor's own initial parameters and psi is
    random, with zeros for the last layer. In the limit of infinite width and training time, the errors are independent
    draws from `laws.bayesian_rnd_error`, and mean + error is a draw from `laws.posterior` (Corollary 4.3).

    Parameters
    ----------
    net, heads, bodies: As in `RND`.
    directions: "shared": one psi per network for all of its heads, as in the paper; "independent": one psi per head, at
        one Jacobian-vector product each. None is "shared", and one per head if linearised.
    noise_std: Standard deviation of the observation noise, >= 0, in the units of y. None is 0 for a network that is
        given, and chosen by evidence otherwise. With noise, training jitters the targets and adds L2 regularisation
        towards initialisation, so that the error has the noisy posterior's covariance.
    linearised: As in `RND`. Each head has its own psi, and errors are exact draws from the posterior of the network's
        own NTK, at any width. The mean of each network is that posterior's mean.
    mean: Function that returns the mean estimate (T,) for X (T, in_dim). By default, a network trained on y, with its
        initial function subtracted.
    prior: `Prior` of the function; None is the NTK-GP. Without a network it has features or a mean alone, in the units
        of X and y, as the evidence chooses all scales. It may then be a list of priors, each fitted by evidence: the
        one of largest evidence is `prior_`, and `report` has the evidence of all.
    seed, random_state, backend, solver, input_scales: As in `DeepEnsemble`.

    >>> from rndlib import MLP, BayesianRND, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y)
    >>> mean, std = model.predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """

    _: KW_ONLY
    directions: str | None = None
    noise_std: float | None = None
    mean: MeanFunction | None = None
    prior: Prior | Sequence[Prior] | None = None

    _bayesian = True
    _any_length = True

    def _check(self) -> None:
        super()._check()
        if self.directions is not None:
            checks.choice("directions", self.directions, ("shared", "independent"))
        checks.require(
            self.directions != "shared" or not self._linear,
            "directions = 'shared': each head of a linearised network has a psi of its own: leave directions out",
        )
        checks.require(
            self.mean is None or callable(self.mean),
            f"mean = {self.mean!r}: give a function of X, or None for a network trained on y",
        )
        if self.prior is None:
            return
        given, priors = f"prior = {self.prior!r}", self._priors
        every = len(priors) > 0 and all(isinstance(one, Prior) for one in priors)
        checks.require(every, f"{given}: give an rndlib.Prior, a list of them, or None")
        if self.net is None:
            scaled = any(one.scales is not None or one.output_scale != 1 for one in priors)
            wanted = "give priors without scales, which the evidence chooses, or a network"
            checks.require(not scaled, f"{given} with net = None: {wanted}")
        else:
            one = isinstance(self.prior, Prior) and getattr(self.net, "output_scale", 1.0) is not None
            wanted = "give one prior, compared by laws.log_evidence, and a number as the network's output_scale"
            checks.require(one, f"{given} with net = {self.net!r}: {wanted}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False  # errors and variances need no labels
        return tags

    def _examine(self) -> None:
        if self.mean is not None:
            self._labels = None  # no network has to learn them

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: int | np.random.Generator | None = 0
    ) -> Float[np.ndarray, "t *outputs samples"]:
        """Functions drawn from the posterior, jointly over X (T, in_dim): (T, n_samples).

        Sample i is the mean estimate plus the error of one head. Heads are drawn without replacement, so there are at
        most `bodies * heads` samples. The draw from U[1, K] of Corollary 4.3 can repeat a head, and repeated samples
        are not independent. With labels of several outputs, (T, outputs, n_samples), each output with a head of its
        own. In automatic mode (net=None), any number of samples is drawn from the exact posterior at infinite width,
        with a T x T matrix; calls with other X draw other functions.

        Raises as `predict`, and ValueError for more samples than heads, or for more points than matrices hold.

        >>> from rndlib import MLP, BayesianRND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = BayesianRND(MLP(3, width=64), heads=4, bodies=2).fit(data.X, data.y)
        >>> model.sample_y(data.X_test, n_samples=3).shape
        (5, 3)
        """
        fitted, rng = self._fitted, np.random.default_rng(random_state)
        if fitted._parts:  # random numbers of each, so that more samples begin with the same ones
            each = zip(fitted._parts, rng.spawn(len(fitted._parts)), strict=True)
            return np.stack([part.sample_y(X, n_samples, own) for part, own in each], axis=1)
        means, n_samples = self._means(X), checks.whole("n_samples", n_samples, at_least=1)
        count = n_samples * int(np.prod(fitted._outputs, dtype=int))
        if isinstance(fitted._fit, Exact):
            own = means + fitted._units.spread(fitted._fit.draws(self._points(X)[1], count, rng), fitted._outputs)
        else:
            errors = self.errors(X)
            checks.require(
                count <= len(errors),
                f"n_samples = {n_samples}: the {len(errors)} heads give {len(errors) * n_samples // count} independent "
                "samples and no more: draw fewer, or fit more heads or bodies",
            )
            chosen = rng.permutation(len(errors))[:count]
            own = means[chosen // fitted.heads % len(means)] + errors[chosen]
        if not fitted._outputs:
            return own.T
        each = own.reshape(n_samples, -1, *own.shape[1:])
        return np.stack([each[:, output, :, output].T for output in range(each.shape[1])], axis=1)

    def _mean(self, X: ArrayLike, values: Functions | None) -> Variances:
        return self._means(X).mean(axis=0)

    @property
    def _freedom(self) -> int:
        return int(np.prod(self._sizes))

    def _means(self, X: ArrayLike) -> Float[np.ndarray, "means t *outputs"]:
        """The mean estimate, one for all bodies or, of linearised ones, one for each."""
        fitted, (points, inputs) = self._fitted, self._points(X)
        if fitted.mean is not None:
            return of_user("mean", fitted.mean, points, fitted._outputs)[None]
        if fitted._labels is None:
            raise NotFittedError("fit had no y to train a mean on: call fit(X, y), or give mean= a function of X")
        return fitted._functions_of(fitted._fit.means(fitted, inputs), points)

    @property
    def _priors(self) -> Any:
        return self.prior if isinstance(self.prior, list | tuple) else (self.prior,)

    @property
    def _psi_per_head(self) -> bool:
        return self._linear or self.directions == "independent"
