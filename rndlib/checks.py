"""Checks of the arguments of public functions.

Each check returns the value in the form that the library works with, or raises a ValueError that names the argument,
the value and the remedy.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FAR = 10.0
"""Factor by which a scale may be off. A column of deviation s adds s^2 to kernels, where others add 1: from 10 on it
has the weight of a hundred. Labels of ten prior deviations have a likelihood of e^-50 under the prior."""

LITTLE = 100.0
"""Factor by which a column may be below the largest, so that it has 1e-4 of its weight, and labels below their prior.
Further than FAR, as both do no more than waste: what is reported is too wide, and not too narrow."""

SHOWN = 3
"""Columns of X that a warning names."""


class ScaleWarning(UserWarning):
    """X or y is far from the scale that the network expects, so the fit will be poor.

    >>> import warnings
    >>> from rndlib import checks
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", checks.ScaleWarning)
    ...     checks.scales([[2001.0], [2003.0]], [1.0, -1.0], prior_std=1.8)
    Traceback (most recent call last):
    rndlib.checks.ScaleWarning: X: networks expect columns of mean 0 and deviation 1: column 0 has mean 2e+03 and deviation 1, give (column - 2002) / 1
    """  # noqa: E501 - a message is one line


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise a ValueError with this message unless something holds."""
    if not holds:
        raise ValueError(message)


def whole(name: str, value: Any, at_least: int) -> int:
    """An integer of `at_least` or more."""
    _one(name, value)
    good = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least
    require(good, f"{name} = {value!r}: give a whole number of at least {at_least}")
    return int(value)


def real(name: str, value: Any) -> float:
    """A finite real number."""
    number = _float(name, value)
    require(isfinite(number), f"{name} = {value!r}: give a finite number")
    return number


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    require(real(name, value) > 0, f"{name} = {value!r}: give a number above 0")
    return float(value)


def non_negative(name: str, value: Any) -> float:
    """A finite number of zero or more."""
    require(real(name, value) >= 0, f"{name} = {value!r}: give a number of 0 or more")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    require(0 < real(name, value) < 1, f"{name} = {value!r}: give a number between 0 and 1")
    return float(value)


def duration(name: str, value: Any) -> float:
    """A training time: zero or more, infinity allowed."""
    time = _float(name, value)
    require(0 <= time <= inf, f"{name} = {value!r}: give a number of 0 or more, or math.inf")
    return time


def choice(name: str, value: Any, among: Iterable[str]) -> str:
    """One of the listed names."""
    names = list(among)
    known = isinstance(value, str) and value in names
    require(known, f"{name} = {value!r}: choose one of {', '.join(map(repr, names))}")
    return value


def array(name: str, values: ArrayLike, *sizes: int | None, wanted: str = "") -> np.ndarray:
    """A finite, non-empty float64 array of these sizes, which an error calls `wanted`; None allows any size."""
    array = _numbers(name, values)
    fits = array.ndim == len(sizes) and all(want in (None, size) for want, size in zip(sizes, array.shape, strict=True))
    each = ", ".join("any" if size is None else str(size) for size in sizes) + "," * (len(sizes) == 1)
    require(fits and array.size > 0, f"{name} has shape {array.shape}: give {wanted or f'({each}), not empty'}")
    return array


