"""Linearised networks of both backends, against the Jacobian by automatic differentiation."""

import jax
import numpy as np
import pytest
from networks import BACKENDS, body, forward, jacobian

from rndlib import MLP, GradientDescent
from rndlib.training import backends
from rndlib.training.backends.jax import in_float64
from rndlib.training.problem import Problem
from rndlib.training.weights import Role, draw, draw_directions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
BODIES, HEADS, WIDTH = 2, 2, 9
NETWORKS = [("silu", 1), ("silu", 2), ("relu", 2), ("softplus", 3)]


@pytest.fixture(params=BACKENDS)
def lib(request):
    return backends.load(request.param)


def products(lib, net, shared, own):
    params, change, v = own
    at = lib.linearise(net, params, shared[0])
    return at.value, at.jvp(change), at.jvp(change[:-1]), at.vjp(v), *at.kernels()


def several(lib, net, shared, own):
    at = lib.linearise(net, own[0], shared[0])
    return at.multiplier("float64")(own[1]), at.jvp_each(own[2]), at.vjp_each(own[1][..., 0].mT)


def flat(params):
    return np.concatenate([np.zeros(0), *(np.asarray(leaf).ravel() for leaf in jax.tree.leaves(params))])


def close(found, expected):
    # Sums of at most N * (P = 150) products of numbers of order 1 to 10.
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(("activation", "depth"), NETWORKS)
def test_products_are_those_of_the_jacobian(lib, activation, depth):
    """Of bodies one at a time and together."""
    # Biases of no scale at one depth: their part of everything then vanishes.
    net = MLP(3, WIDTH, depth, activation, sigma_w=1.3, sigma_b=0.0 if depth == 3 else 0.7)
    params, change = (draw(net, HEADS, seed, Role.MEMBER, range(BODIES)) for seed in (0, 1))
    v = RNG.normal(size=(BODIES, len(X), HEADS))
    with lib.settings():
        both = [lib.arrays(lib.each(products, net, (X,), (params, change, v), together)) for together in (0, 8)]
    for i in range(BODIES):
        J = in_float64(jacobian)(net, body(params, i), X)
        below, last = np.split(J, [J.shape[1] - flat(body(params, i)[-1]).size], axis=1)
        in_body = below @ flat(body(change, i)[:-1])
        value, along, back = in_float64(forward)(net, body(params, i), X), J @ flat(body(change, i)), J.T @ v[i].ravel()
        for found in both:
            exact = value, along, in_body, back, below @ below.T, last @ last.T
            for part, expected in zip(body(found, i), exact, strict=True):
                close(flat(part), expected)
    tangents = lib.tangents(net, params, change[:-1], X)
    close(np.swapaxes(tangents, 1, 2), both[0][2])
    for_each_head = jax.tree.map(lambda a: np.repeat(a, HEADS, axis=0), change[:-1])
    close(lib.tangents(net, params, for_each_head, X), tangents)


@pytest.mark.parametrize("depth", [1, 3])
def test_several_at_once_are_each_alone(lib, depth):
    net = MLP(3, WIDTH, depth, sigma_b=0.5)
    params, changes = draw(net, 1, 0, Role.MEMBER, [0]), draw(net, 1, 1, Role.MEMBER, range(5))
    v = RNG.normal(size=(1, 5, len(X), 1))
    J = in_float64(jacobian)(net, body(params, 0), X)
    stacked = jax.tree.map(lambda a: a[None], changes)
    with lib.settings():
        multiplied, along, back = body(lib.arrays(lib.each(several, net, (X,), (params, v, stacked))), 0)
    for i in range(5):
        close(multiplied[i], J @ (J.T @ v[0, i].ravel()))
        close(along[:, i], J @ flat(body(changes, i)))
        close(flat(body(back, i)), J.T @ v[0, i].ravel())
    found = lib.push_forward(net, params, stacked, X)
    close(found[0].T, along)
    close(flat(lib.pull_back(net, params, X, v[..., 0].swapaxes(1, 2))), flat(back))


def test_many_points_and_bodies_are_evaluated_in_parts(lib, monkeypatch):
    """More of both than are evaluated at once, and neither a multiple of it."""
    points, params = RNG.normal(size=(31, 3)), draw(MLP(3), 3, 0, Role.MEMBER, range(5))
    directions = draw_directions(MLP(3), 0, range(5), range(3))
    v, one = RNG.normal(size=(5, 31, 2)), draw(MLP(3), 1, 0, Role.MEMBER, range(5))

    def everything():
        changes = lib.pull_back(MLP(3), one, points, v)
        pushed = lib.push_forward(MLP(3), one, changes, points)
        tangents = lib.tangents(MLP(3), params, directions, points)
        return [lib.functions(MLP(3), params, points), tangents, pushed]

    whole = everything()
    for name in ("CHUNK_BYTES", "COLUMNS_BYTES"):
        monkeypatch.setattr(backends, name, 8 * 512 * 7)
    for expected, found in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_arrays_of_any_layout_are_welcome_and_left_alone(lib):
    net, turned = MLP(3, width=32), X[::-1]
    params = draw(net, 1, 0, Role.MEMBER, range(2))
    kept = jax.tree.map(np.copy, params)
    turned.flags.writeable = False
    straight = lib.functions(net, params, X)
    np.testing.assert_allclose(lib.functions(net, params, turned)[..., ::-1], straight, rtol=1e-12)
    zero = np.zeros((2, 4, 1))
    trained, _ = GradientDescent(0.01, 3).run(Problem(net, params, turned, zero, zero), lib)
    np.testing.assert_array_equal(flat(params), flat(kept))
    assert np.any(flat(trained) != flat(kept))
