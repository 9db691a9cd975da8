"""Networks of the user's own in the estimators: an `MLP` written by hand, other architectures, what is refused."""

from functools import cache, partial
from math import sqrt
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import nn

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    GradientDescent,
    GradientFlow,
    StochasticGradient,
    datasets,
    initial,
    kernels,
)
from rndlib.any_network import spawned
from rndlib.jax import Function
from rndlib.paper.fitted import tangent_kernels
from rndlib.torch import Module
from rndlib.training import integration
from rndlib.training.weights import Role, draw

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::rndlib.HeadsWarning")]

DATA = datasets.toy(seed=0, n_test=5)
NET = MLP(3, width=64)
SEEDS = {spawned(0, int(role), body): (role, body) for role in Role for body in range(4)}
IMAGES = np.random.default_rng(1).normal(size=(6, 1, 6, 6))
LABELS = np.arange(6.0)


def same(outputs: int, seed: int) -> list[tuple[np.ndarray, ...]]:
    """The weights that an estimator with seed 0 gives to this body of `NET`."""
    role, body = SEEDS[seed]
    (w, b), head = ([a[0] for a in layer] for layer in draw(NET, outputs, 0, role, [body]))
    return [(w,), (b,), tuple(head)]


class Affine(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.w = nn.Parameter(torch.randn(outputs, inputs))
        self.b = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return 1.5 / sqrt(x.shape[1]) * x @ self.w.T + 0.1 * self.b


def layers(key, outputs):
    keys = jax.random.split(key, 4)
    shapes = [(64, 3), (64,), (outputs, 64), (outputs,)]
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


def by_layers(params, x):
    w, b, v, c = params
    x = jax.nn.silu(1.5 / sqrt(3) * x @ w.T + 0.1 * b)
    return 1.5 / sqrt(64) * x @ v.T + 0.1 * c


def handwritten(kind: str, monkeypatch) -> Any:
    """`NET` as a user would write it, with the weights that `NET` has."""
    net: Any
    if kind == "function":
        net = Function(layers, by_layers, scales=1.0)
    else:
        net = Module(lambda outputs: nn.Sequential(Affine(3, 64), nn.SiLU(), Affine(64, outputs)), scales=1.0)
    net.draw(1, 0)  # the sizes are read off the network's own weights
    assert (net.width, net.hidden_parameters) == (NET.width, NET.hidden_parameters)
    assert net.parameters(5) == NET.parameters(5)
    # With the same kernel and probe points, training takes the same steps.
    monkeypatch.setattr(kernels, "empirical", lambda net, X, X_test=None, draws=4: kernels.kernel(NET, X, X_test))
    around = integration.probes
    monkeypatch.setattr(integration, "probes", lambda X, own: around(X, False))
    monkeypatch.setattr(net, "draw", lambda k, seed: same(k, seed) if seed else type(net).draw(net, k, 0))
    return net


FLOW = GradientFlow(time=1.0, rtol=3e-4)  # in float64
ESTIMATORS = {
    "ensemble": partial(DeepEnsemble, members=3, solver=FLOW),
    "bayesian ensemble": partial(BayesianEnsemble, members=2, noise_std=0.1, solver=FLOW),
    "rnd, to the end": partial(RND, heads=2, solver=GradientFlow(rtol=3e-4)),
    "bayesian rnd": partial(BayesianRND, heads=2, bodies=2, noise_std=0.1, solver=FLOW),
    "one psi per head": partial(BayesianRND, heads=3, directions="independent", solver=FLOW),
    "many heads": partial(RND, heads=9),
    "descent": partial(RND, heads=4, solver=GradientDescent(0.01, 50)),
    "minibatches": partial(RND, heads=4, bodies=2, solver=StochasticGradient(batch_size=5, epochs=3)),
}
OTHERS = "bayesian ensemble", "one psi per head", "many heads"  # which `make check` has


def numbers(name: str, net: Any, **options) -> tuple[np.ndarray, ...]:
    """Functions or errors of a fitted estimator, and of Bayesian RND those before training."""
    model: Any = ESTIMATORS[name](net, **options).fit(DATA.X, DATA.y)
    of_heads = model.errors if isinstance(model, RND | BayesianRND) else model.functions
    return of_heads(DATA.X_test), *(model.initial(DATA.X_test) if isinstance(model, BayesianRND) else ())


@cache
def of_mlp(name: str) -> tuple[np.ndarray, ...]:
    """On PyTorch, which compiles nothing, for both kinds."""
    return numbers(name, NET, backend="torch")


@pytest.mark.parametrize("kind", ["function", "module"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.check] if name in OTHERS else []) for name in ESTIMATORS]
)
def test_an_mlp_written_by_hand_gives_the_numbers_of_an_mlp(name, kind, monkeypatch):
    (expected, *before), (found, *start) = of_mlp(name), numbers(name, handwritten(kind, monkeypatch))
    # Many heads go by conjugate gradients, in float32 up to the last steps: there, the tolerance of training.
    assert np.abs(found - expected).max() <= (1e-3 if name == "many heads" else 1e-6) * np.abs(expected).max()
    np.testing.assert_allclose(start, before, rtol=1e-12, atol=1e-12)


def convolutional(outputs: int) -> nn.Module:
    body = nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(64, outputs))


