"""Several outputs in automatic mode: each has a fit of its own, with its own network, scales and noise.

One kernel for all would give each the noise of the others: together with an output of pure noise, intervals of a nearly
noiseless one were fifteen times too wide.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce, wraps
from operator import or_
from typing import Any

import numpy as np
from sklearn.base import clone

from rndlib.estimators.inputs import of_user


def several(y: Any) -> bool:
    """Whether labels are of more than one output."""
    shape = np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1


def fit_each(model: Any, X: Any, y: Any, **options: Any) -> None:
    """Fit a copy of an automatic estimator to each column of y (N, outputs), and keep them as its `_parts`.

    options: what else `fit` was given.
    """
    seed, (_, labels) = model._restart(), model._read(X, y)
    count = labels.shape[1]
    model._outputs, model._parts = (count,), []
    for output in range(count):
        part: Any = clone(model)
        part.set_params(seed=seed, random_state=None, **_of_output(model, output, count))
        model._parts.append(part.fit(X, labels[:, output], **options))
    for name in ("net_", "prior_", "input_scales_"):
        setattr(model, name, [getattr(part, name) for part in model._parts])
    if model.prior_ == [None] * count:
        model.prior_ = None
    model.noise_std_ = np.array([part.noise_std_ for part in model._parts])
    model.log_evidence_ = sum(part.log_evidence_ for part in model._parts)
    reports = [part._report for part in model._parts]
    notes = (f"Output {output}: {note}" for output, report in enumerate(reports) for note in report.notes)
    model._report = replace(reduce(or_, reports), notes=tuple(notes))


def stacked(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose arrays have the outputs on the last axis, where each output has a fit of its own."""

    @wraps(method)
    def each(model: Any, *args: Any, **options: Any) -> Any:
        parts = [] if model._as_fitted is None else model._as_fitted._parts
        if not parts:
            return method(model, *args, **options)
        found = [method(part, *args, **options) for part in parts]
        if isinstance(found[0], tuple):
            return tuple(np.stack(arrays, axis=-1) for arrays in zip(*found, strict=True))
        return np.stack(found, axis=-1)

    return each


def _of_output(model: Any, output: int, count: int) -> dict[str, Any]:
    """The parameters that are functions of X with several outputs, as functions of one."""

    def one(name: str, mean: Any) -> Any:
        return partial(_column, name, mean, output, count)

    given = model.get_params(deep=False)
    found = {name: one(name, given[name]) for name in ("prior_mean", "mean") if given.get(name) is not None}
    if given.get("prior") is not None:
        means = (None if prior.mean is None else one("prior_mean", prior.mean) for prior in model._priors)
        found["prior"] = [replace(prior, mean=mean) for prior, mean in zip(model._priors, means, strict=True)]
    return found


def _column(name: str, function: Callable[[Any], Any], output: int, count: int, X: np.ndarray) -> np.ndarray:
    return of_user(name, function, X, (count,))[:, output]
