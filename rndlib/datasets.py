"""The synthetic regression problem of the paper's experiments."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks


@dataclass(frozen=True)
class Regression:
    """Training points with labels, and test points: X (n_train, in_dim), y (n_train,), X_test (n_test, in_dim).

    >>> from rndlib import datasets
    >>> data = datasets.toy(seed=0, n_test=100)
    >>> data.X.shape, data.y.shape, data.X_test.shape
    ((10, 3), (10,), (100, 3))
    """

    X: Float[np.ndarray, "n_train in_dim"]
    y: Float[np.ndarray, " n_train"]
    X_test: Float[np.ndarray, "n_test in_dim"]


def toy(seed: int, n_train: int = 10, n_test: int = 5000) -> Regression:
    """The paper's problem: x ~ N(0, I_3), labelled by `toy_target`.

    Training and test points come from separate random streams. For one seed, the first rows of each do not depend on
    `n_train` or `n_test`.

    >>> from rndlib import datasets
    >>> bool((datasets.toy(seed=0, n_train=20).X[:10] == datasets.toy(seed=0).X).all())
    True
    """
    n_train, n_test = checks.whole("n_train", n_train, 1), checks.whole("n_test", n_test, 1)
    train, test = map(np.random.default_rng, np.random.SeedSequence(checks.whole("seed", seed, 0)).spawn(2))
    X = train.standard_normal((n_train, 3))
    return Regression(X, toy_target(X), test.standard_normal((n_test, 3)))


def toy_target(X: ArrayLike) -> Float[np.ndarray, " n_samples"]:
    """y(x) = x_1 + x_2 + x_3 - 2 x_1 x_2 x_3, `(n_samples, 3)` to `(n_samples,)`.

    The paper's Appendix C counts components from 0 in the sum and from 1 in the product. With three inputs, only this
    reading is possible.

    >>> from rndlib import datasets
    >>> datasets.toy_target([[1.0, 2.0, 3.0]])
    array([-6.])
    """
    X = checks.points("X", X, (3,))
    return X.sum(axis=1) - 2 * X.prod(axis=1)
