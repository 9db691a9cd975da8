"""Initial weights are a function of the seed, the role and the body alone."""

import pickle

import numpy as np
import pytest
from scipy import stats

from rndlib import MLP
from rndlib.training.weights import Role, draw, draw_directions, draw_offsets, stream

NET = MLP(3, width=16, depth=3)


def flat(params):
    """(networks, parameters)."""
    return np.concatenate([array.reshape(len(array), -1) for layer in params for array in layer], axis=1)


def same(a, b):
    np.testing.assert_array_equal(flat(a), flat(b))


def test_what_a_seed_means():
    """The stream of (seed 5, target, body 3), layer by layer, weights before biases: no release may change it."""
    numbers = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5, spawn_key=(2, 3))))
    params = draw(NET, 5, 5, Role.TARGET, [3])
    for w, b in params:
        np.testing.assert_array_equal(w[0], numbers.standard_normal(w[0].shape))
        np.testing.assert_array_equal(b[0], numbers.standard_normal(b[0].shape))
    # And its first numbers outright, in case NumPy changes what the lines above mean.
    first = [-0.8867621711561985, 0.6716833204219192, -2.54931704226587]
    np.testing.assert_allclose(params[0][0][0, 0], first, rtol=1e-15)


def test_a_body_does_not_depend_on_the_others():
    many = draw(NET, 4, 1, Role.MEMBER, range(6))
    same(draw(NET, 4, 1, Role.MEMBER, [4]), [(w[4:5], b[4:5]) for w, b in many])
    offsets = draw_offsets(1, range(6), 3, 4)
    np.testing.assert_array_equal(draw_offsets(1, [4], 3, 4), offsets[4:5])
    assert stats.kstest(draw_offsets(1, range(100), 5, 4).ravel(), "norm").pvalue > 1e-3  # N(0, 1)


def test_a_direction_does_not_depend_on_the_others():
    shared = draw_directions(NET, 1, range(6), None)
    same(draw_directions(NET, 1, [4], None), [(w[4:5], b[4:5]) for w, b in shared])
    by_head = draw_directions(NET, 1, range(3), range(8))
    group = [2 * 8 + 5, 2 * 8 + 6]  # body-major
    same(draw_directions(NET, 1, [2], [5, 6]), [(w[group], b[group]) for w, b in by_head])


def test_seeds_roles_bodies_and_heads_share_no_numbers():
    networks = (Role.MEMBER, Role.PREDICTOR, Role.TARGET, Role.MEAN)
    numbers = []
    for seed in (0, 1):
        numbers += [flat(draw(NET, 4, seed, role, range(3))) for role in networks]
        numbers += [flat(draw_directions(NET, seed, range(3), heads)) for heads in (None, range(2))]
        numbers += [draw_offsets(seed, range(3), 5, 4)]
    every = np.concatenate([part.ravel() for part in numbers])
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("role", list(Role))
def test_the_global_generator_is_neither_read_nor_advanced(role):
    np.random.seed(0)  # noqa: NPY002 - the one that must play no part
    before = pickle.dumps(np.random.get_state())  # noqa: NPY002
    first = stream(3, role, 1).standard_normal(4)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(stream(3, role, 1).standard_normal(4), first)
    np.random.seed(0)  # noqa: NPY002
    assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002
