"""Estimators with a mean: labels of several outputs, and intervals for new ones."""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import RegressorMixin

from rndlib import checks
from rndlib.estimators.base import Functions, Prediction, Variances


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

    def _exact_moments(self: Any, X: ArrayLike, return_std: bool) -> Prediction:
        """Mean at X of an exact fit, and deviation, from one kernel between training points and X."""
        fitted, (points, inputs) = self._fitted, self._points(X)
        if not return_std:
            return fitted._functions_of(fitted._fit.means(fitted, inputs), points)[0]
        mean, variance = fitted._fit.moments(inputs)
        return fitted._functions_of(mean[None], points)[0], fitted._deviations(variance)

    def _functions_of(self: Any, values: Float[np.ndarray, "functions outputs t"], points: np.ndarray) -> Functions:
        """Functions of the network's in the user's units, at points in these units: (functions, T, *outputs)."""
        found = np.swapaxes(values, 1, 2) * self._units.size + self._units.mean + self._prior(points)
        return found.reshape(len(values), len(points), *self._outputs)
