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
from scipy import stats

from rndlib import MLP

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from rndlib.torch import NTKMLP, MismatchWarning, ModuleBonus, explain, nature_cnn  # noqa: E402
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
        for p in linear(module, -1).parameters():
            p.mul_(c)
    return module


def convolutional(*more: nn.Module, channels: int = 64, heads: int = 4) -> nn.Sequential:
    """For images of 6 by 6 pixels."""
    body = nn.Conv2d(1, channels, 3), *more, nn.ReLU(), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(16 * channels, heads))


def tracking() -> nn.Sequential:
    return convolutional(nn.InstanceNorm2d(64, track_running_stats=True))


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
        (lambda: convolutional(), r"for Conv2d, the limit is that of many channels or units: .*Gaussian \(Novak"),
        (lambda: convolutional(nn.GroupNorm(4, 64)), "for Conv2d, GroupNorm, .* at a fixed number of groups"),
        (lambda: convolutional(nn.LayerNorm([4, 4])), "for Conv2d, LayerNorm, the limit"),
        (lambda: convolutional(nn.Conv2d(64, 64, 1, groups=64)), "Conv2d is beyond the networks that this library"),
        (
            lambda: nature_cnn((1, 36, 36), widen=2)(4),
            r"in the parametrisation of Eq\. 1 with sigma_w = 1\.41,",
        ),
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
        (lambda: network(nn.Tanh()), lambda: network(nn.Tanh()), "Tanh at the end keeps the outputs from a Gaussian"),
        (lambda: network(nn.LayerNorm(16)), lambda: network(nn.LayerNorm(16)), "LayerNorm at the end"),
        (lambda: tracking(), lambda: tracking(), "InstanceNorm2d makes the output depend on the rest of the batch"),
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


def test_the_output_scale_of_nature_cnn_is_found():
    build = nature_cnn((1, 36, 36))
    louder = build(16)
    with torch.no_grad():
        for p in louder.layers[-1].parameters():
            p.mul_(3)
    found = explain(build(16), louder)
    assert found.factor == pytest.approx(5, rel=4 * 2 / sqrt(2 * 16 * 512))
    assert_says(found, "the target's layers.4, if it is the output layer")
    assert explain(build(16), nature_cnn((1, 36, 36), sigma_b=0.2)(16)).factor is None


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
IMAGES = tuple(torch.randn(n, 1, 6, 6, generator=torch.Generator().manual_seed(n)) for n in (4, 6))
Points = tuple[Tensor, Tensor]
Make = Callable[[], nn.Module]


def trained(make: Make, targets: Tensor, points: Points, steps: int, rate: float) -> Tensor:
    """`MEMBERS` networks after full-batch descent on `targets` (members, n, 1): their functions at the test points."""
    params, _ = torch.func.stack_module_state([make() for _ in range(MEMBERS)])
    one, trains = make(), [p for p in params.values() if p.requires_grad]
    apply = torch.func.vmap(lambda p, x: torch.func.functional_call(one, p, x), (0, None))
    for _ in range(steps):
        loss = (apply(params, points[0]) - targets).square().sum() / 2
        for p, slope in zip(trains, torch.autograd.grad(loss, trains), strict=True):
            p.data.sub_(rate * slope)
    return apply(params, points[1]).detach()[..., 0]


def drawn(make: Make, x: Tensor) -> Tensor:
    return torch.stack([make()(x).detach() for _ in range(MEMBERS)])


def ratio(predictor: Make, target: Make, points: Points = (X, X_TEST), steps: int = STEPS, rate: float = RATE) -> float:
    """Half the expected squared error over the variance of an ensemble of predictors, mean over points."""
    joint, n = drawn(target, torch.cat(points)), len(points[0])
    errors = trained(predictor, joint[:, :n], points, steps, rate) - joint[:, n:, 0]
    labels = points[0].flatten(1).sum(1, keepdim=True) / 10
    variance = trained(predictor, labels.expand(MEMBERS, -1, -1), points, steps, rate).var(0)
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


@pytest.mark.parametrize("steps", [0, STEPS], ids=["before training", "after training"])
@pytest.mark.parametrize("normed", [False, True], ids=["plain", "normed"])
def test_convolutional_networks_have_the_factor_that_is_said(normed, steps):
    """Of Gaussian outputs, the ratio at a point over the factor follows F with M and M - 1 degrees of freedom.

    A mean over points that are not independent scatters no more than one of them. The interval leaves out 1e-4, and
    widens by 10 / channels for their finite number. It has the factor, and neither the 1 of a target that is not scaled
    nor, of the error that is not halved, the factor.
    """
    # One over the largest eigenvalue of these kernels.
    rate = 0.0004 if normed else 0.001

    def plain(heads=1):
        return convolutional(*[nn.GroupNorm(4, WIDTH)] * normed, channels=WIDTH, heads=heads)

    def louder(heads=1):
        return scaled(3.0, plain(heads))

    said = explain(plain(4), louder(4)).factor
    assert said == pytest.approx(5, rel=0.1)
    assert explain(plain(), plain()).factor == 1
    found = ratio(plain, louder, IMAGES, steps, rate)
    tail = stats.f(MEMBERS, MEMBERS - 1).isf([0.5e-4, 1 - 0.5e-4])
    low, high = found / tail * np.array([1 - 10 / WIDTH, 1 + 10 / WIDTH])
    assert low < said < high
    assert not low < 1 < high
    assert not 2 * low < said < 2 * high
