"""The largest eigenvalue from a few products, on every backend, against the whole spectrum."""

import numpy as np
import pytest
from networks import BACKENDS, body, jacobian

from rndlib import MLP, datasets
from rndlib.training.backends import load
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.lanczos import FORMED, largest_eigenvalue
from rndlib.training.problem import Problem
from rndlib.training.weights import Params, Role, draw


def largest(net: MLP, params: Params, X: np.ndarray, backend: str) -> float:
    bodies, heads = params[-1][0].shape[:2]
    assert len(X) * heads > FORMED
    return largest_eigenvalue(Problem(net, params, X, np.zeros((bodies, heads, len(X)))), load(backend))


# Of one layer the kernel is G for every head: no more eigenvalues than columns and one, after which nothing is left.
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "X", [np.zeros((50, 3)), np.eye(50), datasets.toy(seed=2, n_train=50).X], ids=["0", "I", "toy"]
)
def test_a_kernel_of_few_eigenvalues_ends_the_recurrence(X, backend):
    heads, net = 4, MLP(X.shape[1], depth=1, sigma_w=1.5, sigma_b=0.0)
    exact = np.linalg.norm(1.5**2 / X.shape[1] * X @ X.T, 2)
    found = largest(net, draw(net, heads, 0, Role.PREDICTOR, range(2)), X, backend)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


# What `stretched` takes it for is a grid that is rounded to a tenth; the rate of gradient descent is refused to that.
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("width", [32, 512])
def test_within_a_tenth_from_below(width, backend):
    heads, X = 16, datasets.toy(seed=2).X
    net = MLP(3, width=width, sigma_w=1.5, sigma_b=0.1)
    params = draw(net, heads, 0, Role.PREDICTOR, range(3))
    exact = max(np.linalg.norm(in_float64(jacobian)(net, body(params, i), X), 2) ** 2 for i in range(3))
    assert 0.9 * exact <= largest(net, params, X, backend) <= exact * (1 + 1e-12)