def points(name: str, X: ArrayLike, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Input points (n_samples, *shape), at least one; None allows any shape.

    Whole numbers and truth values are converted, but images of bytes are refused.
    """
    numbers = _numbers(name, X)
    kind, sizes = np.asarray(X).dtype, (None,) * (max(numbers.ndim, 2) - 1) if shape is None else shape
    require(
        kind != np.uint8 or numbers.ndim < 3,
        f"{name} has the type {kind}: give real numbers of about 1, such as {name} / 255 for pixels",
    )
    each = "*shape" if shape is None else ", ".join(map(str, shape))
    return array(name, numbers, None, *sizes, wanted=f"(n_samples, {each}), with at least one row")


def labels(name: str, y: ArrayLike, n_samples: int) -> np.ndarray:
    """Targets (n_samples,), one for each row of X."""
    return array(name, y, n_samples, wanted=f"({n_samples},), one number for each row of X")


def outputs(name: str, y: ArrayLike, n_samples: int) -> np.ndarray:
    """Targets of one output (n_samples,), or of several (n_samples, outputs)."""
    several = (None,) if np.ndim(y) == 2 else ()
    return array(
        name, y, n_samples, *several, wanted=f"({n_samples},) or ({n_samples}, outputs), one row for each of X"
    )


def row_by_row(name: str, function: Callable[[Any], Any], X: Any, values: np.ndarray) -> np.ndarray:
    """Values of a user's function at X, refused if the one at the first row depends on the others."""
    alone = np.asarray(function(X[:1])) if len(X) > 1 else values
    same = alone.shape == values[: len(alone)].shape
    require(
        same and np.allclose(alone, values[: len(alone)], rtol=0, atol=1e-3 * np.abs(values).max(initial=0)),
        f"{name}(X[:1]) is not {name}(X)[:1]: give a function of each row by itself, with a fixed centre and scale "
        "where it standardises",
    )
    return values


def distinct(X: np.ndarray) -> None:
    """Refuse training points with repeated rows, which make the noise-free kernel singular."""
    _, first, count = np.unique(X, axis=0, return_index=True, return_counts=True)
    if count.max() > 1:
        raise ValueError(
            f"X has {int(count.sum() - count.size)} repeated rows (row {int(first[count > 1].min())} is one of "
            "them), which makes the kernel singular: drop the repeats, or give noise_std > 0 where it is offered"
        )


def scales(X: ArrayLike, y: ArrayLike | None, prior_std: float | None, noise_std: float = 0.0) -> None:
    """Warn, with a ScaleWarning, of columns of X (N, columns) or labels y (N,) on scales that no network is made for.

    No column is refused. The warning names those whose mean is beyond FAR of their own deviation and of 1, or whose
    deviation is beyond FAR, or below 1 and the largest by LITTLE although many of their values differ; and all columns
    where their root mean square is below 1 / FAR. X of another shape is judged as one column. Labels are named
    where their root mean square, noise_std^2 taken off its square, is FAR times `prior_std` or more, the deviation of
    the network's prior at X (the root of the mean of its NTK's diagonal), or less than it by LITTLE; None leaves them
    out. The warning says what to subtract, and what to divide by.
    """
    points = np.asarray(X, np.float64)
    columns = points if points.ndim == 2 else points.reshape(-1, 1)
    said = list(_off(columns)) if len(columns) > 1 else []
    if said:
        more = f", and {len(said) - SHOWN} more such columns" * (len(said) > SHOWN)
        _warn(f"X: networks expect columns of mean 0 and deviation 1: {'; '.join(said[:SHOWN])}{more}")
    if y is None or prior_std is None:
        return
    targets = np.asarray(y, np.float64)
    mean, std, square = float(targets.mean()), float(targets.std()), float(np.mean(targets**2))
    # `square` is what is left of labels for the network to explain, of which noise may be all.
    far, little = square - noise_std**2 > (FAR * prior_std) ** 2, 0 < square < (prior_std / LITTLE) ** 2 and not said
    if far or little:
        scale = std or abs(mean)
        given = f"{_centred('y', mean)} / {scale:.3g}" if std and abs(mean) > std / FAR else f"y / {scale:.3g}"
        noise = f" and noise_std / {scale:.3g}" if noise_std else ""
        _warn(
            f"y has mean {mean:.3g} and deviation {std:.3g}, and the network's prior at X a deviation of "
            f"{prior_std:.2g}: variances will be too {'small' if far else 'large'} for such labels: give {given}{noise}"
        )


def _off(columns: np.ndarray) -> Iterator[str]:
    """What is wrong with the scale of each column (N, columns), in words, and what to give."""
    mean, std = columns.mean(0), columns.std(0)
    size = float(np.sqrt(np.mean(columns**2)))
    if 0 < size < 1 / FAR:
        yield f"all of X has a root mean square of {size:.1g}, give X / {size:.2g}"
        return
    quarters = np.quantile(columns, [0.25, 0.75], axis=0)
    little = (std > 0) & (std * LITTLE < min(float(std.max()), 1.0)) & (quarters[0] < quarters[1])
    for j in np.flatnonzero((np.abs(mean) > FAR * np.maximum(std, 1.0)) | (std > FAR) | little):
        if std[j]:
            given = f"give {_centred('column', mean[j])} / {std[j]:.3g}"
            yield f"column {j} has mean {mean[j]:.3g} and deviation {std[j]:.3g}, {given}"
        else:
            yield f"column {j} is {mean[j]:.3g} throughout, leave it out"


def _centred(name: str, mean: float) -> str:
    return f"({name} {'-' if mean > 0 else '+'} {abs(mean):.4g})"


def _warn(message: str) -> None:
    warnings.warn(message, ScaleWarning, stacklevel=5)  # of who called the method that began with `scales`


def _float(name: str, value: Any) -> float:
    """A real number as a float: NaN if it is no number, or too large for one."""
    _one(name, value)
    try:
        return nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
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
    """A finite float64 array."""
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):  # NumPy would drop the imaginary part with no more than a warning
            raise ValueError("Complex data not supported")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {type(values).__name__}: give an array of numbers ({error})") from error
    bad = np.argwhere(~np.isfinite(array))[:1].tolist()
    require(not bad, f"{name} has a NaN or infinity, first at {bad[0] if bad else []}: remove or impute it")
    return array
