"""Networks of the user's own in the estimators: an `MLP` written by hand, other architectures, what is refused."""

import pickle
from functools import partial
from math import sqrt
from typing import Any

import jax
import numpy as np
import pytest
import torch
from sklearn.base import clone
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
from rndlib.factors import formed
from rndlib.jax import Function
from rndlib.paper.fitted import tangent_kernels
from rndlib.torch import Module
from rndlib.training.backends.jax import traced as jax_traced
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.torch import traced as torch_traced
from rndlib.training.flow import integration
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
    around = integration._around
    monkeypatch.setattr(integration, "_around", lambda X, own: around(X, False))
    monkeypatch.setattr(net, "draw", lambda k, seed: same(k, seed) if seed else type(net).draw(net, k, 0))
    return net


FLOW = GradientFlow(time=1.0, rtol=3e-4)  # in float64
ESTIMATORS = {
    "ensemble": partial(DeepEnsemble, members=3, solver=FLOW),
    "bayesian ensemble": partial(BayesianEnsemble, members=2, noise_std=0.1, solver=FLOW),
    "rnd": partial(RND, heads=4, bodies=2, solver=FLOW),
    "rnd, to the end": partial(RND, heads=2, solver=GradientFlow(rtol=3e-4)),
    "bayesian rnd": partial(BayesianRND, heads=2, bodies=2, noise_std=0.1, solver=FLOW),
    "one psi per head": partial(BayesianRND, heads=3, directions="independent", solver=FLOW),
    "descent": partial(RND, heads=4, solver=GradientDescent(0.01, 50)),
    "minibatches": partial(RND, heads=4, bodies=2, solver=StochasticGradient(batch_size=5, epochs=3)),
}


@pytest.mark.parametrize("kind", ["function", "module"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_mlp_written_by_hand_gives_the_numbers_of_an_mlp(name, kind, monkeypatch):
    net, make = handwritten(kind, monkeypatch), ESTIMATORS[name]
    backend = {"function": "jax", "module": "torch"}[kind]
    ours, theirs = make(net), make(NET, backend=backend)
    found = []
    for model in (ours, theirs):
        model.fit(DATA.X, DATA.y)
        of_heads = model.errors if isinstance(model, RND | BayesianRND) else model.functions
        found.append(of_heads(DATA.X_test))
    assert np.abs(found[0] - found[1]).max() <= 1e-6 * np.abs(found[1]).max()
    if isinstance(ours, BayesianRND):
        assert np.allclose(ours.initial(DATA.X_test), theirs.initial(DATA.X_test), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["function", "module"])
def test_many_heads_on_one_body(kind, monkeypatch):
    """The way by conjugate gradients, in float32 up to the last steps, so 1e-4 rather than 1e-6."""
    net = handwritten(kind, monkeypatch)
    found = [RND(n, heads=9, seed=0, backend=b).fit(DATA.X).errors(DATA.X_test) for n, b in ((net, None), (NET, "jax"))]
    assert np.abs(found[0] - found[1]).max() <= 1e-3 * np.abs(found[1]).max()  # rtol


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
    ensemble = DeepEnsemble(net, members=2, dtype="float32").fit(IMAGES, LABELS)
    assert np.abs(ensemble.functions(IMAGES) - LABELS).max() < 1e-4
    assert tangent_kernels(ensemble, IMAGES).shape == (2, 1, 1, 6, 6)


def test_attention():
    """Its fast implementations have no second derivatives; rndlib takes another one."""
    net = Module(Attention)
    model = RND(net, heads=2, solver=GradientFlow(time=0.1, rtol=1e-2)).fit(IMAGES)
    assert model.report.converged
    untrained = RND(net, heads=2, solver=GradientFlow(time=0.0)).fit(IMAGES)
    assert model.variance(IMAGES).mean() < untrained.variance(IMAGES).mean()


@pytest.mark.parametrize("name", ["convolution", "patches"])
def test_kernels_are_formed_a_few_points_at_a_time(name, monkeypatch):
    net = OWN[name]()
    whole = initial.tangent_kernels(net, IMAGES[:5], bodies=1, heads=2)
    rows = 2
    for module in (jax_traced, torch_traced):
        monkeypatch.setattr(module, "FORMED", rows * 2 * net.parameters(2))
    again = OWN[name]()  # another network, so that JAX compiles anew
    parts = initial.tangent_kernels(again, IMAGES[:5], bodies=1, heads=2)
    assert np.allclose(whole, parts, rtol=1e-10, atol=1e-12)


def test_blocks_of_a_kernel_below_the_diagonal_are_mirrored(monkeypatch):
    """Of three blocks, the derivatives of each are taken once for its row, and once more for each block above it."""
    taken, A = [], np.random.default_rng(2).normal(size=(3, 5))
    monkeypatch.setattr(jax_traced, "FORMED", 2 * A.size)
    monkeypatch.setattr(torch_traced, "FORMED", 2 * A.size)

    def by_jax(function, params, X):
        jax.debug.callback(lambda: taken.append("jax"), ordered=True)
        return [formed(X[:, None, :, None] * A, len(X), 1)]

    def by_torch(X):
        taken.append("torch")
        return [[X[:, None, :, None] * torch.from_numpy(A)]]

    @in_float64
    def by_blocks():
        one = jax_traced.Traced(lambda params, X: (X @ params[0][0])[:, :1], [(A,)], jax.numpy.asarray(X))
        return one.kernel_matrix()

    monkeypatch.setattr(jax_traced, "factors", by_jax)
    X = np.random.default_rng(3).normal(size=(5, 3))
    J = (X[:, :, None] * A).reshape(5, -1)
    assert np.allclose(by_blocks(), J @ J.T, rtol=1e-12)
    tensors = [(torch.from_numpy(A),)]
    other = torch_traced.TracedBody(lambda params, X: (X @ params[0][0])[:, :1], tensors, torch.from_numpy(X))
    assert np.allclose(other._gram(by_torch, 1), J @ J.T, rtol=1e-12)
    assert taken == 6 * ["jax"] + 6 * ["torch"]


@pytest.mark.parametrize("name", ["convolution", "patches"])
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


def test_an_estimator_with_a_network_is_cloned_and_pickled():
    for net in (Module(convolutional), Function(patches, by_patches)):
        model = RND(net, heads=2)
        copied: Any = clone(model)
        assert copied.net is net
        again = pickle.loads(pickle.dumps(net))
        found, expected = (n.functions(n.initial(2, 3), IMAGES) for n in (again, net))
        assert np.array_equal(found, expected)


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


def test_a_network_is_traced_once_for_each_shape_of_points(monkeypatch):
    """Every evaluation asks for the size of its arrays; a trace takes far longer than an evaluation."""
    net, calls = Module(lambda outputs: nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs))), []
    largest = net._largest
    monkeypatch.setattr(net, "_largest", lambda x: (calls.append(x.shape), largest(x))[1])
    assert [net.activations(np.zeros((1, 3))) for _ in range(3)] == [8, 8, 8]
    assert calls == [(1, 3)]
