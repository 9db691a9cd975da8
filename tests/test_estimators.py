"""What estimators promise of their numbers: samples, seeds, and what needs a fit.

Notebooks 01 and 03 hold them to their laws, and tests/test_definitions.py to their definitions.
"""

import numpy as np
import pytest

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, GradientFlow, datasets
from rndlib.estimators import NotFittedError

NET = MLP(3, width=64)
DATA = datasets.toy(2, n_test=6)
X, Y, X_TEST = DATA.X, DATA.y / 10, DATA.X_test


@pytest.fixture(scope="module")
def model():
    return BayesianRND(NET, heads=3, bodies=4, directions="independent").fit(X, Y)


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
    model = BayesianRND(NET, heads=3, bodies=4, mean=lambda X: X[:, 0]).fit(X)
    np.testing.assert_array_equal(model.predict(X_TEST), X_TEST[:, 0])
    with pytest.raises(ValueError, match="mean"):
        BayesianRND(NET, mean=lambda X: X).fit(X[:2]).predict(X_TEST)


def test_nothing_is_returned_before_it_is_trained():
    for ask in (DeepEnsemble(NET).functions, RND(NET).errors, RND(NET).variance, BayesianRND(NET).sample_y):
        with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
            ask(X_TEST)
    with pytest.raises(NotFittedError, match="had no y"):
        BayesianRND(NET, heads=1).fit(X).predict(X_TEST)
    with pytest.raises(NotFittedError):
        _ = RND(NET).report


def test_a_seed_decides_everything_and_the_numbers_around_it_nothing():
    functions = DeepEnsemble(NET, 3, seed=1).fit(X, Y).functions(X_TEST)
    np.testing.assert_array_equal(DeepEnsemble(NET, 3, seed=1).fit(X, Y).functions(X_TEST), functions)
    assert not np.allclose(DeepEnsemble(NET, 3, seed=2).fit(X, Y).functions(X_TEST), functions)
    # Members are trained in blocks that share their step size, so another number of them is another rounding of it.
    more = DeepEnsemble(NET, 5, seed=1).fit(X, Y).functions(X_TEST)[:3]
    assert np.linalg.norm(more - functions) < GradientFlow().rtol * np.linalg.norm(functions)


def test_labels_play_no_part_in_rnd():
    np.testing.assert_array_equal(RND(NET, 2).fit(X).errors(X_TEST), RND(NET, 2).fit(X, Y).errors(X_TEST))
