"""Real data that ships with scikit-learn, split and scaled. Nothing is downloaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

_CLASSES = 10
_SIDE = 8  # pixels, of an image of a digit
_BRIGHTEST = 16.0  # value of a pixel of a digit


@dataclass(frozen=True)
class Split:
    """Training and test points with their labels, centred and scaled by the training points."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "t d"]
    y_test: Float[np.ndarray, " t"]


@dataclass(frozen=True)
class Shift:
    """Training images of some classes, test images of the same classes, and images from outside, by kind.

    All are centred by the mean training image, `centre`, and scaled so that the training images have a mean square of
    1. `centre`, added to a row, gives the image's brightness from 0 up.
    """

    X: Float[np.ndarray, "n d"]
    digits: Int[np.ndarray, " n"]
    inside: Float[np.ndarray, "t d"]
    outside: Mapping[str, Float[np.ndarray, "t d"]]
    centre: Float[np.ndarray, " d"]


def diabetes(seed: int, test_fraction: float = 0.2) -> Split:
    """scikit-learn's diabetes data: ten measurements of 442 patients, and the progress of the disease in a year."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    loaded: Any = load_diabetes(return_X_y=True)
    parts: Any = train_test_split(*loaded, test_size=test_fraction, random_state=seed)
    X, X_test, y, y_test = parts
    centre, scale = X.mean(axis=0), X.std(axis=0)
    return Split(
        (X - centre) / scale, (y - y.mean()) / y.std(), (X_test - centre) / scale, (y_test - y.mean()) / y.std()
    )


def digits(seed: int, n_train: int, n_test: int, held_out: int = 3) -> Shift:
    """scikit-learn's images of handwritten digits, without `held_out` classes that are drawn at random.

    Outside are `n_test` images of those classes, and as many patches of scikit-learn's two photographs.
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    loaded: Any = load_digits(return_X_y=True)
    images, classes = loaded
    out = np.isin(classes, rng.permutation(_CLASSES)[:held_out])
    known, unknown = (rng.permutation(np.flatnonzero(where)) for where in (~out, out))
    for name, wanted, available in (("n_train + n_test", n_train + n_test, known), ("n_test", n_test, unknown)):
        if wanted > len(available):
            raise ValueError(f"{name} = {wanted}: there are {len(available)} such digits; give a smaller one")
    train, inside = images[known[:n_train]], images[known[n_train : n_train + n_test]]
    centre = train.mean(axis=0)
    scale = np.sqrt(np.mean((train - centre) ** 2))
    outside = {"held-out digits": images[unknown[:n_test]], "photographs": _patches(n_test, rng)}
    return Shift(
        (train - centre) / scale,
        classes[known[:n_train]].astype(np.int64),
        (inside - centre) / scale,
        {name: (of - centre) / scale for name, of in outside.items()},
        centre / scale,
    )


def _patches(count: int, rng: np.random.Generator) -> Float[np.ndarray, "count pixels"]:
    """Square patches of the photographs at random places: grey, and as bright as digits can be."""
    from sklearn.datasets import load_sample_images

    photographs: Any = load_sample_images()
    greys = [photograph.mean(axis=2) * (_BRIGHTEST / 255) for photograph in photographs.images]
    patches = []
    for index in range(count):
        grey = greys[index % len(greys)]
        row, column = (int(rng.integers(size - _SIDE + 1)) for size in grey.shape)
        patches.append(grey[row : row + _SIDE, column : column + _SIDE].ravel())
    return np.stack(patches)
