"""Real data that ships with scikit-learn, split and scaled: nothing is downloaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rndlib import checks

CLASSES = 10
SIDE = 8  # pixels, of an image of a digit
BRIGHTEST = 16.0  # value of a pixel of a digit


@dataclass(frozen=True)
class Split:
    """Training and test points with their labels, in units of the training points' standard deviations.

    X (n, d), y (n,), X_test (t, d), y_test (t,).
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    y_test: Float[np.ndarray, " t"]


@dataclass(frozen=True)
class Shift:
    """Training images of some classes, test images of the same, and images from elsewhere.

    X (n, 64), digits (n,) from 0 to 9, inside (t, 64), and by what they show, outside (t, 64) each. Centred by the mean
    training image, and scaled so that a training image has a mean square of 1 over its pixels. centre (64,) in the same
    units: added to a row, it gives the image's brightness from 0 up.
    """

    X: Float[np.ndarray, "n d"]
    digits: Int[np.ndarray, " n"]
    inside: Float[np.ndarray, "t d"]
    outside: Mapping[str, Float[np.ndarray, "t d"]]
    centre: Float[np.ndarray, " d"]


def diabetes(seed: int, test_fraction: float = 0.2) -> Split:
    """scikit-learn's diabetes data, 442 patients: ten measurements, and how far the disease went on within a year.

    Raises
    ------
    ValueError: an argument is out of range.

    >>> from rndlib.practice import data
    >>> split = data.diabetes(seed=0)
    >>> split.X.shape, split.X_test.shape
    ((353, 10), (89, 10))
    """
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    checks.whole("seed", seed, at_least=0)
    checks.fraction("test_fraction", test_fraction)
    loaded: Any = load_diabetes(return_X_y=True)
    parts: Any = train_test_split(*loaded, test_size=test_fraction, random_state=seed)
    X, X_test, y, y_test = parts
    centre, scale = X.mean(axis=0), X.std(axis=0)
    return Split(
        (X - centre) / scale, (y - y.mean()) / y.std(), (X_test - centre) / scale, (y_test - y.mean()) / y.std()
    )


def digits(seed: int, n_train: int, n_test: int, held_out: int = 3) -> Shift:
    """scikit-learn's images of handwritten digits, without `held_out` classes drawn at random.

    Outside are images of those classes, and patches of scikit-learn's two photographs: grey, of as many pixels, and as
    bright as digits can be. `n_test` of each, and as many digits of the classes that were trained on.

    Raises
    ------
    ValueError: an argument is out of range, or there are not so many digits.

    >>> from rndlib.practice import data
    >>> shift = data.digits(seed=0, n_train=100, n_test=20)
    >>> shift.X.shape, shift.inside.shape, {name: found.shape for name, found in shift.outside.items()}
    ((100, 64), (20, 64), {'held-out digits': (20, 64), 'photographs': (20, 64)})
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(checks.whole("seed", seed, at_least=0))
    n_train, n_test = checks.whole("n_train", n_train, 1), checks.whole("n_test", n_test, 1)
    if checks.whole("held_out", held_out, 1) > CLASSES - 2:
        raise ValueError(f"held_out = {held_out}: leave at least two of the {CLASSES} classes")
    loaded: Any = load_digits(return_X_y=True)
    images, classes = loaded
    out = np.isin(classes, rng.permutation(CLASSES)[:held_out])
    known, unknown = (rng.permutation(np.flatnonzero(where)) for where in (~out, out))
    for name, wanted, found in (("n_train + n_test", n_train + n_test, known), ("n_test", n_test, unknown)):
        if wanted > len(found):
            raise ValueError(f"{name} = {wanted}: there are {len(found)} such digits; give a smaller one")
    train, inside = images[known[:n_train]], images[known[n_train : n_train + n_test]]
    centre = train.mean(axis=0)
    scale = np.sqrt(np.mean((train - centre) ** 2))
    outside = {"held-out digits": images[unknown[:n_test]], "photographs": _patches(n_test, rng)}
    return Shift(
        (train - centre) / scale,
        classes[known[:n_train]].astype(np.int64),
        (inside - centre) / scale,
        {name: (found - centre) / scale for name, found in outside.items()},
        centre / scale,
    )


def _patches(count: int, rng: np.random.Generator) -> Float[np.ndarray, "count pixels"]:
    """Square patches of scikit-learn's photographs, at random places, in the brightness of digits."""
    from sklearn.datasets import load_sample_images

    photographs: Any = load_sample_images()
    greys = [photograph.mean(axis=2) * (BRIGHTEST / 255) for photograph in photographs.images]
    patches = []
    for index in range(count):
        grey = greys[index % len(greys)]
        row, column = (int(rng.integers(size - SIDE + 1)) for size in grey.shape)
        patches.append(grey[row : row + SIDE, column : column + SIDE].ravel())
    return np.stack(patches)
