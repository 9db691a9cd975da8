"""Stacked training loops against PyTorch's own, one network at a time."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn, optim  # noqa: E402

from rndlib import MLP, DivergenceError, datasets  # noqa: E402
from rndlib.paper.practice import loops  # noqa: E402
from rndlib.paper.practice.loops import Loop, Paper  # noqa: E402

pytestmark = pytest.mark.torch
DATA = datasets.toy(0, n_train=6, n_test=4)
NET = MLP(3, width=16)
OPTIMIZERS = {
    "sgd": partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "adam": partial(optim.Adam, lr=1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stack_moves_as_each_network_alone(name):
    loop = Loop(partial(loops.standard, 3, 16), OPTIMIZERS[name], 30, "head")
    found = loop.functions(DATA.X, DATA.y, DATA.X_test, 3, seed=5)
    drawn = loop._drawn(3, 5, role=0)
    networks = [loop.build() for _ in range(3)]
    for i, network in enumerate(networks):
        network.load_state_dict({weight: of[i] for weight, of in drawn.items()})
    X, y, points = (torch.as_tensor(of, dtype=torch.float32) for of in (DATA.X, DATA.y, DATA.X_test))
    for network, values in zip(networks, found, strict=True):
        optimizer = OPTIMIZERS[name](list(network.parameters()))
        for _ in range(30):
            optimizer.zero_grad()
            (nn.functional.mse_loss(network(X)[:, 0], y) / 2).backward()
            optimizer.step()
        np.testing.assert_allclose(values, network(points)[:, 0].detach(), rtol=1e-4, atol=1e-5)


def test_the_paper_s_module_is_the_network_of_eq_1():
    torch.manual_seed(0)
    module = Paper(MLP(3, width=8, depth=3, activation="erf", sigma_w=1.3, sigma_b=0.2)).double()
    x = DATA.X
    for i, layer in enumerate([*module.body, module.head]):
        w, b = (of.detach().numpy() for of in layer.parameters())
        x = 1.3 / np.sqrt(w.shape[1]) * x @ w.T + 0.2 * b
        x = module.net.phi.value_and_slope(x)[0] if i < 2 else x
    np.testing.assert_allclose(module(torch.as_tensor(DATA.X)).detach(), x, rtol=1e-9)


def test_the_engineered_target_has_no_part_of_the_head():
    """The error before training is u - J psi; without psi below the head it is u."""
    loop = Loop(partial(Paper, NET), OPTIMIZERS["adam"], 0, "head")
    errors = loop.errors(DATA.X, DATA.X_test, 400, bayesian=True)
    standard = loop.errors(DATA.X, DATA.X_test, 400)
    from rndlib import kernels

    for found, expected in ((errors, "ntk"), (standard, "nngp")):
        variance = getattr(kernels.kernel(replace(NET, width=64), DATA.X_test), expected).diagonal()
        ratio = np.mean(found**2 / variance) / (1 if expected == "ntk" else 2)
        assert ratio == pytest.approx(1, abs=0.15)


def test_outputs_and_labels_scaled_together_change_nothing():
    """A network that is multiplied by alpha is alpha times the network trained on y / alpha, alpha^2 times as long."""
    alpha, steps = 4.0, 50

    class Scaled(Paper):
        def forward(self, x):
            return alpha * super().forward(x)

    plain = Loop(partial(Paper, NET), partial(optim.SGD, lr=0.1), steps, "head")
    scaled = Loop(partial(Scaled, NET), partial(optim.SGD, lr=0.1 / alpha**2), steps, "head")
    expected = alpha * plain.functions(DATA.X, DATA.y / alpha, DATA.X_test, 4)
    np.testing.assert_allclose(scaled.functions(DATA.X, DATA.y, DATA.X_test, 4), expected, rtol=1e-3, atol=1e-4)
    assert abs(scaled.functions(DATA.X, DATA.y / alpha, DATA.X_test, 4) - expected).max() > 0.1


def test_a_pull_keeps_networks_near_their_start():
    def moved(pull):
        loop = Loop(partial(Paper, NET), partial(optim.SGD, lr=0.1), 200, "head", pull=pull)
        start, end = (each.functions(DATA.X, DATA.y, DATA.X_test, 4) for each in (replace(loop, steps=0), loop))
        return abs(end - start).mean()

    assert moved(5.0) < 0.2 * moved(0.0)


def test_batches_are_drawn_anew_and_a_loop_that_diverges_raises():
    full, batched = (Loop(partial(Paper, NET), partial(optim.SGD, lr=0.05), 20, "head", size) for size in (None, 2))
    values = [loop.functions(DATA.X, DATA.y, DATA.X_test, 2) for loop in (full, batched, batched)]
    assert abs(values[0] - values[1]).max() > 1e-3
    np.testing.assert_array_equal(values[1], values[2])
    with pytest.raises(DivergenceError, match="training loss"):
        Loop(partial(Paper, NET), partial(optim.SGD, lr=100.0), 20, "head").functions(DATA.X, DATA.y, DATA.X_test, 2)
