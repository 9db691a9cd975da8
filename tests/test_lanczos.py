"""The largest eigenvalue from a few products, against the whole spectrum."""

import jax.numpy as jnp
import numpy as np
import pytest
from networks import body, jacobian

from rndlib import MLP, datasets, lanczos
from rndlib.backends.jax.linearise import arrays
from rndlib.backends.jax.precision import in_float64
from rndlib.backends.jax.spectrum import largest_eigenvalue
from rndlib.exponential import DENSE_LIMIT
from rndlib.weights import Role, draw


def ritz(A: np.ndarray, steps: int) -> float:
    """The same recurrence on a matrix at hand."""
    v, before, beside, tridiagonal = lanczos.start(len(A), 1)[:, 0], np.zeros(len(A)), 0.0, []
    for _ in range(steps):
        w = A @ v - beside * before
        w, diagonal = w - (v @ w) * v, v @ w
        beside = np.linalg.norm(w)
        before, v = v, w / (beside if beside > 0 else 1.0)
        tridiagonal.append((diagonal, beside))
    return lanczos.largest(*np.array(tridiagonal).T[:, None])


def test_as_many_products_as_unknowns_are_exact():
    A = np.random.default_rng(0).normal(size=(8, 8))
    np.testing.assert_allclose(ritz(A @ A.T, 8), np.linalg.norm(A, 2) ** 2, rtol=1e-12)


@pytest.mark.parametrize("values", [[0.0] * 20, [3.0] * 20, [0.0] * 19 + [5.0]])
def test_a_kernel_of_few_eigenvalues_ends_the_recurrence(values):
    np.testing.assert_allclose(ritz(np.diag(values), lanczos.STEPS), max(values), rtol=1e-12)


# What `stretched` takes it for is a grid that is rounded to a tenth; the rate of gradient descent is refused to that.
@pytest.mark.parametrize("width", [32, 512])
@in_float64
def test_within_a_tenth_from_below(width):
    heads, X = 16, datasets.toy(seed=2).X
    assert len(X) * heads > DENSE_LIMIT
    net = MLP(3, width=width, sigma_w=1.5, sigma_b=0.1)
    params = draw(net, heads, 0, Role.PREDICTOR, range(3))
    exact = max(np.linalg.norm(jacobian(net, body(params, i), X), 2) ** 2 for i in range(3))
    assert 0.9 * exact <= largest_eigenvalue(net, arrays(params), jnp.asarray(X)) <= exact * (1 + 1e-12)
