"""Networks that the user wrote: their scales, the prior of Bayesian RND, their tangent kernels, and what is refused."""

import pickle
from functools import partial
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from rndlib import MLP, RND, initial, initial_scales, kernels
from rndlib.any_network import spawned
from rndlib.jax import Function
from rndlib.torch import Module
from rndlib.training.backends.jax import in_float64

pytestmark = pytest.mark.torch

X = np.random.default_rng(0).normal(size=(5, 3))
IMAGES = np.random.default_rng(1).normal(size=(4, 1, 6, 6))


def kaiming(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, outputs))


def convolutional(outputs: int) -> nn.Module:
    body = nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(8, outputs))


def linear_init(key, outputs):
    first, last = jax.random.split(key)
    return {"w": jax.random.normal(first, (3, 8)), "v": jax.random.normal(last, (8, outputs))}


def linear_apply(params, x):
    return jax.nn.silu(x @ params["w"]) @ params["v"]


def test_measured_scales_are_those_of_the_initialisation():
    # Kaiming-uniform with PyTorch's factor is U(-1, 1) / sqrt(fan-in), of variance 1 / (3 fan-in).
    net = Module(kaiming)
    for name, tensor in net.tensors.items():
        fan_in = 3 if name.startswith("0") else 16
        # Of 64 draws, whose kurtosis of 1.8 makes the relative standard error sqrt(0.8 / (4 n)), 6 % for a single bias.
        error = sqrt(0.2 / (63 * net.initial(1, 0)[name].size))
        assert tensor.scale == pytest.approx(1 / sqrt(3 * fan_in), rel=4 * error)
        assert tensor.outputs_axis == (0 if name.startswith("4") else None)


def test_scales_belong_to_one_output():
    """A head evaluated alone is the function that it is among others, up to rounding."""
    net = Module(kaiming)
    for outputs in (1, 4):
        omega, weights = net.draw(outputs, 3), net.initial(outputs, 3)
        for name, array in net.weights(omega, np.moveaxis).items():
            assert np.allclose(array, weights[name], rtol=1e-14)
        alone = [*omega[:-1], tuple(a[:1] for a in omega[-1])]
        assert np.allclose(net.values(alone, X)[:, 0], net.values(omega, X)[:, 0], rtol=1e-12)


def glorot(key, outputs):
    first, last = jax.random.split(key)
    init = jax.nn.initializers.glorot_normal()
    return {"w": init(first, (3, 8)), "v": init(last, (8, outputs))}


def xavier(outputs: int) -> nn.Module:
    net = kaiming(outputs)
    nn.init.xavier_uniform_(net[4].weight)  # pyright: ignore[reportIndexIssue]
    return net


@pytest.mark.parametrize("net", [Function(glorot, linear_apply), Module(xavier)], ids=["glorot", "xavier"])
def test_a_head_drawn_by_its_number_of_outputs_is_refused_where_it_has_several(net):
    net.draw(1, 0)  # one output is what it is measured on
    with pytest.raises(ValueError, match=r"v'|4.weight.*draw it by its number of inputs alone"):
        net.draw(2, 0)


def test_a_head_drawn_by_its_number_of_inputs_is_not_refused():
    for outputs in (2, 500):
        Module(kaiming).draw(outputs, 0)
        Function(linear_init, linear_apply).draw(outputs, 0)
        Function(glorot, linear_apply, scales=1.0).draw(outputs, 0)


RANDOM = np.random.default_rng(5)


def by_numpy(outputs: int) -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs))
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(RANDOM.normal(size=(4, 3))))  # pyright: ignore[reportCallIssue]
    return net


class Features(nn.Module):
    """Random features in a buffer, by a generator of their own."""

    def __init__(self, outputs: int):
        super().__init__()
        self.register_buffer("features", torch.from_numpy(RANDOM.normal(size=(3, 8))).float())
        self.out = nn.Linear(8, outputs)

    def forward(self, x):
        return self.out(torch.cos(x @ self.features))