class Attention(nn.Module):
    """A skip, layer norm and attention, on the rows of an image as the words of a sentence."""

    def __init__(self, outputs: int):
        super().__init__()
        self.embed, self.attention = nn.Linear(6, 16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm, self.out = nn.LayerNorm(16), nn.Linear(16, outputs)

    def forward(self, x):
        x = self.embed(x[:, 0])
        words = self.norm(x)
        return self.out((x + self.attention(words, words, words, need_weights=False)[0]).mean(1))


def patches(key, outputs):
    first, last = jax.random.split(key)
    return {"w": jax.random.normal(first, (9, 32)) / 3, "v": jax.random.normal(last, (32, outputs)) / sqrt(32)}


def by_patches(params, x):
    views = jax.numpy.stack([x[:, 0, i : i + 4, j : j + 4] for i in range(3) for j in range(3)], -1)
    return jax.nn.gelu(views @ params["w"]).mean((1, 2)) @ params["v"]


OWN = {
    "convolution": lambda: Module(convolutional),
    "patches": lambda: Function(patches, by_patches),
}


@pytest.mark.parametrize("name", OWN)
def test_any_architecture(name):
    net = OWN[name]()
    model = BayesianRND(net, heads=2, bodies=2).fit(IMAGES, LABELS)
    assert np.abs(model.errors(IMAGES)).max() < 1e-6
    assert np.abs(model.predict(IMAGES) - LABELS).max() < 1e-5
    assert model.variance(-IMAGES).min() > 1e-4
    assert model.sample_y(IMAGES, 3).shape == (6, 3)
    last, below = initial.tangent_kernels(net, IMAGES, bodies=2, heads=3)
    assert np.abs(last[:, 0, 1]).max() == 0
    assert np.linalg.eigvalsh((last + below)[0, 0, 0]).min() > 0
    ensemble = DeepEnsemble(net, members=1).fit(IMAGES, LABELS)
    assert np.abs(ensemble.functions(IMAGES) - LABELS).max() < 1e-4
    assert tangent_kernels(ensemble, IMAGES).shape == (1, 1, 1, 6, 6)


def both_ways(lib, net, shared, own):
    omega, change, v = own
    at = lib.linearise(net, omega, shared[0])
    return [(of.jvp(change), of.jvp(change[:-1]), of.vjp(v), of.kernels(), at.between(at)) for of in (at, at.held())]


@pytest.mark.parametrize("name", OWN)
def test_a_jacobian_that_is_held_gives_the_products_of_the_network(name):
    """The kernel, too, which `between` has at once."""
    net, v = OWN[name](), np.random.default_rng(0).normal(size=(1, 6, 1))
    omega, change = ([tuple(a[None] for a in layer) for layer in net.draw(1, seed)] for seed in (0, 1))
    with net.backend.settings():
        plain, held = net.backend.arrays(net.backend.each(both_ways, net, (IMAGES,), (omega, change, v)))
    for expected, found in zip(jax.tree.leaves(plain), jax.tree.leaves(held), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    below, last = held[3]
    np.testing.assert_allclose((below + last).reshape(6, 6), held[4][0], rtol=1e-10, atol=1e-10)
    assert np.abs(held[0] - held[1]).max() > 0.01  # the last layer has its part


def test_attention():
    """Its fast implementations have no second derivatives; rndlib takes another one."""
    net = Module(Attention)
    model = RND(net, heads=2, solver=GradientFlow(time=0.1, rtol=1e-2)).fit(IMAGES)
    assert model.report.converged
    untrained = RND(net, heads=2, solver=GradientFlow(time=0.0)).fit(IMAGES)
    assert model.variance(IMAGES).mean() < untrained.variance(IMAGES).mean()


@pytest.mark.parametrize("name", [pytest.param("convolution", marks=pytest.mark.check), "patches"])
def test_the_error_before_training_has_the_covariance_of_the_tangent_kernel(name):
    """The prior of Bayesian RND at the network's own width and initial law, over bodies that threads draw at a time."""
    net, bodies = OWN[name](), 2000
    u, g = BayesianRND(net, heads=1, bodies=bodies).initial(IMAGES[:3])
    expected = kernels.empirical(net, IMAGES[:3], draws=400).ntk
    root = np.linalg.inv(np.linalg.cholesky(expected))
    found = root @ np.cov((u - g).T) @ root.T
    # Mean over three directions: 2 / (3 * 2000) is the variance of Gaussian errors, 400 draws add some 0.02, and fourth
    # moments of networks this narrow more than double it.
    assert abs(np.trace(found) / 3 - 1) < 0.1
    wrong = root @ np.cov(u.T) @ root.T
    assert np.trace(wrong) / 3 < 0.9  # without the target


BAD = {
    "X has the type uint8: give real numbers": lambda net: RND(net).fit(np.ones((2, 1, 6, 6), np.uint8)),
    "X has a NaN": lambda net: RND(net).fit(np.full((2, 1, 6, 6), np.nan)),
    r"X has shape \(2, 1, 5, 6\): give \(n_samples, 1, 6, 6\)": lambda net: fitted(net).errors(np.ones((2, 1, 5, 6))),
    r"y has shape \(3,\)": lambda net: DeepEnsemble(net).fit(IMAGES, LABELS[:3]),
    "backend = 'jax': a Module is trained on 'torch'": lambda net: RND(net, backend="jax").fit(IMAGES),
    "its outputs have no variance": lambda net: RND(Module(zero_head)).fit(IMAGES),
    "X has .* repeated rows": lambda net: RND(net).fit(IMAGES[[0, 0]]),
}


def fitted(net: Module) -> RND:
    return RND(net, heads=1).fit(IMAGES[:2])


def zero_head(outputs: int) -> nn.Module:
    last = nn.Linear(4, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Tanh(), last)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises(ValueError, match=message):
        BAD[message](Module(convolutional))
