"""The synthetic regression problem of the paper's experiments."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks


@dataclass(frozen=True)
class Regression:
    """Training points with labels, and test points."""

    X: Float[np.ndarray, "n_train in_dim"]
    y: Float[np.ndarray, " n_train"]
    X_test: Float[np.ndarray, "n_test in_dim"]


def toy(seed: int, n_train: int = 10, n_test: int = 5000) -> Regression:
    """The paper's problem: x ~ N(0, I_3), labelled by `toy_target`.

    Training and test points are streams of their own: the first rows of either stay the same for one seed, however
    many are asked for of it or of the other.

    Raises
    ------
    ValueError: an argument is not a whole number, or out of range.
    """
    n_train, n_test = checks.whole("n_train", n_train, 1), checks.whole("n_test", n_test, 1)
    train, test = map(np.random.default_rng, np.random.SeedSequence(checks.whole("seed", seed, 0)).spawn(2))
    X = train.standard_normal((n_train, 3))
    return Regression(X, toy_target(X), test.standard_normal((n_test, 3)))


def toy_target(X: ArrayLike) -> Float[np.ndarray, " n_samples"]:
    """y(x) = x_1 + x_2 + x_3 - 2 x_1 x_2 x_3, `(n_samples, 3)` to `(n_samples,)`.

    The appendix counts the sum's components from 0 and the product's from 1; with three inputs this reading is left.
    """
    X = checks.points("X", X, 3)
    return X.sum(axis=1) - 2 * X.prod(axis=1)
