"""Networks before training, and tangent kernels at any time, against whole Jacobians."""

from dataclasses import replace

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


@pytest.mark.parametrize("depth", [1, 3])
def test_functions_and_products_of_gradients_are_those_of_the_drawn_weights(depth):
    net = replace(NET, depth=depth)
    functions = initial.functions(net, X, 3, heads=2, seed=SEED)
    last, below = initial.tangent_kernels(net, X, 3, heads=2, seed=SEED)
    assert last.shape == below.shape == (3, 2, 2, 5, 5)
    for i in range(3):
        params = body(draw(net, 2, SEED, Role.MEMBER, [i]), 0)
        np.testing.assert_allclose(functions[i], values(net, params, X), rtol=1e-12)
        for found, expected in zip((last[i], below[i]), _blocks(net, params, 2, X), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max() + 1e-13)


@pytest.mark.torch
def test_an_ensemble_starts_there_and_its_kernels_move():
    """Those of RND, too, which are of every two heads. On PyTorch, which compiles nothing."""
    net, torch = MLP(3, width=64), {"seed": SEED, "backend": "torch"}
    y = X.sum(axis=1)
    start = np.add(*initial.tangent_kernels(net, X_TEST, 3, **torch))
    soon = DeepEnsemble(net, 3, solver=GradientFlow(1e-9), **torch).fit(X, y)
    np.testing.assert_allclose(tangent_kernels(soon, X_TEST), start, rtol=1e-6)
    np.testing.assert_allclose(soon.functions(X_TEST), initial.functions(net, X_TEST, 3, **torch)[:, 0], rtol=1e-5)
    later = tangent_kernels(DeepEnsemble(net, 3, solver=GradientFlow(1.0), **torch).fit(X, y), X_TEST)
    assert later.shape == (3, 1, 1, 4, 4)
    assert np.abs(later - start).max() > 1e-3
    of_heads = tangent_kernels(RND(net, heads=2, bodies=3, solver=GradientFlow(0.1), **torch).fit(X), X_TEST)
    assert of_heads.shape == (3, 2, 2, 4, 4)
    np.testing.assert_allclose(of_heads, of_heads.transpose(0, 2, 1, 4, 3), rtol=1e-9, atol=1e-12)


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
