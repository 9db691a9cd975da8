"""What the error of two modules says: the verdicts by trial, and trained networks that bear them out."""

import copy
import re
import warnings
from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rndlib import MLP
from rndlib.theory import mismatch

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn.utils.parametrizations import spectral_norm  # noqa: E402

from rndlib.torch import MismatchWarning, ModuleBonus, RNDBonus, explain, nature_cnn  # noqa: E402
from rndlib.torch.meaning import probes  # noqa: E402
from rndlib.torch.networks import drawn  # noqa: E402
from rndlib.torch.optimiser import descend_as_eq_1  # noqa: E402
from rndlib.training.weights import Role  # noqa: E402

pytestmark = pytest.mark.torch

Make = Callable[[], nn.Module]
VECTORS, IMAGES = probes((3,))[:10].float(), probes((1, 6, 6))[:10].float()


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def network(*more: nn.Module, width: int = 256, bias: bool = True, heads: int = 16) -> nn.Sequential:
    """PyTorch's own initialisation."""
    return nn.Sequential(nn.Linear(3, width, bias), nn.ReLU(), nn.Linear(width, heads, bias), *more)


def deeper(width: int = 256, heads: int = 16) -> nn.Sequential:
    return nn.Sequential(*network(nn.ReLU(), nn.Linear(width, heads), width=width, heads=width))


