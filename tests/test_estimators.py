"""What estimators promise of their numbers: samples, seeds, and what needs a fit.

Notebooks 01 and 03 hold them to their laws, and tests/test_definitions.py to their definitions. No promise depends on
the backend: on PyTorch nothing is compiled.
"""

import numpy as np
import pytest

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, GradientFlow, datasets
from rndlib.estimators import NotFittedError

pytestmark = pytest.mark.torch
NET = MLP(3, width=64)
DATA = datasets.toy(2, n_test=6)
X, Y, X_TEST = DATA.X, DATA.y / 10, DATA.X_test


@pytest.fixture(scope="module")
def model():
    return BayesianRND(NET, heads=3, bodies=4, directions="independent", backend="torch").fit(X, Y)


def test_samples_are_the_heads_each_once(model):
    samples = model.sample_y(X_TEST, 12, random_state=1)
    assert samples.shape == (6, 12)
    expected = model.predict(X_TEST) + model.errors(X_TEST)
    np.testing.assert_allclose(np.sort(samples.T, axis=0), np.sort(expected, axis=0))
    np.testing.assert_array_equal(model.sample_y(X_TEST, 12, random_state=1), samples)
    assert not np.array_equal(model.sample_y(X_TEST, 12, random_state=2), samples)
    np.testing.assert_array_equal(model.sample_y(X_TEST, 5, random_state=1), samples[:, :5])
    with pytest.raises(ValueError, match="n_samples = 13: the 12 heads"):
        model.sample_y(X_TEST, 13)


def test_a_mean_of_ones_own():
    model = BayesianRND(NET, heads=3, bodies=4, mean=lambda X: X[:, 0], backend="torch").fit(X)
    np.testing.assert_array_equal(model.predict(X_TEST), X_TEST[:, 0])
    with pytest.raises(ValueError, match="mean"):
        BayesianRND(NET, mean=lambda X: X, backend="torch").fit(X[:2]).predict(X_TEST)


def test_nothing_is_returned_before_it_is_trained():
    for ask in (DeepEnsemble(NET).functions, RND(NET).errors, RND(NET).variance, BayesianRND(NET).sample_y):
        with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
            ask(X_TEST)
    with pytest.raises(NotFittedError, match="had no y"):
        BayesianRND(NET, heads=1, backend="torch").fit(X).predict(X_TEST)
    with pytest.raises(NotFittedError):
        _ = RND(NET).report


def test_a_seed_decides_everything_and_the_numbers_around_it_nothing():
    def fitted(members: int, seed: int) -> np.ndarray:
        return DeepEnsemble(NET, members, seed=seed, backend="torch").fit(X, Y).functions(X_TEST)

    functions = fitted(3, seed=1)
    np.testing.assert_array_equal(fitted(3, seed=1), functions)
    assert not np.allclose(fitted(3, seed=2), functions)
    # Members are trained in blocks that share their step size, so another number of them is another rounding of it.
    more = fitted(5, seed=1)[:3]
    assert np.linalg.norm(more - functions) < GradientFlow().rtol * np.linalg.norm(functions)
