"""Adam on one stage after the other, and the map of its preconditioner, against the library and against its formula."""

from functools import partial

import numpy as np
import pytest

from rndlib import MLP, RND, DeepEnsemble, StochasticGradient, datasets
from rndlib.paper import preconditioned
from rndlib.training import backends
from rndlib.training.trees import mapped

LIBRARY = backends.load("jax")
NET = MLP(3, width=32, activation="tanh", sigma_b=0.5)
PLACES = datasets.toy(0, n_train=7, n_test=1).X
Y = np.linspace(-1, 1, 7)
STAGES = slice(0, 4), slice(2, 5)


def after(model, **options):
    networks = preconditioned.begun(model, PLACES, Y)
    for own in STAGES:
        networks = preconditioned.stage(NET, networks, PLACES, own, **options)
    return networks


@pytest.mark.parametrize("model", [partial(RND, NET, 1, 3, seed=1), partial(DeepEnsemble, NET, 3, seed=1)])
def test_adam_is_the_full_batch_adam_of_the_library(model):
    adam = StochasticGradient("adam", learning_rate=0.05, batch_size=4, epochs=60, progress=False)
    trained = model(solver=adam)
    for own in STAGES:
        trained.partial_fit(PLACES[own], Y[own])
    expected = trained.errors(PLACES) if isinstance(trained, RND) else trained.functions(PLACES) - Y
    assert after(model(), learning_rate=0.05, steps=60).errors == pytest.approx(expected, abs=1e-7)


def test_a_linearised_network_moves_along_its_first_tangent():
    for linearised in (True, False):
        found = after(DeepEnsemble(NET, 2, seed=2), learning_rate=0.05, steps=60, linearised=linearised)
        change = mapped(lambda a, b: (b - a)[:, None], found.start, found.params)
        before = preconditioned.begun(DeepEnsemble(NET, 2, seed=2), PLACES, Y).errors
        along = LIBRARY.push_forward(NET, found.start, change, PLACES)[:, 0]
        assert (found.errors - before == pytest.approx(along, abs=1e-9)) == linearised


def test_the_map_has_the_kernel_of_the_preconditioner():
    before, own = preconditioned.begun(DeepEnsemble(NET, 2, seed=3), PLACES, Y), slice(0, 4)
    (params, errors), X = before[1:3], PLACES[own]
    # After one step the mean square of a slope is its square.
    slopes = LIBRARY.pull_back(NET, params, X, errors[:, own, None] / 4)
    rows = LIBRARY.pull_back(NET, params, X, np.tile(np.eye(4), (2, 1, 1)))
    K = LIBRARY.push_forward(NET, params, mapped(lambda g, row: row / (abs(g) + 1e-8), slopes, rows), PLACES)
    gains = np.linalg.solve(K[:, :, own], K)
    expected = errors - np.einsum("bn,bnp->bp", errors[:, own], gains)
    found = preconditioned.stage(NET, before, PLACES, own, learning_rate=1e-3, steps=1)
    assert found.mapped == pytest.approx(expected, abs=1e-7)
    assert found.mapped[:, own] == pytest.approx(0, abs=1e-7)
