"""Checks of the arguments of public functions.

Each check returns the value in the form that the library works with, or raises a ValueError that names the argument,
the value and the remedy.
"""

from collections.abc import Iterable
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def whole(name: str, value: Any, at_least: int) -> int:
    """An integer of `at_least` or more."""
    _one(name, value)
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < at_least:
        raise ValueError(f"{name} = {value!r}: give a whole number of at least {at_least}")
    return int(value)


def real(name: str, value: Any) -> float:
    """A finite real number."""
    if not isfinite(number := _float(name, value)):
        raise ValueError(f"{name} = {value!r}: give a finite number")
    return number


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if real(name, value) <= 0:
        raise ValueError(f"{name} = {value!r}: give a number above 0")
    return float(value)


def non_negative(name: str, value: Any) -> float:
    """A finite number of zero or more."""
    if real(name, value) < 0:
        raise ValueError(f"{name} = {value!r}: give a number of 0 or more")
    return float(value)


def duration(name: str, value: Any) -> float:
    """A training time: zero or more, infinity allowed."""
    if not 0 <= (time := _float(name, value)) <= inf:
        raise ValueError(f"{name} = {value!r}: give a number of 0 or more, or math.inf")
    return time


def choice(name: str, value: Any, among: Iterable[str]) -> str:
    """One of the listed names."""
    names = list(among)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} = {value!r}: choose one of {', '.join(map(repr, names))}")
    return value


def points(name: str, X: ArrayLike, in_dim: int | None) -> np.ndarray:
    """Input points as a finite float64 array `(n_samples, in_dim)` with at least one row; None allows any `in_dim`."""
    array = _numbers(name, X)
    if array.ndim != 2 or array.size == 0 or in_dim not in (None, array.shape[1]):
        wanted = "n_features" if in_dim is None else in_dim
        raise ValueError(f"{name} has shape {array.shape}: give (n_samples, {wanted}), with at least one row")
    return array


def points_of_any_shape(name: str, X: ArrayLike, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Points (n_samples, *shape) of a network of real weights as a finite float64 array; None allows any shape.

    Whole numbers and truth values are converted, but images of bytes are refused.
    """
    array = np.asarray(X)
    if array.dtype == np.uint8 and array.ndim > 2:
        raise ValueError(
            f"{name} has the type {array.dtype}: give real numbers of about 1, such as {name} / 255 for pixels"
        )
    array = _numbers(name, X)
    if array.ndim < 2 or array.size == 0 or shape not in (None, array.shape[1:]):
        wanted = "*shape" if shape is None else ", ".join(map(str, shape))
        raise ValueError(f"{name} has shape {array.shape}: give (n_samples, {wanted}), with at least one row")
    return array


def labels(name: str, y: ArrayLike, n_samples: int) -> np.ndarray:
    """Targets as a finite float64 array `(n_samples,)`, one per training point."""
    array = _numbers(name, y)
    if array.shape != (n_samples,):
        raise ValueError(f"{name} has shape {array.shape}: give ({n_samples},), one number for each row of X")
    return array


def outputs(name: str, y: ArrayLike, n_samples: int) -> np.ndarray:
    """Targets of one output (n_samples,), or of several (n_samples, outputs), as a finite float64 array."""
    array = _numbers(name, y)
    if array.ndim not in (1, 2) or len(array) != n_samples or array.size == 0:
        raise ValueError(
            f"{name} has shape {array.shape}: give ({n_samples},) or ({n_samples}, outputs), one row for each of X"
        )
    return array


def array(name: str, values: ArrayLike, *sizes: int | None) -> np.ndarray:
    """A finite, non-empty float64 array of these sizes; None allows any size."""
    array = _numbers(name, values)
    fits = array.ndim == len(sizes) and all(want in (None, size) for want, size in zip(sizes, array.shape, strict=True))
    if not fits or array.size == 0:
        wanted = ", ".join("any" if size is None else str(size) for size in sizes)
        raise ValueError(f"{name} has shape {array.shape}: give ({wanted}{',' * (len(sizes) == 1)}), not empty")
    return array


def fraction(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < real(name, value) < 1:
        raise ValueError(f"{name} = {value!r}: give a number between 0 and 1")
    return float(value)


def distinct(name: str, X: np.ndarray) -> np.ndarray:
    """Training points without repeated rows, which would make the noise-free kernel singular."""
    _, first, count = np.unique(X, axis=0, return_index=True, return_counts=True)
    if count.max() > 1:
        raise ValueError(
            f"{name} has {int(count.sum() - count.size)} repeated rows (row {int(first[count > 1].min())} is one of "
            "them), which makes the kernel singular: drop the repeats, or give noise_std > 0 where it is offered"
        )
    return X


def _float(name: str, value: Any) -> float:
    """A real number as a float: NaN if it is no number, or too large for one."""
    _one(name, value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return nan
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits
        return nan


def _one(name: str, value: Any) -> None:
    """Refuse an array or a list where one number is asked for."""
    listed = isinstance(value, list | tuple)
    if listed or (hasattr(value, "__array__") and not isinstance(value, np.generic | type)):
        shape = (len(value),) if listed else tuple(value.shape)
        each = " for all points: noise that differs from point to point is not offered" * (name == "noise_std")
        raise ValueError(f"{name} is an array of shape {shape}: give one int or float{each}")


def _numbers(name: str, values: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):  # NumPy would drop the imaginary part with no more than a warning
            raise ValueError("Complex data not supported")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {type(values).__name__}: give an array of numbers ({error})") from error
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{name} has a NaN or infinity, first at {bad}: remove or impute it")
    return array
