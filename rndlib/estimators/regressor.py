"""Estimators with a mean: labels of several outputs, and intervals for new ones."""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit
from sklearn.base import RegressorMixin

from rndlib import checks
from rndlib.estimators.base import Functions, Prediction, Variances
from rndlib.estimators.exact import Exact
from rndlib.estimators.outputs import stacked


class Regressor(RegressorMixin):
    """What estimators with a mean have in common: labels of several outputs, and intervals for new ones."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @stacked
    def predict(self: Any, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean of the function at X (T, in_dim): (T,); with `return_std` also its standard deviation.

        Of ensembles, the mean and the sample standard deviation over members; of Bayesian RND, those of the posterior.
        In automatic mode (net=None), the exact ones of infinite width. The deviation is that of the function, without
        noise; `interval` is for a new label. With labels of several outputs, (T, outputs). Bayesian RND raises
        NotFittedError also if `fit` was called without y and no `mean` was given.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> abs(model.predict(data.X) - data.y).max() < 1e-6
        np.True_
        """
        fitted, exact = self._fitted, isinstance(self._fitted._fit, Exact)
        if exact and fitted._labels is not None:
            points, inputs = self._points(X)
            if not return_std:
                return fitted._functions_of(fitted._fit.means(fitted, inputs), points)[0]
            mean, variance = fitted._fit.moments(inputs)  # from one kernel between training points and X
            return fitted._functions_of(mean[None, None], points)[0], fitted._deviations(variance)
        if not return_std:
            return self._mean(X, None)
        values = None if exact else self._values(X)
        return self._mean(X, values), np.sqrt(self.variance(X) if exact else self._variance_of(values))

    @stacked
    def interval(self: Any, X: ArrayLike, level: float = 0.9) -> tuple[Variances, Variances]:
        """Lower and upper end of the central interval for a new label at X (T, in_dim), noise included: each (T,).

        level: Probability that a new label falls inside, between 0 and 1.

        A variance over K heads, or K + 1 members, is itself an estimate, with K degrees of freedom (Theorem 3.4). So
        the quantile is Student's, with the degrees of freedom of its sum with the noise, which is known (Welch, 1947).
        In automatic mode the variance is exact, and the quantile normal.

        >>> from rndlib import BayesianRND, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> low, high = BayesianRND().fit(data.X, data.y).interval(data.X_test)
        >>> bool((low < high).all())
        True
        """
        fitted, upper = self._fitted, 0.5 + checks.fraction("level", level) / 2
        mean, std = self.predict(X, return_std=True)
        total = np.hypot(std, fitted.noise_std_)
        if isinstance(fitted._fit, Exact):
            half = ndtri(upper) * total
        else:
            part = np.divide(std, total, out=np.ones_like(total), where=total > 0)  # of the sum, in deviations
            half = stdtrit(fitted._freedom / np.maximum(part, 1e-2) ** 4, upper) * total
        return mean - half, mean + half

    def _functions_of(self: Any, values: Float[np.ndarray, "functions outputs t"], points: np.ndarray) -> Functions:
        """Functions of the network's in the user's units, at points in these units: (functions, T, *outputs)."""
        found = np.swapaxes(values, 1, 2) * self._units.size + self._units.mean + self._prior(points, self.prior_)
        return found.reshape(len(values), len(points), *self._outputs)