def ignoring_its_key(key, outputs):
    return linear_init(jax.random.key(int(RANDOM.integers(1000))), outputs)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("net", "name"),
    [
        (Module(by_numpy), "0.weight"),
        (Module(Features), "features"),
        (Function(ignoring_its_key, linear_apply), r"\['v'\], \['w'\]"),
    ],
    ids=["numpy", "buffer", "key"],
)
def test_a_network_that_is_not_a_function_of_its_seed_is_refused(net, name):
    with pytest.raises(ValueError, match=f"network's {name} differ between two draws with one seed: draw them from"):
        net.examine(X)


def with_bias(key, outputs):
    return linear_init(key, outputs) | {"b": jax.numpy.zeros(8), "c": jax.numpy.ones(outputs)}


def test_tensors_that_do_not_train_are_named_and_kept():
    net = Function(with_bias, lambda p, x: jax.nn.silu(x @ p["w"] + p["b"]) @ p["v"] + p["c"])
    assert net.untrained == ("['b']", "['c']")
    assert Module(convolutional).untrained == ("1.weight", "1.bias")
    weights = net.weights(net.draw(3, 0), np.moveaxis)
    assert np.array_equal(weights["['c']"], np.ones(3))
    apart = Function(lambda key, k: with_bias(key, k) | {"c": jax.numpy.arange(1.0 * k)}, net.apply)
    with pytest.raises(
        ValueError, match=r"tensor \['c'\] of the last layer has the scale 0 and differs between outputs"
    ):
        apart.weights(apart.draw(3, 0), np.moveaxis)


def test_single_precision_is_single():
    """A bias of zero is a constant, and a constant in float64 makes all that follows float64."""
    net = Function(with_bias, lambda p, x: jax.nn.silu(x @ p["w"] + p["b"]) @ p["v"] + p["c"])
    omega = [tuple(a.astype(np.float32) for a in layer) for layer in net.draw(3, 0)]
    with_jax = in_float64(lambda: str(jax.make_jaxpr(net.of_omega)(omega, X.astype(np.float32))))()
    assert "f32" in with_jax
    assert "f64" not in with_jax

    kinds: set[torch.dtype] = set()

    def build(outputs: int) -> nn.Module:
        module = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, outputs))
        nn.init.zeros_(module[0].bias)  # pyright: ignore[reportArgumentType]
        for layer in module:
            layer.register_forward_hook(lambda _, __, out: kinds.add(out.dtype))
        return module

    module = Module(build)
    assert module.untrained == ("0.bias", "1.weight", "1.bias")
    tensors = [tuple(torch.tensor(a, dtype=torch.float32) for a in layer) for layer in module.draw(3, 0)]
    kinds.clear()
    module.of_omega(tensors, torch.tensor(X, dtype=torch.float32))
    assert kinds == {torch.float32}


@pytest.mark.parametrize("make", [partial(Module, kaiming), partial(Function, linear_init, linear_apply)])
def test_an_output_scale_multiplies_outputs_and_kernels(make):
    net, undecided = make(output_scale=3.0), make(output_scale=None)
    plain = make()
    omega = plain.draw(2, 0)
    assert np.allclose(net.values(omega, X), 3 * plain.values(omega, X), rtol=1e-12)
    assert np.array_equal(undecided.values(omega, X), plain.values(omega, X))
    kernel = kernels.empirical(plain, X, draws=1)
    assert np.allclose(kernels.empirical(net, X, draws=1).ntk, 9 * kernel.ntk, rtol=1e-12)
    chosen = undecided.with_output_scale(3.0)
    again = pickle.loads(pickle.dumps(chosen)) if make.func is Module else chosen
    assert (undecided.output_scale, chosen.output_scale, again.output_scale) == (None, 3.0, 3.0)
    assert np.allclose(initial.functions(again, X, bodies=2), 3 * initial.functions(plain, X, bodies=2), rtol=1e-12)
    with pytest.raises(ValueError, match="output_scale = 0: give a number above 0"):
        undecided.with_output_scale(0)


@pytest.mark.parametrize("net", [Module(kaiming), Function(linear_init, linear_apply)], ids=["module", "function"])
def test_a_pickle_has_the_scales_and_a_clone_has_the_network(net, monkeypatch):
    scales, text = net.tensors, pickle.dumps(net)
    monkeypatch.setattr(initial_scales, "measured", lambda *_: pytest.fail("measured again"))
    again = pickle.loads(text)
    assert again.tensors == scales
    assert np.array_equal(again.values(again.draw(2, 3), X), net.values(net.draw(2, 3), X))
    copied: Any = clone(RND(net))
    assert copied.net is net


