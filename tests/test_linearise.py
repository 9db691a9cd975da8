"""The network and its tangent, against Eq. 1 written out and its Jacobian by automatic differentiation."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks import body, forward, jacobian

from rndlib import MLP
from rndlib.training.backends.jax import JaxBackend
from rndlib.training.backends.jax import linearise as lin
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.weights import Role, draw, draw_directions

N, HEADS, IN_DIM = 4, 2, 3
WIDTH = 9  # above the fan-in from which products are XLA's, which IN_DIM is not
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, IN_DIM))
V = RNG.normal(size=(N, HEADS))

# Sums of at most N * (P = 150) products of numbers of order 1 to 10.
close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)


def arrays(net, params) -> lin.Params:
    return jax.tree.map(jnp.asarray, lin.to_jax(net, params))


class Case(NamedTuple):
    """A network, its parameters, its function on X and its Jacobian by automatic differentiation."""

    net: MLP
    params: lin.Params
    f: np.ndarray
    J: np.ndarray


# One activation for each way to its slope, and one with a kink; the others are held by themselves to theirs.
NETWORKS = [("silu", 1), *((activation, depth) for activation in ("silu", "relu", "softplus") for depth in (2, 3))]


@pytest.fixture(scope="module", params=NETWORKS, ids=str)
def case(request) -> Case:
    activation, depth = request.param
    # Biases of no scale at one depth: their part of everything then vanishes.
    net = MLP(IN_DIM, WIDTH, depth, activation, sigma_w=1.3, sigma_b=0.0 if depth == 3 else 0.7)

    @in_float64
    def build():
        params = body(draw(net, HEADS, depth, Role.MEMBER, range(1)), 0)
        return Case(net, arrays(net, params), np.asarray(forward(net, params, X)), jacobian(net, params, X))

    return build()


@in_float64
def test_function(case):
    close(lin.linearised(case.net, case.params, jnp.asarray(X))[0], case.f)


@in_float64
def test_kernel(case):
    _, at = lin.linearised(case.net, case.params, jnp.asarray(X))
    kernel = case.J @ case.J.T
    close(at.kernel_matrix(), kernel)
    close(at.kernel_product(jnp.asarray(V)).ravel(), kernel @ V.ravel())


@in_float64
def test_pull_back(case):
    _, at = lin.linearised(case.net, case.params, jnp.asarray(X))
    back = at.pull_back(jnp.asarray(V))
    assert jax.tree.map(jnp.shape, back) == jax.tree.map(jnp.shape, case.params)
    close(flat(lin.to_numpy(case.net, back)), case.J.T @ V.ravel())


@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("depth", [1, 2, 3])
@in_float64
def test_pull_back_of_several(heads, depth):
    net = MLP(3, width=16, depth=depth)
    _, at = lin.linearised(net, arrays(net, body(draw(net, heads, 0, Role.MEMBER, range(1)), 0)), jnp.asarray(X))
    v = jnp.asarray(np.random.default_rng(8).normal(size=(2, len(X), heads)))
    each = at.pull_back_each(v)
    for k in (0, 1):
        alone = at.pull_back(v[k])
        assert jax.tree.map(jnp.shape, alone) == jax.tree.map(lambda a: a.shape[1:], each)
        close(flat([(w[k], b[k]) for w, b in each]), flat(alone))


@in_float64
def test_push_forward(case):
    _, at = lin.linearised(case.net, case.params, jnp.asarray(X))
    step = body(draw(case.net, HEADS, 5, Role.MEMBER, range(1)), 0)
    forth = at.push_forward(arrays(case.net, step))
    close(forth.ravel(), case.J @ flat(step))
    of_body = [*step[:-1], tuple(map(np.zeros_like, step[-1]))]
    close(at.push_forward(arrays(case.net, step)[:-1]).ravel(), case.J @ flat(of_body))


def test_body_tangent(case):
    directions = draw_directions(case.net, 6, range(1), None)
    last = jax.tree.map(np.zeros_like, lin.to_numpy(case.net, case.params)[-1])
    psi = flat([*body(directions, 0), last])
    params = draw(case.net, HEADS, case.net.depth, Role.MEMBER, range(1))
    tangent = JaxBackend().tangents(case.net, params, directions, X, "float64")
    close(tangent[0].T.ravel(), case.J @ psi)


def flat(params) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(params)])


@pytest.mark.parametrize("rows", [1, 10, 32, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@in_float64
def test_gram(rows, dtype):
    for units in (3, 63, 64, 1000):
        x = np.random.default_rng(rows).standard_normal((rows, units)).astype(dtype)
        got, exact, size = np.asarray(lin.gram(jnp.asarray(x))), x.astype(float), np.abs(x.astype(float))
        assert got.dtype == dtype
        # Each sum of products is off by units * eps / 2 of the absolute values' at most, and so is the reference.
        assert (np.abs(got - exact @ exact.T) <= units * np.finfo(dtype).eps * (size @ size.T)).all()
