"""scikit-learn's estimator protocol, without scikit-learn: parameters by name, tags, fitted or not, a score.

Its base classes would make it a dependency of the library. The protocol itself is small and documented ("Developing
scikit-learn estimators"): everything an estimator is made of can be read and set by name, so that `clone`, pipelines
and searches can make others like it; what only scikit-learn asks for imports it when asked.
"""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.estimators.unfitted import NotFittedError

Model = TypeVar("Model", bound="Parameterised")


class Parameterised:
    """An object whose constructor's arguments are its attributes of the same names, stored as they were given.

    The fields of an argument that is a description (`net`, `solver`) count as parameters too, as `net__width` does.
    """

    _as_fitted: Any = None  # The estimator as it was when it was fitted.

    def _check(self) -> None:
        """ValueError for a parameter of the wrong type or out of range, which says what to give instead."""
        raise NotImplementedError

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also those of `net` and `solver`, as `net__width`, where these are given.

        >>> from rndlib import MLP, RND
        >>> RND(MLP(3, width=64), heads=8).get_params()["net__width"]
        64
        """
        params = {name: getattr(self, name) for name in self._names()}
        nested = _nested(params) if deep else {}
        return {**params, **nested}

    def set_params(self: Model, **params: Any) -> Model:
        """Set parameters by the names that `get_params` gives; returns the estimator, which has to be fitted anew.

        Raises
        ------
        ValueError: no such parameter, or a value that the constructor refuses; nothing is set then.

        >>> from rndlib import MLP, RND
        >>> RND(MLP(3, width=64), heads=8).set_params(net__width=256, seed=1)
        RND(net=MLP(in_dim=3, width=256, depth=2, activation='silu', sigma_w=1.5, sigma_b=0.1), heads=8, seed=1)
        """
        if not params:
            return self
        new = self.get_params(deep=False)
        for name in sorted(params, key=lambda name: "__" in name):  # a whole description before its fields
            outer, _, inner = name.partition("__")
            if name in new:
                new[name] = params[name]
            elif f"{outer}__{inner}" in _nested(new):
                new[outer] = replace(new[outer], **{inner: params[name]})
            else:
                known = ", ".join([*new, *_nested(new)])
                unset = f"{outer} is {new[outer]!r} and has no {inner}; " if outer in new else ""
                raise ValueError(f"{name} = {params[name]!r}: {unset}choose among the parameters {known}")
        type(self)(**new)  # refuses what the constructor refuses, before anything changes
        for name, value in new.items():
            setattr(self, name, value)
        self._as_fitted = None
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = self.get_params(deep=False).items()
        changed = (f"{name}={value!r}" for name, value in given if not _same(value, defaults[name].default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return self._as_fitted is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags())


class Regressor(Parameterised):
    """What scikit-learn expects of an estimator that predicts numbers."""

    _needs_labels = True

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The prediction at X (T, in_dim)."""
        raise NotImplementedError

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2 of `predict` at X (T, in_dim) against y (T,): 1 less the squared error over that of y's own mean.

        `sample_weight` (T,) weighs the points. Where y is constant it is 1 for a perfect prediction and 0 otherwise.

        Raises
        ------
        ValueError: X, y or the weights are malformed. NotFittedError: as in `predict`.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(0)
        >>> round(DeepEnsemble(MLP(3, width=64), 4).fit(data.X, data.y).score(data.X, data.y), 6)
        1.0
        """
        predicted = self.predict(X)
        y = checks.labels("y", y, len(predicted))
        weights = np.ones_like(y) if sample_weight is None else checks.labels("sample_weight", sample_weight, len(y))
        if weights.min() < 0 or weights.sum() == 0:
            raise ValueError(f"sample_weight has the sum {weights.sum():g}: give weights of 0 or more, not all 0")
        residual = np.sum(weights * (y - predicted) ** 2)
        spread = np.sum(weights * (y - np.average(y, weights=weights)) ** 2)
        return float(1 - residual / spread) if spread > 0 else float(residual == 0)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags()
        tags.target_tags.required = self._needs_labels
        return tags


def _nested(params: dict[str, Any]) -> dict[str, Any]:
    """The fields of those parameters that are descriptions, by their names with two underscores between."""

    def found() -> Iterator[tuple[str, Any]]:
        for name, value in params.items():
            if is_dataclass(value) and not isinstance(value, type):
                yield from ((f"{name}__{field.name}", getattr(value, field.name)) for field in fields(value))

    return dict(found())


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))


def not_fitted(message: str) -> NotFittedError:
    """The error to raise: one that scikit-learn's `except NotFittedError` catches, if anything has imported it."""
    if "sklearn" not in sys.modules:
        return NotFittedError(message)
    from rndlib.estimators.unfitted_sklearn import NotFittedError as Both

    return Both(message)