def test_a_kernel_is_the_product_of_jacobians_whatever_the_blocks(monkeypatch):
    net = Module(convolutional)
    taken, jacobian = [], net.jacobian
    monkeypatch.setattr(net, "jacobian", lambda omega, x: (taken.append(len(x)), jacobian(omega, x))[1])
    memory = 32 * net.parameters(1)
    among = kernels.empirical(net, IMAGES, draws=2, memory=memory)
    across = kernels.empirical(net, IMAGES[:3], IMAGES, draws=2, memory=memory)
    assert max(taken) == 2
    monkeypatch.undo()
    whole = kernels.empirical(net, IMAGES, draws=2)
    assert np.allclose(among.ntk, whole.ntk, rtol=1e-12)
    assert np.allclose(across.ntk, whole.ntk[:3], rtol=1e-12)
    assert np.allclose(across.nngp, whole.nngp[:3], rtol=1e-12)
    alone = kernels.empirical(net, IMAGES, draws=1)
    J = jacobian(net.draw(1, spawned(0, 0)), IMAGES)[:, 0]
    body, head = np.split(J, [net.hidden_parameters], axis=1)
    assert np.allclose(alone.nngp, head @ head.T, rtol=1e-12)
    assert np.allclose(alone.body, body @ body.T, rtol=1e-12)


def test_an_equinox_module_is_a_function():
    def init(key, outputs):
        return eqx.nn.MLP(3, outputs, 16, 1, key=key)

    net = Function(init, lambda model, x: jax.vmap(model)(x))
    heads = [name for name, tensor in net.tensors.items() if tensor.outputs_axis is not None]
    assert heads == [".layers[1].weight", ".layers[1].bias"]
    assert np.linalg.eigvalsh(kernels.empirical(net, X, draws=2).ntk).min() > 0


MODULES = {
    "training mode, whose outputs depend": lambda k: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, k)),
    "training mode, whose outputs are random": lambda k: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, k)),
    "ignores outputs": lambda k: nn.Linear(3, 1),
    "lazy layers": lambda k: nn.Sequential(nn.LazyLinear(4), nn.Linear(4, k)),
    "not affine in the head": lambda k: nn.Sequential(nn.Linear(3, k), nn.Tanh()),
    "let no tensor but those of the last layer": lambda k: nn.Sequential(nn.Linear(3, k), nn.Linear(k, k)),
    "no parameters": lambda k: nn.Tanh(),
    "return an nn.Module": lambda k: k,
    "maps .* return": lambda k: nn.Sequential(nn.Linear(3, k), nn.Unflatten(1, (k, 1))),
}
FUNCTIONS = {
    "depend on the other rows": lambda params, x: linear_apply(params, x - x.mean(0)),
    "share weights of the head": lambda params, x: (
        linear_apply(params, x) + linear_apply(params, x).sum(1, keepdims=True)
    ),
    "NaN or infinity": lambda params, x: linear_apply(params, x) / 0.0,
    "one array": lambda params, x: [linear_apply(params, x)],
}


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "network", "message"),
    [(Module, network, message) for message, network in MODULES.items()]
    + [(partial(Function, linear_init), network, message) for message, network in FUNCTIONS.items()],
)
def test_networks_that_cannot_work_are_refused(make, network, message):
    with pytest.raises(ValueError, match=message):
        kernels.empirical(make(network), X)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.full((2, 3), np.nan)}, "X has a NaN or infinity"),
        ({"X": [[1.0, 2.0, 3.0], [1.0]]}, "X is list: give an array of numbers"),
        ({"X": np.ones((2, 3, 3), np.uint8)}, "X has the type uint8: give real numbers"),
        ({"X": X, "X_test": np.ones((2, 4))}, "X_test has shape"),
        ({"X": X, "memory": 8}, "memory = 8: give at least"),
        ({"X": X, "draws": 0}, "draws = 0"),
        ({"X": X, "net": MLP(3)}, "net = MLP.*kernels.kernel"),
        ({"X": X, "net": Function(linear_init, linear_apply, scales={"w": 1.0})}, "scales names w: give one for each"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        kernels.empirical(**{"net": Function(linear_init, linear_apply), **arguments})
