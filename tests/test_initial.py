"""Networks before training, and tangent kernels at any time, against whole Jacobians."""

import numpy as np
import pytest
from networks import body, jacobian, values

from rndlib import MLP, RND, DeepEnsemble, GradientFlow, initial
from rndlib.estimators import NotFittedError
from rndlib.paper.fitted import tangent_kernels
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw

NET = MLP(3, width=20, depth=3, activation="tanh", sigma_b=0.5)
SEED = 4
RNG = np.random.default_rng(3)
X, X_TEST = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))


def _blocks(net, params, heads, points):
    """Products of the whole gradients of heads and points, last layer and layers below: (heads, heads, n, n) each."""
    J = np.asarray(in_float64(jacobian)(net, params, points)).reshape(len(points), heads, -1)
    above = sum(array.size for array in params[-1])
    return [np.einsum("pia,qja->ijpq", part, part) for part in (J[..., -above:], J[..., :-above])]


@pytest.mark.parametrize(("depth", "heads"), [(1, 3), (3, 1), (3, 3)])
def test_parts_are_products_of_gradients(depth, heads):
    net = MLP(3, width=20, depth=depth, activation="tanh", sigma_b=0.5)
    last, below = initial.tangent_kernels(net, X, 3, heads=heads, seed=SEED)
    assert last.shape == below.shape == (3, heads, heads, 5, 5)
    for i in range(3):
        params = body(draw(net, heads, SEED, Role.MEMBER, [i]), 0)
        for found, expected in zip((last[i], below[i]), _blocks(net, params, heads, X), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max() + 1e-13)


def test_functions_are_those_of_the_drawn_weights():
    found = initial.functions(NET, X, 3, heads=2, seed=SEED)
    for i in range(3):
        params = body(draw(NET, 2, SEED, Role.MEMBER, [i]), 0)
        np.testing.assert_allclose(found[i], values(NET, params, X), rtol=1e-12)


def test_a_network_does_not_depend_on_how_many_there_are():
    np.testing.assert_array_equal(initial.functions(NET, X, 7, seed=SEED)[:2], initial.functions(NET, X, 2, seed=SEED))
    for many, few in zip(*(initial.tangent_kernels(NET, X, n, seed=SEED) for n in (7, 2)), strict=True):
        np.testing.assert_allclose(many[:2], few, rtol=1e-12)


def test_an_ensemble_starts_there_and_its_kernels_move():
    net = MLP(3, width=64)
    y = X.sum(axis=1)
    start = np.add(*initial.tangent_kernels(net, X_TEST, 3, seed=SEED))
    soon = DeepEnsemble(net, 3, seed=SEED, solver=GradientFlow(1e-9)).fit(X, y)
    np.testing.assert_allclose(tangent_kernels(soon, X_TEST), start, rtol=1e-6)
    np.testing.assert_allclose(soon.functions(X_TEST), initial.functions(net, X_TEST, 3, seed=SEED)[:, 0], rtol=1e-5)
    later = tangent_kernels(DeepEnsemble(net, 3, seed=SEED, solver=GradientFlow(1.0)).fit(X, y), X_TEST)
    assert later.shape == (3, 1, 1, 4, 4)
    assert np.abs(later - start).max() > 1e-3


def test_kernels_of_every_head_of_a_trained_predictor():
    found = tangent_kernels(
        RND(MLP(3, width=64), heads=2, bodies=3, seed=SEED, solver=GradientFlow(0.1)).fit(X), X_TEST
    )
    assert found.shape == (3, 2, 2, 4, 4)
    np.testing.assert_allclose(found, found.transpose(0, 2, 1, 4, 3), rtol=1e-9, atol=1e-12)


def test_kernels_need_a_fit():
    with pytest.raises(NotFittedError):
        tangent_kernels(DeepEnsemble(NET, 2), X)


@pytest.mark.parametrize("of", [initial.functions, initial.tangent_kernels])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[:, :2]}, "X has shape"),
        ({"bodies": 0}, "bodies = 0"),
        ({"heads": 0}, "heads = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"backend": "numpy"}, "backend = 'numpy'"),
    ],
)
def test_bad_input(of, change, message):
    with pytest.raises(ValueError, match=message):
        of(**{"net": NET, "X": X, "bodies": 2, **change})
