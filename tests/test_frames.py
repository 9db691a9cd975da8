"""RNDBonus on frames of bytes and with networks of the user's own: memory, laws, compilation, and what is refused."""

import copy
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import jaxtyping
import numpy as np
import pytest

from rndlib import RND, GradientDescent, kernels, laws

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.profiler import profile  # noqa: E402

from rndlib.torch import Module, ModuleBonus, RNDBonus, nature_cnn  # noqa: E402
from rndlib.torch.distillation import _AT_ONCE  # noqa: E402

pytestmark = pytest.mark.torch

FRAMES = (4, 84, 84)
SMALL: dict[str, Any] = {"obs_shape": (1, 36, 36), "heads": 4, "network": nature_cnn((1, 36, 36))}


def frames(count: int, shape: tuple[int, ...] = FRAMES) -> Tensor:
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 1, 6, 6))


def build(outputs: int, channels: int = 64) -> nn.Module:
    """PyTorch's own parametrisation, for images of 6 by 6 pixels."""
    body = nn.Conv2d(1, channels, 3), nn.SiLU(), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(16 * channels, outputs))


# ---------------------------------------------------------------------------------------------------------- bytes


def peak(call: Any) -> int:
    """Most bytes that a call holds at a time, beyond what was there before."""
    with profile(profile_memory=True) as profiled:
        call()
    events: Any = profiled.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    return int(max(np.cumsum([event.nbytes() for event in events if event.name() == "[memory]"])))


def test_no_method_converts_all_frames_at_once():
    """A part in float64, the difference to its mean, and the part in float32: 20 bytes a number; 600 frames have 4."""
    obs, bound = frames(600), 20 * _AT_ONCE

    def network():
        return nn.Sequential(nn.Conv2d(4, 2, 8, 8), nn.Flatten(), nn.Linear(200, 4))

    bonus = ModuleBonus(FRAMES, network(), network())
    calls = bonus.observe, bonus, bonus.errors, lambda obs: bonus.loss(obs).backward(), bonus.update
    for call in calls:
        assert peak(lambda call=call: call(obs)) < bound
        assert peak(lambda call=call: call(obs.numpy())) < bound
    assert bonus.normaliser is not None
    assert peak(lambda: bonus.normaliser(obs)) > 2 * bound  # pyright: ignore[reportOptionalCall]


def test_parts_give_the_numbers_of_the_whole(monkeypatch):
    """Rounding 2^-24 in sums of some thousand terms of both signs: 1e-4 is generous, and a wrong weight is not."""
    obs = frames(10, (1, 36, 36))

    def numbers() -> list[Tensor]:
        bonus = RNDBonus(**SMALL, optimizer=lambda p: torch.optim.SGD(p, 1e-3))
        bonus.observe(obs)
        bonus.loss(obs).backward()
        slopes = [torch.clone(p.grad) for p in bonus.predictor.parameters() if p.grad is not None]
        bonus.update(obs, epochs=2)
        return [bonus(obs), bonus.errors(obs).detach(), torch.tensor(bonus.update(obs)), *slopes]

    whole = numbers()
    monkeypatch.setattr("rndlib.torch.distillation._AT_ONCE", 3 * 36 * 36)  # 3, 3, 3 and 1 of them
    for part, all_at_once in zip(numbers(), whole, strict=True):
        torch.testing.assert_close(part, all_at_once, rtol=1e-4, atol=1e-4 * float(all_at_once.abs().max()))