def orthogonal(module: nn.Module) -> nn.Module:
    """CleanRL's initialisation."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, sqrt(2))
            nn.init.zeros_(layer.bias)
    return module


def scaled(c: float, module: nn.Module, layer: int = -1) -> nn.Module:
    with torch.no_grad():
        for p in [*module.children()][layer].parameters():
            p.mul_(c)
    return module


def frozen(module: nn.Module) -> nn.Module:
    next(module.children()).requires_grad_(False)
    return module


def convolutional(*more: nn.Module, channels: int = 64, heads: int = 4) -> nn.Sequential:
    """For images of 6 by 6 pixels."""
    body = nn.Conv2d(1, channels, 3), *more, nn.ReLU(), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(16 * channels, heads))


def normed(*more: nn.Module) -> nn.Module:
    """With a parametrised weight."""
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 64)), nn.ReLU(), nn.Linear(64, 8), *more)


class Branch(nn.Module):
    """A module whose `forward` does what its layers do not show, with its head registered first."""

    def __init__(self, end: Callable = lambda f: f, activation: Callable = torch.relu, heads: int = 8):
        super().__init__()
        self.outer, self.inner, self.end, self.activation = nn.Linear(64, heads), nn.Linear(3, 64), end, activation

    def forward(self, x):
        return self.end(self.outer(self.activation(self.inner(x))))


def signs() -> nn.Module:
    """As many weights of each sign, of one size: numbers of the least kurtosis, 1."""
    module = network()
    for p in module.parameters():
        p.data = (2.0 * (torch.randperm(p.numel()) % 2) - 1).view(p.shape) / sqrt(p.numel())
    return module


def compiled() -> nn.Module:
    return nn.Sequential(torch.compile(network(), backend="eager"), nn.Identity())  # pyright: ignore[reportArgumentType]


ENSEMBLES: dict[str, tuple[Make, Tensor]] = {
    "plain": (network, VECTORS),
    "orthogonal": (lambda: orthogonal(network()), VECTORS),
    "one output": (lambda: network(heads=1), VECTORS),
    "without biases": (lambda: network(bias=False), VECTORS),
    "convolutions": (convolutional, IMAGES),
    "group normalisation": (lambda: convolutional(nn.GroupNorm(4, 64)), IMAGES),
    "Eq. 1": (lambda: nature_cnn((1, 36, 36))(4), probes((1, 36, 36))),
    "own forward": (Branch, VECTORS),
    "signs": (signs, VECTORS),
    "no dropout": (lambda: network(nn.Dropout(0.0)), VECTORS),
    "weight norm": (normed, VECTORS),
    "compiled": (compiled, VECTORS),  # PyTorch #186294
}


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of what torch.compile imports
@pytest.mark.parametrize(("make", "obs"), ENSEMBLES.values(), ids=ENSEMBLES)
def test_two_draws_of_one_law_are_an_ensemble(make, obs):
    predictor, target = make(), make()
    kept = [copy.deepcopy(module.state_dict()) for module in (predictor, target)]
    random = torch.random.get_rng_state()
    found = explain(predictor, target, obs)
    assert (found.verdict, found.factor, found.factors) == ("ensemble variance", 1.0, None)
    assert "half the mean squared error is an ensemble's variance" in str(found)
    assert torch.random.get_rng_state().equal(random)
    for module, before in zip((predictor, target), kept, strict=True):
        assert all(torch.equal(a, before[name]) for name, a in module.state_dict().items())


@pytest.mark.parametrize(
    ("predictor", "target", "verdict", "says"),
    [
        (deeper, network, "no", "differ in architecture: the ratio depends on the observation, here from about"),
        (lambda: network(nn.Tanh()), network, "may not be", "predictor's outputs are not affine"),
        (lambda: network(width=128), network, "no", "differ in architecture"),
        (lambda: Branch(activation=torch.tanh), Branch, "no", "with the target's weights is another function"),
        (lambda: Branch(torch.relu), None, "no", "not affine .* never negative"),
        (lambda: network(nn.Sigmoid()), None, "no", "not affine .* never negative"),
        (lambda: Branch(torch.tanh), None, "may not be", "not affine"),
        (lambda: network(nn.LayerNorm(16)), None, "may not be", "not affine"),
        (lambda: normed(nn.Softplus()), None, "no", "never negative"),
        (lambda: orthogonal(network()), network, "no", r"'0.weight' has mean and deviation .* 0.088\d against .* 0.33"),
        (lambda: network(nn.Dropout(0.1)), network, "no", "predictor's outputs differ from call to call"),
        (lambda: network(nn.BatchNorm1d(16)), network, "no", "predictor's outputs depend on the rest of the batch"),
        (lambda: network().requires_grad_(False), network, "no", "no weights that train"),
        (network, lambda: network(heads=8), "no", r"return \(10, 16\) and \(10, 8\) for 10 observations"),
        (convolutional, None, "may not be", r"fail on observations \(16, 1024\) .RuntimeError: .*give observations"),
        (lambda: nn.Conv1d(3, 3, 3), None, "may not be", "not known: give obs"),
        (lambda: nn.Sequential(spectral_norm(nn.Linear(3, 8)), nn.Linear(8, 4)), None, "no", "each call changes"),
        (lambda: scaled(0.0, network()), None, "no", "outputs start at zero: draw its last layer at random"),
        (lambda: Branch(torch.tanh), lambda: scaled(0.0, network(heads=8)), "no", "the target's outputs start at zero"),
        (lambda: Branch(lambda f: (f, f)), None, "no", r"return tuple and tuple for 10 observations, not both"),
        (nn.Identity, network, "no", "no weights that train"),
    ],
)
def test_others_are_none_or_unknown_and_there_is_no_factor(predictor, target, verdict, says):
    found = explain(predictor(), (target or predictor)(), None if "give obs" in says else VECTORS)
    assert found.verdict == {"no": "no ensemble variance", "may not be": "unknown"}[verdict]
    assert found.factor is None
    assert re.search(f"error (is )?{verdict} (an )?ensemble's variance: .*{says}", str(found)), str(found)


def test_a_bonus_warns_of_its_modules_and_not_of_its_optimiser():
    for target, says in ((network(nn.ReLU()), "not affine"), (scaled(3.0, network()), r"as [45]\.\d* times an ens")):
        with pytest.warns(MismatchWarning, match=says):
            ModuleBonus(3, network(), target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RNDBonus(3).meaning.verdict == "biased"


class Own(torch.optim.Optimizer):
    """One that is not known."""

    def __init__(self, parameters):
        super().__init__(parameters, {})


OPTIMISERS: dict[str, tuple[Callable, str, str]] = {
    "descent": (lambda p: torch.optim.SGD(p, 0.1), "ensemble variance", "far as tests show$"),
    "momentum": (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), "ensemble variance", "far as tests show$"),
    "decay": (lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1), "biased", "pulls the predictor to zero"),
    "Adam": (torch.optim.Adam, "biased", "Adam divides by the size of gradients"),
    "AdamW": (torch.optim.AdamW, "biased", "AdamW divides"),
    "RMSprop": (torch.optim.RMSprop, "biased", "biased as an ensemble's variance: .* RMSprop divides"),
    "L-BFGS": (torch.optim.LBFGS, "unknown", "whether LBFGS trains as gradient descent does cannot be told"),
    "own": (Own, "unknown", "may not be an ensemble's variance: .* whether Own"),
}


@pytest.mark.parametrize(("make", "verdict", "says"), OPTIMISERS.values(), ids=OPTIMISERS)
def test_the_optimiser_has_a_part_in_the_verdict(make, verdict, says):
    """The factor stays that of the modules; and what gives no variance has none by any optimiser."""
    predictor, target = network(), network()
    found = explain(predictor, target, VECTORS, make(predictor.parameters()))
    assert (found.verdict, found.factor) == (verdict, 1.0)
    assert re.search(says, str(found)), str(found)
    other = explain(predictor, deeper(), VECTORS, make(predictor.parameters()))
    assert (other.verdict, other.factor) == ("no ensemble variance", None)


def doubled(f):
    return 2 * f


@pytest.mark.parametrize(
    ("make", "louder", "c", "obs"),
    [
        (network, lambda: scaled(0.5, network()), 0.5, None),
        (network, lambda: scaled(3.0, network()), 3.0, None),
        (lambda: nature_cnn((1, 36, 36))(16), lambda: scaled(3.0, nature_cnn((1, 36, 36))(16)), 3.0, (1, 36, 36)),
        (Branch, lambda: scaled(1.5, Branch(doubled), layer=0), 3.0, (3,)),
    ],
)
def test_an_output_scale_is_one_factor(make, louder, c, obs):
    """c is known to 1 / sqrt(n) of itself, n = 512 weights or more, of a uniform law's kurtosis or a Gaussian's."""
    found = explain(make(), louder(), obs and probes(obs))
    assert found.verdict == "scaled ensemble variance"
    assert found.factor == pytest.approx((1 + c**2) / 2, rel=4 * 2 / sqrt(2 * 512))


class Outside(nn.Module):
    """Eq. 1 with two layers of weights of N(0, 1), and its factors outside of them."""

    def __init__(self, net: MLP, heads: int):
        super().__init__()
        self.net, sizes = net, [(net.width, 3), (heads, net.width), (net.width,), (heads,)]
        self.weights = nn.ParameterList(torch.randn(size) for size in sizes)

    def forward(self, x):
        w, v, b, c = self.weights
        h = nn.functional.silu(self.net.sigma_w / sqrt(3) * x @ w.T + self.net.sigma_b * b)
        return self.net.sigma_w / sqrt(self.net.width) * h @ v.T + self.net.sigma_b * c


def test_the_range_of_the_ratio_holds_the_exact_factor():
    """Of wide networks of Eq. 1, at the points that are not trained on. Both sums of squares have 64 draws of 64 heads,
    and a kernel of width 1024 in four draws: 0.1 is four of their standard errors."""
    others: list[dict[str, Any]] = [{"sigma_w": 2.0, "sigma_b": 1.0}, {"sigma_w": 0.7}]
    for settings in others:
        exact = mismatch.factor(MLP(3), MLP(3, **settings), VECTORS[::2].numpy(), VECTORS[1::2].numpy())
        predictor, target = (Outside(MLP(3, width=1024, **of), 64) for of in ({}, settings))
        found = explain(predictor, target, VECTORS)
        assert found.factors == pytest.approx((exact.min(), exact.max()), rel=0.1)
        assert np.abs(exact - 1).max() > 0.3


def test_the_range_of_the_ratio_knows_the_learning_rates():
    """An `Eq1` whose factors are in the weights, by the rates that a bonus gives it, is the network of the theorem."""
    net, other = MLP(3, width=1024, sigma_w=3.0), MLP(3, width=1024, sigma_w=3.0, sigma_b=3.0)
    modules = (drawn(of, 64, 1, seed, Role.MEMBER, torch.float32) for seed, of in enumerate((net, other)))
    predictor, target = modules
    optimizer = torch.optim.SGD(predictor.parameters(), 0.1)
    descend_as_eq_1(optimizer, predictor)
    exact = mismatch.factor(net, other, VECTORS[::2].numpy(), VECTORS[1::2].numpy())
    (low, high), (off, _) = (explain(predictor, target, VECTORS, of).factors or (0, 0) for of in (optimizer, None))
    assert (low, high) == pytest.approx((exact.min(), exact.max()), rel=0.1)
    assert low < 1 < off  # by one rate for all weights


def started(how: Callable[[Tensor], Any], name: str) -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 16))
    how(dict(module.named_parameters())[name].data)
    return module


@pytest.mark.parametrize(
    ("how", "name"),
    [
        (lambda p: nn.init.constant_(p, 0.1), "0.bias"),  # whose deviation in float32 is 1.5e-8
        (lambda p: nn.init.constant_(p, 0.3), "4.bias"),
        (nn.init.eye_, "2.weight"),
        (lambda p: nn.init.zeros_(p)[:64].fill_(1.0), "2.bias"),  # as the gates of an LSTM
        (lambda p: p[:64].fill_(1.0), "2.bias"),
        (lambda p: nn.init.eye_(p).add_(torch.randn_like(p) / 100), "2.weight"),
    ],
)
def test_what_starts_the_same_in_every_draw_is_not_shared(how, name):
    assert explain(started(how, name), started(how, name), VECTORS).verdict == "ensemble variance"


def test_copies_and_shared_weights_are_not_independent():
    module = network()
    for other in (module, copy.deepcopy(module)):
        assert "not independent: the target has the predictor's '0.weight'" in str(explain(module, other))
    for change in (1e-3, 0.1, 0.3, 1.0):
        other = copy.deepcopy(module)
        for p in other.parameters():
            p.data += change * p.data.std() * torch.randn_like(p)
        for far in (other, scaled(-1.0, copy.deepcopy(other))):
            found = explain(module, far)
            assert (found.verdict, found.factor) == ("no ensemble variance", None)
            assert "not independent: correlated with the predictor's are '0.weight', '0.bias', '2.weight'" in str(found)
    trunk = nn.Linear(3, 8)
    ours, theirs = (nn.Sequential(trunk, nn.ReLU(), nn.Linear(8, 4)) for _ in range(2))
    assert "not independent: the target has the predictor's '0.weight', '0.bias'" in str(explain(ours, theirs))
    # An encoder: part of the observation, for members of an ensemble as well.
    for predictor, target, share in ((frozen(ours), theirs, True), (frozen(network()), frozen(network()), False)):
        found = explain(predictor, target)
        assert found.factor == 1
        assert "members do not train '0.weight', '0.bias' either" in str(found)
        assert ("share" in str(found)) == share


@pytest.mark.check
def test_chance_is_not_called_a_difference_and_a_difference_is_found():
    """200 pairs, at a level of 1e-6 in two tests for each of four tensors and one of all: 0.2% to see one."""
    for make in (network, lambda **size: orthogonal(network(**size))):
        assert all(explain(make(heads=2), make(heads=2)).factor == 1 for _ in range(100))
    for _ in range(10):
        assert explain(network(heads=2), scaled(1.5, network(heads=2), layer=0)).factor is None
        shifted = network()
        nn.init.constant_(shifted[2].weight, 0.1)  # pyright: ignore[reportArgumentType]
        assert explain(network(), shifted).factor is None


@pytest.mark.usefixtures("as_a_user")
def test_what_is_no_module_or_has_no_weights_yet_and_no_observations():
    assert explain(network(), network(), VECTORS.double().numpy()).factor == 1
    with pytest.raises(ValueError, match=r"obs has a NaN or infinity, first at \[0, 0\]"):
        explain(network(), network(), VECTORS.numpy() * np.nan)
    with pytest.raises(ValueError, match="obs has 1 rows: give two or more"):
        explain(network(), network(), VECTORS[:1])
    with pytest.raises(ValueError, match=r"target is builtin_function_or_method: give a torch\.nn\.Module"):
        explain(network(), torch.relu)
    with pytest.raises(ValueError, match="target is on the device 'meta'"):
        explain(network(), network().to("meta"))
    with pytest.raises(ValueError, match=r"target returns torch\.int64: give a module"):
        explain(network(), Branch(lambda f: f.long()))
    with pytest.raises(ValueError, match="obs is on the device 'meta'"):
        explain(network(), network(), VECTORS.to("meta"))
    with pytest.raises(ValueError, match="predictor has lazy layers"):
        explain(nn.LazyLinear(3), network())


# ------------------------------------------------------------------------------------------------- trained networks

MEMBERS, WIDTH, HEADS = 100, 128, 4
SMALL: dict[str, Any] = {"width": WIDTH, "heads": HEADS}


def ratio(predictor: Make, target: Make, obs: Tensor, steps: int, rate: float) -> float:
    """Half the expected squared error over the variance of an ensemble of predictors, mean over test points."""

    def trained(targets: Tensor) -> Tensor:
        """`MEMBERS` networks after full-batch descent on `targets` (members, 4, heads): their functions elsewhere."""
        params, _ = torch.func.stack_module_state([predictor() for _ in range(MEMBERS)])
        one, trains = predictor(), [p for p in params.values() if p.requires_grad]
        apply = torch.func.vmap(lambda p, x: torch.func.functional_call(one, p, x), (0, None))
        for _ in range(steps):
            loss = (apply(params, obs[:4]) - targets).square().sum() / 2
            for p, slope in zip(trains, torch.autograd.grad(loss, trains), strict=True):
                p.data.sub_(rate * slope)
        return apply(params, obs[4:]).detach()

    goals = torch.stack([target()(obs).detach() for _ in range(MEMBERS)])
    errors = trained(goals[:, :4]) - goals[:, 4:]
    labels = obs[:4].flatten(1).sum(1, keepdim=True) / 10
    variance = trained(labels.expand(MEMBERS, -1, HEADS)).var(0).mean(1)
    return float((errors.square().mean((0, 2)) / 2 / variance).mean())


def normalised() -> nn.Module:
    return convolutional(nn.GroupNorm(4, WIDTH), channels=WIDTH, heads=HEADS)


@pytest.mark.parametrize(
    ("make", "obs", "steps", "rate"),
    [
        (lambda: network(**SMALL), VECTORS, 100, 0.005),
        (lambda: orthogonal(network(**SMALL)), VECTORS, 100, 0.005),
        (lambda: frozen(network(**SMALL)), VECTORS, 100, 0.005),
        (normalised, IMAGES, 0, 0.0),
        (normalised, IMAGES, 100, 0.0004),  # one over the largest eigenvalue of its kernels
    ],
    ids=["plain", "cleanrl", "half frozen", "images before training", "images"],
)
def test_trained_networks_bear_the_verdicts_out(make, obs, steps, rate):
    """Of Gaussian outputs, the ratio at a point over the factor follows F with as many degrees as networks and heads.

    A mean over points that are not independent scatters no more than one of them. The interval leaves out 1e-4, and
    widens by 10 / width. A target of three times the outputs has the factor 5, and neither 1 nor, without the half, 10.
    """
    tail = stats.f(MEMBERS * HEADS, MEMBERS * HEADS - 1).isf([1 - 0.5e-4, 0.5e-4])
    low, high = tail * [1 - 10 / WIDTH, 1 + 10 / WIDTH]
    assert explain(make(), make(), obs).factor == 1
    for target, factor in ((make, 1.0), (lambda: scaled(3.0, make()), 5.0)):
        found = ratio(make, target, obs, steps, rate)
        assert low < found / factor < high
        assert not any(low < found / wrong < high for wrong in {1.0, 2.0, 5.0, 10.0} - {factor})


def test_trained_networks_bear_the_denials_out():
    """A ReLU written in `forward` (issue 49), and a deeper predictor, are outside of the interval above."""
    for predictor, target in ((rectified, rectified), (lambda: deeper(**SMALL), lambda: network(**SMALL))):
        assert explain(predictor(), target(), VECTORS).factor is None
        assert abs(ratio(predictor, target, VECTORS, 100, 0.005) - 1) > 0.6


def rectified() -> nn.Module:
    return Branch(torch.relu, heads=HEADS)
