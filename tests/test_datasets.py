import numpy as np
import pytest

from rndlib.datasets import toy, toy_target


def test_target_is_that_of_the_appendix():
    X = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 5.0], [-1.0, -1.0, -1.0]])
    np.testing.assert_array_equal(toy_target(X), [6 - 12, 4, -3 + 2])


def test_points_of_one_seed_do_not_depend_on_how_many_are_asked_for():
    small, large = toy(seed=3, n_train=4, n_test=5), toy(seed=3, n_train=40, n_test=50)
    assert (toy(seed=3).X.shape, toy(seed=3).X_test.shape) == ((10, 3), (5000, 3))
    np.testing.assert_array_equal(small.y, toy_target(small.X))
    np.testing.assert_array_equal(small.X, large.X[:4])
    np.testing.assert_array_equal(small.X_test, large.X_test[:5])
    assert not np.isin(large.X, large.X_test).any()
    assert not np.isin(large.X, toy(seed=4, n_train=40).X).any()


def test_points_are_standard_normal():
    X = toy(seed=0, n_test=20_000).X_test
    # Means and second moments of 20,000 draws have standard errors 1 and at most sqrt 2 over sqrt 20,000; five of them.
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=5 / 20_000**0.5)
    np.testing.assert_allclose(X.T @ X / len(X), np.eye(3), atol=5 * (2 / 20_000) ** 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed = -1"),
        ({"seed": 0, "n_train": 0}, "n_train = 0"),
        ({"seed": 0, "n_test": True}, "n_test = True"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy(**arguments)