def test_statistics_of_frames_are_those_of_all_pixels():
    obs = frames(50)
    bonus = RNDBonus(FRAMES, 1, width=4)
    for batch in (obs[:1], obs[1:30].numpy(), obs[30:]):
        bonus.observe(batch)
    assert bonus.normaliser is not None
    var, mean = torch.var_mean(obs.double(), 0, correction=0)
    torch.testing.assert_close(bonus.normaliser.mean, mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(bonus.normaliser.var, var, rtol=1e-10, atol=0)
    assert bonus.normaliser(255 - obs).abs().max() <= 5


# -------------------------------------------------------------------------------------------- networks of one's own


def test_predictor_and_target_are_draws_of_the_seed():
    state = torch.random.get_rng_state()
    bonus, again, other = (RNDBonus((1, 6, 6), 4, 2, network=build, seed=seed) for seed in (0, 0, 1))
    assert torch.random.get_rng_state().equal(state)
    ours, theirs = ([*module.parameters()] for module in (bonus.predictor, bonus.target))
    assert all(map(torch.equal, ours, again.predictor.parameters()))
    assert all(map(torch.equal, theirs, again.target.parameters()))
    # No two of the four networks, and of the two seeds, have a tensor in common.
    weights = [*ours, *theirs, *other.predictor.parameters(), *other.target.parameters()]
    assert len({float(w.detach().flatten()[0]) for w in weights}) == len(weights)
    assert bonus.meaning.factor == 1
    bonus.observe(images(9))
    assert bonus.errors(images(3)).shape == (3, 8)


def test_is_the_estimator_after_the_same_descent():
    """As for an MLP in test_bonus.py. With scales 1, the estimator trains the weights themselves, as the bonus does."""
    build, steps, rate = nature_cnn((1, 36, 36)), 20, 0.05
    points, at = np.random.default_rng(0).normal(size=(2, 3, 1, 36, 36))
    net = Module(build, scales=1.0)
    model = RND(net, 2, 2, seed=5, solver=GradientDescent(rate, steps)).fit(points)
    options: dict[str, Any] = {"seed": 5, "dtype": torch.float64, "normalise": False}
    bonus = RNDBonus((1, 36, 36), 2, 2, network=build, **options, optimizer=lambda p: torch.optim.SGD(p, rate * 3 * 4))
    untrained = bonus(at).numpy()
    bonus.update(points, epochs=steps)
    np.testing.assert_allclose(bonus(at), model.variance(at), rtol=1e-9)
    np.testing.assert_allclose(bonus.errors(at).detach().T, model.errors(at), rtol=1e-9, atol=1e-12)
    assert np.abs(untrained / model.variance(at) - 1).max() > 0.1


def test_an_untrained_bonus_has_the_nngp_of_its_network():
    """60 seeds of 8 heads that are independent in the limit: 4 sqrt(2 / 480), and twice that for shared features."""
    points = images(5)
    expected = np.diag(kernels.empirical(Module(build), points, draws=64).nngp)
    found = [RNDBonus((1, 6, 6), 8, network=build, seed=s, normalise=False)(points).numpy() for s in range(60)]
    ratio, margin = np.mean(found, axis=0) / expected, 8 * sqrt(2 / 480)
    assert np.abs(ratio - 1).max() < margin
    assert np.abs(2 * ratio - 1).min() > margin  # not the mean squared error itself


def test_a_trained_bonus_has_the_variance_that_it_says():
    """Descent on weights in PyTorch's parametrisation: the tangent kernel is that of scales 1, as `explain` says.

    40 seeds of 8 heads, independent in the limit, and 10 / channels for a finite number of these.
    """
    channels, points = 256, images(4)
    at = (images(5, seed=1) + points[[0, 1, 2, 3, 0]]) / 1.5
    make = partial(build, channels=channels)

    def kernel(*where: np.ndarray) -> kernels.Kernel:
        prior = kernels.empirical(Module(make), *where, draws=8)
        return replace(prior, ntk=kernels.empirical(Module(make, scales=1.0), *where, draws=8).ntk)

    expected = laws.ensemble(kernel, points, np.zeros(4), at).var
    untrained = laws.ensemble(kernel, points, np.zeros(4), at, time=0.0).var
    rate = 4 * 8 / np.linalg.eigvalsh(kernel(points).ntk)[-1]  # of the mean over points and heads
    found = []
    for seed in range(40):
        options: dict[str, Any] = {"normalise": False, "optimizer": lambda p: torch.optim.SGD(p, rate)}
        bonus = RNDBonus((1, 6, 6), 8, network=make, seed=seed, **options)
        bonus.update(points, epochs=40)
        assert bonus(points).max() < 1e-6 * expected.min()
        found.append(bonus(at).numpy())
    ratio, margin = np.mean(found, axis=0) / expected, 4 * sqrt(2 / 320) + 10 / channels
    assert np.abs(ratio - 1).max() < margin
    assert np.abs(untrained / expected - 1).min() > margin
    assert np.abs(2 * ratio - 1).min() > margin


def test_a_module_serves_as_its_build_does():
    one, other = (RNDBonus((1, 6, 6), 4, network=net, normalise=False) for net in (build, Module(build)))
    assert one(images(3)).equal(other(images(3)))
    assert RNDBonus((1, 6, 6), 4, network=build, dtype=torch.float64, normalise=False)(images(3)).dtype == torch.float64


def test_nature_cnn_is_eq_1_with_its_factors_outside():
    """The same function of PyTorch's own layers, whose weights have the factors inside."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nature_cnn((4, 84, 84), activation="silu", sigma_w=1.3, sigma_b=0.2)(8)
        x = torch.randn(2, *FRAMES)
    conv = nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)
    layers = [*conv, nn.Linear(3136, 512), nn.Linear(512, 8)]
    with torch.no_grad():
        for layer, own in zip(layers, network.layers, strict=True):
            w, b = own.parameters()
            layer.weight.copy_(1.3 / sqrt(w[0].numel()) * w)
            layer.bias.copy_(0.2 * b)
            assert abs(w.std() - 1) < 4 / sqrt(2 * w.numel())
    body = [part for layer in layers[:3] for part in (layer, nn.SiLU())]
    whole = nn.Sequential(*body, nn.Flatten(), layers[3], nn.SiLU(), layers[4])
    torch.testing.assert_close(network(x), whole(x), rtol=1e-4, atol=1e-5)


def test_a_loop_over_vectorised_environments_goes_on_from_its_state():
    """Frames as `gymnasium` stacks them, (environments, *obs_shape) of bytes, in a rollout of several steps."""
    rollout = [frames(8, (1, 36, 36)).numpy() // (step + 1) for step in range(4)]
    bonus = RNDBonus(**SMALL, bodies=2, update_proportion=0.5)
    for obs in rollout:
        bonus.observe(obs)
    before = bonus(rollout[0])
    bonus.update(np.concatenate(rollout), epochs=4, minibatch_size=8)
    assert bonus(rollout[0]).mean() < before.mean()
    other = RNDBonus(**SMALL, bodies=2, update_proportion=0.5, seed=9)
    other.load_state_dict(copy.deepcopy(bonus.state_dict()))
    for one in (bonus, other):
        one.update(rollout[1], epochs=2)
    assert other(rollout[0]).equal(bonus(rollout[0]))


def test_torchrl_has_twice_the_number_and_loses_the_ranks_by_its_clip():
    """What docs/how_to/novelty.md says of it, on frames whose left halves were black before, as in another room.

    Its statistics are in float32, and start from a count of 1e-4 beside the 64 frames.
    """
    transforms = pytest.importorskip("torchrl.envs.transforms")
    tensordict = pytest.importorskip("tensordict")

    class Unflattened(nn.Module):
        def __init__(self, network: nn.Module):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network(x.view(-1, 1, 36, 36))

    known, new = (frames(128, (1, 36, 36)) // 4).chunk(2)
    known[..., :18], new[..., :18] = 0, 128
    bonus = RNDBonus(**SMALL)
    bonus.observe(known)

    def rewards(**options: Any) -> Tensor:
        pair = (Unflattened(copy.deepcopy(network)) for network in (bonus.target, bonus.predictor))
        transform = transforms.RNDTransform(*pair, **options)
        for obs in (known, new):
            step = tensordict.TensorDict({"observation": obs.flatten(1)}, [len(obs)])
            transform._step(None, step)
            transform.eval()
        return step["intrinsic_reward"][:, 0]

    torch.testing.assert_close(rewards(normalize_reward=False) / 2, bonus(new), rtol=1e-3, atol=0)
    assert (rewards() == 5).all()
    assert len(bonus(new).unique()) == 64


# ------------------------------------------------------------------------------------------------------ compilation


@pytest.mark.filterwarnings("default")  # of what torch.compile imports
@pytest.mark.parametrize("network", [None, SMALL["network"]], ids=["MLP", "nature"])
def test_networks_compile_as_one_graph_and_give_the_same_numbers(network):
    """With the graph, but without the code: C++ would take half a minute to compile."""
    bonus, obs = RNDBonus((1, 36, 36), 4, network=network), frames(4, (1, 36, 36))
    bonus.observe(obs)
    plain, state = bonus(obs), copy.deepcopy(bonus.state_dict())
    jaxtyping.config.update("jaxtyping_disable", True)  # its checks are no part of a graph
    try:
        for module in (bonus.predictor, bonus.target):
            module.compile(backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(bonus(obs), plain)
        bonus.update(obs, epochs=3)
        assert bonus(obs).mean() < plain.mean()
        bonus.load_state_dict(state)  # whose names are those of before
        torch.testing.assert_close(bonus(obs), plain)
        torch.testing.assert_close(torch.compile(bonus, backend="aot_eager")(obs), plain)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
        torch.compiler.reset()


# ---------------------------------------------------------------------------------------------------- what is wrong


def ignoring(outputs: int) -> nn.Module:
    return build(3)


def with_batch_norm(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(128, outputs))


@pytest.fixture
def _as_a_user():
    """Without the tests' own check of annotations, which would speak up first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"network": build(4)}, r"network = Sequential\(.*give a function from a number of outputs to a new"),
        ({"network": 3}, "network = 3: give a function"),
        ({"width": 512}, "width: settings of an MLP: give them to the network, or leave network out"),
        ({"depth": 3, "sigma_b": 0.0}, "depth, sigma_b: settings of an MLP"),
        ({"network": lambda outputs: "no"}, "build.2. = 'no': return an nn.Module"),
        ({"network": ignoring}, "ignores outputs"),
        ({"network": with_batch_norm}, "BatchNorm2d in training mode.*use GroupNorm or LayerNorm, or call .eval"),
        ({"network": lambda outputs: nn.Sequential(build(outputs), nn.Tanh())}, "not affine in the head's weights"),
        ({"network": lambda outputs: nn.Sequential(nn.Flatten(), nn.LazyLinear(outputs))}, "lazy layers"),
        ({"network": lambda outputs: nn.Linear(6, outputs)}, r"maps .4, 1, 6, 6. to .4, 1, 6, 2.: return"),
        (
            {"network": lambda outputs: nn.Conv2d(3, outputs, 6)},
            r"the network fails on points of shape .1, 6, 6. .RuntimeError: .*channels",
        ),
        ({"network": lambda: build(1)}, r"build\(2\) fails .*0 positional arguments"),
        ({"heads": 0}, "heads = 0"),
        ({"bodies": 0}, "bodies = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_networks_that_cannot_serve_are_refused_before_training(options, says):
    state = torch.random.get_rng_state()
    with pytest.raises(ValueError, match=f"(?s){says}"):
        RNDBonus((1, 6, 6), **({"heads": 4, "network": build} | options))
    assert torch.random.get_rng_state().equal(state)


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"obs_shape": (84, 84)}, r"obs_shape = \(84, 84\): give \(channels, height, width\)"),
        ({"obs_shape": (84, 84, 4)}, r"obs_shape = \(84, 84, 4\): give images of 36 by 36 pixels at least, channels f"),
        ({"obs_shape": (1, 36, 35)}, "36 by 36 pixels at least"),
        ({"widen": 0}, "widen = 0"),
        ({"activation": "swish"}, "activation = 'swish'"),
        ({"sigma_w": 0}, "sigma_w = 0"),
        ({"sigma_b": -1}, "sigma_b = -1"),
    ],
)
def test_arguments_of_nature_cnn_out_of_range(options, says):
    with pytest.raises(ValueError, match=says):
        nature_cnn(**({"obs_shape": FRAMES} | options))


def test_complex_observations():
    with pytest.raises(ValueError, match="obs is complex: give real numbers"):
        RNDBonus(3, 4, normalise=False)(np.ones((2, 3), dtype=complex))
