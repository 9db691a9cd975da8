"""What the error of two modules says: the verdicts, and trained networks that bear them out."""

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import jaxtyping
import numpy as np
import pytest

from rndlib import MLP

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from rndlib.torch import NTKMLP, MismatchWarning, ModuleBonus, explain  # noqa: E402
from rndlib.training.weights import Role  # noqa: E402

pytestmark = pytest.mark.torch

ORTHOGONAL = sqrt(2)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def network(*more: nn.Module, width: int = 256, bias: bool = True, heads: int = 16) -> nn.Sequential:
    """PyTorch's own initialisation."""
    return nn.Sequential(nn.Linear(3, width, bias), nn.ReLU(), nn.Linear(width, heads, bias), *more)


def orthogonal(module: nn.Sequential) -> nn.Sequential:
    """CleanRL's initialisation."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, ORTHOGONAL)
            nn.init.zeros_(layer.bias)
    return module


def scaled(c: float, module: nn.Sequential) -> nn.Sequential:
    with torch.no_grad():
        for p in linear(module, 2).parameters():
            p.mul_(c)
    return module


def linear(module: nn.Sequential, index: int) -> nn.Linear:
    layer = module[index]
    assert isinstance(layer, nn.Linear)
    return layer


# --------------------------------------------------------------------------------------------------------- verdicts


class Branch(nn.Module):
    """A module with a function and a number among its attributes."""

    def __init__(self, activation: Callable = torch.relu, gain: float = 1.0):
        super().__init__()
        self.inner, self.outer, self.activation, self.gain = nn.Linear(3, 64), nn.Linear(64, 8), activation, gain

    def forward(self, x):
        return self.gain * self.outer(self.activation(self.inner(x)))


def frozen_below(**options: Any) -> nn.Sequential:
    module = network(**options)
    linear(module, 0).requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (network, r"standard parametrisation.*sigma_w = 0\.5\d?, 0\.5\d?\)"),
        (lambda: orthogonal(network()), "1.4 orthogonal"),
        (lambda: network(bias=False), "no biases where the predictor has none"),
        (lambda: network(nn.LayerNorm(16)), "LayerNorm is beyond the paper's networks"),
        (lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(72, 4)), "Conv2d is beyond the paper's"),
        (Branch, "alike in architecture"),
        (frozen_below, "members do not train '0.weight', '0.bias' either"),
        (lambda: network(nn.Dropout(0.0)), "alike in architecture"),
    ],
)
def test_two_draws_of_one_law_are_an_ensemble(make, says):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ModuleBonus(3, make(), make()).meaning
    assert (found.verdict, found.factor) == ("ensemble variance", 1.0)
    assert "half the mean squared error is an ensemble's variance" in str(found)
    with pytest.raises(AssertionError):
        assert_says(found, "no such words")
    assert_says(found, says)


def assert_says(meaning, words):
    assert re.search(words, str(meaning)), str(meaning)


@pytest.mark.parametrize(
    ("predictor", "target", "says"),
    [
        (lambda: network(nn.ReLU(), nn.Linear(16, 16)), network, "3 layers with weights against 2"),
        (lambda: network(nn.Tanh()), network, "4 modules against 3|5 modules against 4"),
        (lambda: network(width=128), network, r"Linear\(in_features=3, out_features=128.* against Linear\(in_f"),
        (lambda: network(bias=False), network, "bias=False"),
        (lambda: Branch(torch.tanh), Branch, r"attributes of Branch\(\)"),
        (lambda: Branch(gain=2.0), Branch, r"attributes of Branch\(\)"),
        (lambda: orthogonal(network()), network, "initial laws differ: '0.weight' has standard deviation"),
        (lambda: network(nn.Dropout(0.1)), lambda: network(nn.Dropout(0.1)), "Dropout adds noise"),
        (lambda: network(nn.BatchNorm1d(16)), lambda: network(nn.BatchNorm1d(16)), "BatchNorm1d .* rest of the batch"),
        (lambda: network().requires_grad_(False), network, "no weights that train"),
    ],
)
def test_others_are_none_and_there_is_no_factor(predictor, target, says):
    found = explain(predictor(), target())
    assert (found.verdict, found.factor) == ("no ensemble variance", None)
    assert "is no ensemble's variance" in str(found)
    assert_says(found, says)


def test_making_a_bonus_of_them_warns():
    with pytest.warns(MismatchWarning, match="differ in architecture .3 layers with weights against 2"):
        ModuleBonus(3, network(nn.ReLU(), nn.Linear(16, 16)), network())
    with pytest.warns(MismatchWarning, match=r"is [45]\.\d* times an ensemble's variance"):
        ModuleBonus(3, network(), scaled(3.0, network()))


@pytest.mark.parametrize("c", [0.5, 3.0])
def test_an_output_scale_is_one_factor(c):
    """c is known to 1 / sqrt(n) of itself, n = 4096 weights with the kurtosis of a uniform law below a Gaussian's."""
    found = explain(network(), scaled(c, network()))
    assert found.verdict == "scaled ensemble variance"
    assert found.factor == pytest.approx((1 + c**2) / 2, rel=4 * 2 / sqrt(4096))
    assert_says(found, "the target's 2, if it is the output layer, is about c = ")


def test_a_shift_of_the_weights_is_another_law():
    module = network()
    with torch.no_grad():
        linear(module, 2).weight.add_(0.1)
    assert_says(explain(network(), module), "'2.weight' has mean")
    module = network()
    nn.init.ones_(linear(module, 2).bias)
    assert_says(
        explain(network(), module), "'2.bias' has standard deviation .* against 0; no single factor relates them"
    )


def test_copies_and_shared_weights_are_not_independent():
    module = network()
    assert_says(explain(module, module), "'0.weight' is the target's too")
    assert_says(explain(module, copy.deepcopy(module)), "'0.weight' has the values of the target's")
    trunk = nn.Linear(3, 8)
    ours, theirs = (nn.Sequential(trunk, nn.ReLU(), nn.Linear(8, 4)) for _ in range(2))
    assert_says(explain(ours, theirs), "'0.weight' is the target's too")
    with pytest.raises(ValueError, match="weights of the predictor that train"):
        ModuleBonus(3, ours, theirs)
    trunk.requires_grad_(False)  # An encoder: part of the observation, for members of an ensemble as well.
    found = ModuleBonus(3, ours, theirs).meaning
    assert found.factor == 1
    assert_says(found, "so all members of the ensemble share them: '0.weight' is")


def test_descriptions_are_compared_and_not_their_weights():
    def draw(role: Role, **changes: Any):
        return NTKMLP(replace(MLP(3, width=64), **changes), 4, role, seed=1)

    ours = draw(Role.PREDICTOR)
    assert explain(ours, draw(Role.TARGET)).factor == 1
    assert explain(ours, draw(Role.TARGET, width=32)).factor == 1
    found = explain(ours, draw(Role.TARGET, sigma_w=2.0))
    assert found.factor is None
    assert_says(found, "rndlib.theory.mismatch.factor")


@pytest.mark.parametrize("heads", [2, 64])
def test_chance_is_not_called_a_difference_and_a_difference_is_found(heads):
    """100 pairs of one law, at a level of one in a million in two tests for each of four tensors: 0.1% to see one."""
    assert all(explain(network(heads=heads), network(heads=heads)).factor == 1 for _ in range(100))
    for _ in range(20):
        other = network(heads=heads)
        with torch.no_grad():
            linear(other, 0).weight.mul_(1.5)
        assert explain(network(heads=heads), other).factor is None


def test_what_is_no_module_or_has_no_weights_yet():
    jaxtyping.config.update("jaxtyping_disable", True)  # As a user: the tests' own check would speak up first.
    try:
        with pytest.raises(ValueError, match=r"target is builtin_function_or_method: give a torch\.nn\.Module"):
            explain(network(), torch.relu)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(ValueError, match="predictor has lazy layers"):
        explain(nn.LazyLinear(3), network())


# ------------------------------------------------------------------------------------------------- trained networks

X, X_TEST = (torch.tensor(np.random.default_rng(seed).normal(size=(n, 3))).float() for seed, n in ((0, 4), (1, 6)))
# With its layer norm one of these kernels has an eigenvalue of about 150: 2 / 150 would leave the linear regime.
MEMBERS, WIDTH, STEPS, RATE = 200, 128, 100, 0.005


def trained(make: Callable[[], nn.Module], targets: Tensor) -> Tensor:
    """`MEMBERS` networks after full-batch descent on `targets` (members, n, 1): their functions at X_TEST."""
    params, _ = torch.func.stack_module_state([make() for _ in range(MEMBERS)])
    one, trains = make(), [p for p in params.values() if p.requires_grad]
    apply = torch.func.vmap(lambda p, x: torch.func.functional_call(one, p, x), (0, None))
    for _ in range(STEPS):
        loss = (apply(params, X) - targets).square().sum() / 2
        for p, slope in zip(trains, torch.autograd.grad(loss, trains), strict=True):
            p.data.sub_(RATE * slope)
    return apply(params, X_TEST).detach()[..., 0]


def drawn(make: Callable[[], nn.Module], x: Tensor) -> Tensor:
    return torch.stack([make()(x).detach() for _ in range(MEMBERS)])


def ratio(predictor: Callable[[], nn.Module], target: Callable[[], nn.Module]) -> float:
    """Half the expected squared error over the variance of an ensemble of predictors, mean over points."""
    joint = drawn(target, torch.cat([X, X_TEST]))
    errors = trained(predictor, joint[:, : len(X)]) - joint[:, len(X) :, 0]
    labels = X.sum(1, keepdim=True) / 10
    variance = trained(predictor, labels.expand(MEMBERS, -1, -1)).var(0)
    return float((errors.square().mean(0) / 2 / variance).mean())


def test_trained_networks_bear_the_verdicts_out():
    """Two sums of M squares: 2 / sqrt(M) of scatter, four of it, and 10 / width for finite width; all relative."""
    margin = 8 / sqrt(MEMBERS) + 10 / WIDTH

    def plain():
        return network(width=WIDTH, heads=1)

    def cleanrl():
        return orthogonal(plain())

    def half_frozen():
        return frozen_below(width=WIDTH, heads=1)

    def normed():
        return nn.Sequential(nn.Linear(3, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def louder():
        return scaled(3.0, plain())

    def deeper():
        return nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    assert abs(ratio(plain, plain) - 1) < margin
    assert abs(ratio(cleanrl, cleanrl) - 1) < margin
    assert abs(ratio(half_frozen, half_frozen) - 1) < margin
    assert abs(ratio(normed, normed) - 1) < margin
    factor = ratio(plain, louder)
    assert abs(factor / 5 - 1) < margin
    # Without the factor, and with a predictor of more layers than its target, it is no ensemble's variance.
    assert abs(factor - 1) > margin
    assert abs(ratio(deeper, plain) - 1) > margin
