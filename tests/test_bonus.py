"""RNDBonus and ModuleBonus: the numbers of the estimator, frames of bytes, and the manners of a PyTorch module."""

import copy
import io
import pickle
import re
import subprocess
import sys
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from rndlib import MLP, RND, DivergenceError, GradientDescent, HeadsWarning, laws
from rndlib.estimators import NotFittedError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.profiler import profile  # noqa: E402

from rndlib.torch import MismatchWarning, Module, ModuleBonus, RNDBonus, RunningNormaliser, nature_cnn  # noqa: E402
from rndlib.torch.batches import AT_ONCE  # noqa: E402

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(5, 3)), RNG.normal(size=(7, 3))
SMALL: dict[str, Any] = {"heads": 4, "network": MLP(3, width=32)}
FRAMES, PIXELS = (4, 84, 84), (1, 36, 36)


def deviation(p: Tensor) -> float:
    """Of the initial weights of `nature_cnn`, by Eq. 1."""
    return 0.1 if p.ndim == 1 else sqrt(2 / p[0].numel())


NATURE = Module(nature_cnn(PIXELS), scales={name: deviation(p) for name, p in nature_cnn(PIXELS)(1).named_parameters()})


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, rate)


def seen(**options: Any) -> RNDBonus:
    """A small bonus that has seen X."""
    bonus = RNDBonus(3, **(SMALL | options))
    if bonus.normaliser is not None:
        bonus.observe(X)
    return bonus


def frames(count: int, shape: tuple[int, ...] = FRAMES) -> Tensor:
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 1, 6, 6))


def build(outputs: int, channels: int = 64) -> nn.Module:
    """PyTorch's own parametrisation, for images of 6 by 6 pixels."""
    body = nn.Conv2d(1, channels, 3), nn.SiLU(), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(16 * channels, outputs))


# ------------------------------------------------------------------------------------------------------- the numbers


@pytest.mark.parametrize("gamma", [None, 0.5])
@pytest.mark.parametrize(
    ("net", "heads", "bodies", "shape"),
    [(MLP(3, 32), 4, 1, (3,)), (MLP(3, 32, 3, "erf"), 3, 2, (3,)), (NATURE, 2, 2, PIXELS)],
    ids=["mlp", "two bodies", "nature"],
)
def test_is_the_estimator_after_the_same_descent(net, heads, bodies, shape, gamma):
    """The mean over points and outputs of half a square is 1 / (N K) of the paper's loss, and so is the gradient.

    Steps of rounding 1e-16, at numbers of order one. With `gamma`, both take semi-gradients.
    """
    steps, rate = (20, 0.05) if shape == PIXELS else (100, 0.01)
    points, after, at = np.random.default_rng(0).normal(size=(3, 3, *shape))
    ends = np.array([False, True, False])
    transitions: Any = {} if gamma is None else {"X_next": after, "terminal": ends}
    solver = GradientDescent(rate, steps)
    model = RND(net, heads, bodies, seed=5, backend="torch", solver=solver, gamma=gamma).fit(points, **transitions)
    options: dict[str, Any] = {"network": net, "dtype": torch.float64, "normalise": False, "gamma": gamma}
    options["optimizer"] = sgd(rate * 3 * heads * bodies)
    bonus, other = (RNDBonus(shape, heads, bodies, seed=seed, **options) for seed in (5, 6))
    untrained = bonus(at)
    for one in (bonus, other):
        one.update(points, *(() if gamma is None else (after, ends)), epochs=steps)
    np.testing.assert_allclose(bonus(at), model.variance(at), rtol=1e-9)
    np.testing.assert_allclose(bonus.errors(at).detach().T, model.errors(at), rtol=1e-9, atol=1e-12)
    for wrong in (untrained, other(at)):
        assert np.abs(wrong / model.variance(at) - 1).max() > 0.1


CHAIN = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.5], [0.6, 0.8]])


def test_the_bonus_of_values_is_their_variance():
    """A chain of three transitions: to a known state, to the end, and to one that was never left.

    256 outputs have a scatter of sqrt(2 / 256), of which the margin is four, and 5 % are for the width of 1024.
    """
    net, gamma, ends = MLP(2, width=1024, sigma_b=0.5), 0.5, [False, True, False]
    obs, after = CHAIN[:3], CHAIN[1:4]
    options: dict[str, Any] = {"network": net, "normalise": False, "optimizer": sgd(0.3 * 3 * 256)}
    bonus, zero, plain = (RNDBonus(2, 64, 4, gamma=g, **options) for g in (gamma, 0.0, None))
    bonus.update(obs, after, ends, epochs=100)
    law = laws.value_rnd_error(net, obs, after, gamma, CHAIN, ends).var / 2
    np.testing.assert_allclose(bonus(CHAIN), law, rtol=4 * sqrt(2 / 256) + 0.05, atol=1e-6)
    assert law[2] > 0.2  # the value of a state that was seen, and is known to plain RND
    assert zero.update(obs, after, ends, epochs=100) == pytest.approx(plain.update(obs, epochs=100))
    np.testing.assert_allclose(zero(CHAIN), plain(CHAIN), rtol=1e-4, atol=1e-6)
    assert plain(CHAIN)[2] < 0.01 * law[2]


def test_float32_only_rounds():
    double, single = (seen(dtype=dtype) for dtype in (torch.float64, None))
    assert (double(X_TEST).dtype, single(X_TEST).dtype) == (np.float64, np.float32)
    # Sums of 32 terms of rounding 2^-24; a hundred of them are a generous bound.
    np.testing.assert_allclose(single(X_TEST), double(X_TEST), rtol=100 * 2**-24 * 10)


def test_networks_are_those_of_eq_1():
    """The function of N(0, 1) weights with the factors outside, and the initial deviations, to four of their errors."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nature_cnn(FRAMES)(8)
        x = z = torch.randn(2, *FRAMES)
    for layer, stride in zip(network.children(), (4, 2, 1, None, None), strict=True):
        w, b = layer.parameters()
        factor = sqrt(2 / w[0].numel())
        assert abs(w.std() / factor - 1) < 4 / sqrt(2 * w.numel())
        assert abs(b.std() / 0.1 - 1) < 4 / sqrt(2 * b.numel())
        z = torch.relu(z) if z is not x else x
        z = factor * (z.flatten(1) @ (w / factor).T) if stride is None else nn.functional.conv2d(z, w, None, stride)
        z = z + b.view(-1, *[1] * (z.ndim - 2))
    torch.testing.assert_close(network(x), z, rtol=1e-4, atol=1e-5)
    assert all(p.ndim == 2 for p in RNDBonus(3, network=MLP(3, sigma_b=0.0)).predictor.parameters())


# ------------------------------------------------------------------------------------------------ what changes what


def test_only_the_predictor_learns_and_only_by_update():
    bonus = seen(dtype=torch.float64)
    at, before = torch.tensor(X_TEST, requires_grad=True), copy.deepcopy(bonus.state_dict())
    novelty = bonus(at)
    assert not novelty.requires_grad
    assert torch.autograd.gradcheck(bonus.errors, at)
    for again in (bonus, bonus.eval(), bonus.train()):
        assert again(at).equal(novelty)
    same(bonus.state_dict(), before)
    own, lent = (seen(dtype=torch.float64, optimizer=sgd(0.1)) for _ in range(2))
    for _ in range(3):  # an agent's own optimiser
        lent.optimizer.zero_grad()
        (lent.errors(at).square().mean() / 2).backward()
        lent.optimizer.step()
    assert all(p.grad is None and not p.requires_grad for p in lent.target.parameters())
    with torch.no_grad():
        assert own.update(at) == pytest.approx(float(novelty.mean()))
    own.update(at, epochs=2)
    same(own.target.state_dict(), bonus.target.state_dict())
    torch.testing.assert_close(own(at), lent(at), rtol=1e-12, atol=0)
    assert not own(at).equal(novelty)


def test_minibatches_come_upon_each_observation_once_an_epoch():
    bonus = seen(optimizer=sgd(1e-9))
    taken = []
    bonus.predictor.register_forward_hook(lambda _, inputs, __: taken.append(inputs[0]))
    bonus.update(X, epochs=2, minibatch_size=2)
    assert [len(rows) for rows in taken] == [2, 2, 1, 2, 2, 1]
    assert bonus.normaliser is not None
    expected = bonus.normaliser(torch.tensor(X)).float()
    epochs = [torch.cat(taken[:3]), torch.cat(taken[3:])]
    for epoch in epochs:
        assert not epoch.equal(expected)
        assert epoch[epoch[:, 0].argsort()].equal(expected[expected[:, 0].argsort()])
    assert not epochs[0].equal(epochs[1])


# ------------------------------------------------------------------------------------------------------ normalisation


def test_statistics_are_those_of_all_rows_at_once_and_stay_float64():
    """Means of 1e6, a spread of 1, batches of any size: sums of squares, 1e12 with rounding 1e-16, would lose 1e-4."""
    rows = np.random.default_rng(1).normal(1e6, 1.0, (1000, 2, 2))
    normaliser = RunningNormaliser((2, 2)).float()
    for first, last in ((0, 1), (1, 4), (4, 500), (500, 1000)):
        normaliser.observe(torch.tensor(rows[first:last]))
    out = normaliser.half()(torch.tensor(rows)).numpy()
    assert normaliser.count == 1000
    np.testing.assert_allclose(normaliser.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(out, np.clip((rows - rows.mean(0)) / rows.std(0), -5, 5), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_clips_at_five_at_once_where_an_entry_never_varied(dtype):
    """The mean of many equal numbers must be exact for that, though 0.1 is none in binary."""
    normaliser, constant = RunningNormaliser((3,)), torch.tensor([[0.1, 0.0, 0.0]], dtype=dtype)
    for size in (1, 3, 7, 11, 1000):
        rows = constant.repeat(2 * size, 1)
        rows[::2, 2], rows[1::2, 2] = -1, 1
        normaliser.observe(rows)
    rows = torch.tensor([[0.1, 0.0, 0.5], [0.1001, -1e-9, -100.0], [0.0999, 1e-9, 100.0]], dtype=dtype)
    expected = torch.tensor([[0.0, 0.0, 0.5], [5.0, -5.0, -5.0], [-5.0, 5.0, 5.0]], dtype=dtype)
    torch.testing.assert_close(normaliser(rows), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [np.uint8, bool, np.int64, np.float32])
def test_observations_of_any_type_and_layout_are_normalised_by_all_pixels(dtype):
    obs = np.random.default_rng(0).integers(0, 256, (50, *FRAMES), dtype=np.uint8)[:, :, ::-1].astype(dtype)
    obs[::3] = 0
    bonus, plain = (RNDBonus(FRAMES, 1, network=MLP(4 * 84 * 84, width=4), normalise=n) for n in (True, False))
    for batch in (obs[:1], torch.tensor(obs[1:30].copy()), obs[30:]):
        bonus.observe(batch)
    expected = plain((obs[:3] - obs.mean(0, dtype=float)) / obs.std(0, dtype=float))
    np.testing.assert_allclose(bonus(obs[:3]), expected, rtol=1e-3)


def test_the_bonus_is_of_the_kind_of_the_observations():
    """gymnasium gives arrays of observations and of rewards."""
    bonus, turned = seen(), X[::-1]
    turned.flags.writeable = False
    expected = bonus(torch.tensor(X))
    assert (np.ones(5) + 0.1 * bonus(X)).dtype == np.float64
    assert torch.ones(5).add(0.1 * expected).dtype == torch.float32
    for found in (bonus(turned)[::-1], bonus(X.tolist()), bonus(X)):
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, expected)


def peak(call: Any) -> int:
    """Most bytes that a call holds at a time, beyond what was there before."""
    with profile(profile_memory=True) as profiled:
        call()
    events: Any = profiled.profiler.kineto_results.events()  # pyright: ignore[reportOptionalMemberAccess]
    return int(max(np.cumsum([event.nbytes() for event in events if event.name() == "[memory]"])))


def test_no_method_converts_all_frames_at_once():
    """A part in float64, or thrice in float32, and the networks' own: 14 bytes a number; 600 frames have 4 parts."""
    obs, bound = frames(600), 14 * AT_ONCE

    def network():
        return nn.Sequential(nn.Conv2d(4, 2, 8, 8), nn.Flatten(), nn.Linear(200, 4))

    bonus = ModuleBonus(FRAMES, network(), network())
    for call in (bonus.observe, bonus, bonus.update):
        assert peak(lambda call=call: call(obs)) < bound
        assert peak(lambda call=call: call(obs.numpy())) < bound
    assert bonus.normaliser is not None
    assert peak(lambda: bonus.normaliser(obs)) > bound  # pyright: ignore[reportOptionalCall]


def test_parts_give_the_numbers_of_the_whole(monkeypatch):
    """Rounding 2^-24 in sums of some thousand terms of both signs: 1e-4 is generous, and a wrong weight is not."""
    obs = frames(10, PIXELS)

    def numbers() -> list[Tensor]:
        bonus = RNDBonus(PIXELS, 4, network=nature_cnn(PIXELS), optimizer=sgd(1e-3))
        bonus.observe(obs)
        before = bonus(obs)
        return [before, torch.tensor(bonus.update(obs, epochs=2)), bonus(obs)]

    whole = numbers()
    monkeypatch.setattr("rndlib.torch.batches.AT_ONCE", 3 * 36 * 36)  # 3, 3, 3 and 1 of them
    for part, all_at_once in zip(numbers(), whole, strict=True):
        torch.testing.assert_close(part, all_at_once, rtol=1e-4, atol=1e-4 * float(all_at_once.abs().max()))


# --------------------------------------------------------------------------------------------------- a module's manners


def same(one, other):
    """Two states, to the last bit."""
    assert one.keys() == other.keys()
    for key in one:
        assert one[key].dtype == other[key].dtype
        assert torch.equal(one[key], other[key])


def through_a_file(bonus, **how):
    """With tensors only, moved one by one as accelerate does (its #1246)."""
    file = io.BytesIO()
    torch.save({name: tensor.cpu() for name, tensor in bonus.state_dict().items()}, file)
    file.seek(0)
    fresh = seen(seed=99)
    fresh.load_state_dict(torch.load(file, weights_only=True), **how)
    return fresh


@pytest.mark.parametrize(
    "again",
    [
        through_a_file,
        partial(through_a_file, assign=True),  # which replaces the weights behind the optimiser (PyTorch #102212)
        lambda bonus: through_a_file(bonus, assign=True).to("cpu"),
        copy.deepcopy,
        lambda bonus: pickle.loads(pickle.dumps(bonus)),
    ],
)
def test_goes_on_from_a_state_to_the_last_bit(again):
    bonus = seen()
    bonus.update(X, epochs=3, minibatch_size=2)
    other, stranger = again(bonus), seen()
    assert np.array_equal(bonus(X), other(X))
    for one in (bonus, other, stranger):
        one.observe(X_TEST)
        one.update(X_TEST, epochs=3, minibatch_size=2)
    same(bonus.state_dict(), other.state_dict())
    assert not np.array_equal(stranger(X), other(X))
    bonus.update(X)
    assert not np.array_equal(bonus(X), other(X))  # they are two


def test_the_optimiser_moves_along():
    bonus = seen()
    assert [seen(learning_rate=rate).optimizer.defaults["lr"] for rate in (None, 0.5)] == [1e-3, 0.5]
    bonus.update(X)
    assert bonus.normaliser is not None
    statistics = bonus.normaliser.mean.clone()
    bonus.double()
    assert bonus.normaliser.mean.equal(statistics)
    assert bonus(X).dtype == np.float64
    bonus.update(X)
    assert {state["exp_avg"].dtype for state in bonus.optimizer.state.values()} == {torch.float64}
    bonus.to("meta")
    assert {state["exp_avg"].device.type for state in bonus.optimizer.state.values()} == {"meta"}


def test_weights_that_take_the_place_of_others_are_trained():
    """Although the optimiser was made for those."""
    bonus = seen()
    bonus.predictor.load_state_dict(seen(seed=1).predictor.state_dict(), assign=True)
    first, last = (bonus.update(X, epochs=20) for _ in range(2))
    assert last < 0.95 * first


def test_only_the_end_of_update_waits_for_the_device():
    """On the device "meta" a wait is an error, as no number is ever there."""
    bonus, rows = seen(optimizer=torch.optim.Adam).to("meta"), torch.empty(5, 3, device="meta")
    bonus.observe(rows)
    assert bonus(rows).shape == (5,)
    bonus.errors(rows).sum().backward()
    before = copy.deepcopy(bonus.optimizer.state)
    with pytest.raises(RuntimeError, match="meta tensors"):
        bonus.update(rows, epochs=3, minibatch_size=2)
    assert not before
    assert bonus.optimizer.state


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_and_back():
    here, there = (seen() for _ in range(2))
    here.update(X, minibatch_size=2)
    there.to("cuda").update(X, minibatch_size=2)
    there.load_state_dict(here.state_dict())
    here.update(X, epochs=3, minibatch_size=2)
    there.update(X, epochs=3, minibatch_size=2)
    assert there(torch.tensor(X)).device.type == "cuda"
    np.testing.assert_allclose(there.cpu()(X), here(X), rtol=1e-3)
    there.to("cuda")(torch.full((1, 3), torch.nan, device="cuda"))
    with pytest.raises(DivergenceError):
        there.update(X)


def test_predictor_and_target_are_draws_of_the_seed_alone():
    state = torch.random.get_rng_state()
    options: dict[str, Any] = {"network": build, "normalise": False}
    bonus, again, other = (RNDBonus((1, 6, 6), 4, 2, seed=seed, **options) for seed in (0, 0, 1))
    seen().update(X, minibatch_size=2)
    assert torch.random.get_rng_state().equal(state)
    same(bonus.state_dict(), again.state_dict())
    # No two of the four networks, and of the two seeds, have a tensor in common.
    networks = (part for one in (bonus, other) for part in (one.predictor, one.target))
    weights = [w for part in networks for w in part.parameters()]
    assert len({float(w.detach().flatten()[0]) for w in weights}) == len(weights) == 32
    as_module = RNDBonus((1, 6, 6), 4, 2, network=Module(build), normalise=False)
    assert np.array_equal(bonus(images(3)), as_module(images(3)))


def test_networks_stay_in_the_modes_that_were_examined():
    """An agent that holds a bonus switches modes for networks of its own."""

    def network(outputs: int = 8) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 64), nn.BatchNorm1d(64), nn.Dropout(), nn.ReLU(), nn.Linear(64, outputs))

    with pytest.warns(MismatchWarning, match="predictor's outputs differ from call to call"):
        random = ModuleBonus(3, network(), network(), normalise=False)
    bonus = RNDBonus(3, network=lambda outputs: network(outputs).eval())
    bonus.observe(X)
    agent, before = nn.ModuleList([bonus, random]), copy.deepcopy(bonus.state_dict())
    for mode in (True, False):
        agent.train(mode)
        for one in (bonus, copy.deepcopy(bonus), pickle.loads(pickle.dumps(bonus))):
            assert one.training is mode
            assert np.array_equal(one.share(X), np.ones(5))
        assert not any(module.training for module in bonus.predictor[0].modules())  # pyright: ignore[reportIndexIssue]
        assert not random.target.training
        assert random.predictor.training
    same(bonus.state_dict(), before)


@pytest.mark.filterwarnings("default")  # of what torch.compile imports
@pytest.mark.usefixtures("as_a_user")  # as the checks of annotations are no part of a graph
@pytest.mark.parametrize("network", [None, nature_cnn(PIXELS)], ids=["MLP", "nature"])
def test_networks_compile_as_one_graph_and_give_the_same_numbers(network):
    """With the graph, but without the code: C++ would take half a minute to compile."""
    bonus, obs = RNDBonus(PIXELS, 4, network=network, learning_rate=1e-4), frames(4, PIXELS)
    bonus.observe(obs)
    plain, state = bonus(obs), copy.deepcopy(bonus.state_dict())
    try:
        for module in (bonus.predictor, bonus.target):
            module.compile(backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(bonus(obs), plain)
        bonus.update(obs, epochs=3)
        assert bonus(obs).mean() < plain.mean()
        bonus.load_state_dict(state)  # whose names are those of before
        torch.testing.assert_close(torch.compile(bonus, backend="aot_eager")(obs), plain)
    finally:
        torch.compiler.reset()


def test_torchrl_has_twice_the_number_and_loses_the_ranks_by_its_clip():
    """What docs/how_to/novelty.md says of it, on frames whose left halves were black before, as in another room.

    Its statistics are in float32, and start from a count of 1e-4 beside the 64 frames.
    """
    transforms = pytest.importorskip("torchrl.envs.transforms")
    tensordict = pytest.importorskip("tensordict")
    known, new = (frames(128, PIXELS) // 4).chunk(2)
    known[..., :18], new[..., :18] = 0, 128
    bonus = RNDBonus(PIXELS, 4, network=nature_cnn(PIXELS))
    bonus.observe(known)

    def rewards(**options: Any) -> Tensor:
        pair = (nn.Sequential(nn.Unflatten(-1, PIXELS), copy.deepcopy(n)) for n in (bonus.target, bonus.predictor))
        transform = transforms.RNDTransform(*pair, **options)
        for obs in (known, new):
            step = tensordict.TensorDict({"observation": obs.flatten(1)}, [len(obs)])
            transform._step(None, step)
            transform.eval()
        return step["intrinsic_reward"][:, 0]

    torch.testing.assert_close(rewards(normalize_reward=False) / 2, bonus(new), rtol=1e-3, atol=0)
    assert (rewards() == 5).all()
    assert len(bonus(new).unique()) == 64


@pytest.mark.filterwarnings("ignore")  # of TorchRL
def test_torchrl_collects_as_its_page_says():
    pytest.importorskip("torchrl")
    page = (Path(__file__).parent.parent / "docs" / "how_to" / "explore.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall("```python\n(.*?)```", page, re.DOTALL) if "torchrl" in block)
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["data"]["next", "reward"].shape == (2, 64, 1)
    assert (found["data"]["next", "reward"] > -1).all()  # which is MountainCar's own
    assert (found["bonus"].share(found["data"]["next", "observation"]) != 1).all()
    assert found["bonus"].normaliser.count == 256


def test_an_optimiser_may_have_weights_of_others():
    bonus, encoder = seen(), nn.Linear(3, 3)
    bonus.optimizer.add_param_group({"params": list(encoder.parameters())})
    bonus.update(X)
    bonus.to(torch.float64)
    held = [p for group in bonus.optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in (*bonus.predictor.parameters(), *encoder.parameters())}
    assert bonus.update(X) < np.inf


@pytest.mark.parametrize("kind", ["autocast", "bfloat16"])
def test_half_precision_costs_its_rounding_alone(kind):
    """Outputs of order one have errors of 2^-9, and the mean of their squares some hundredths.

    What is computed of the outputs is in 32 bits. Training goes on, where autocast would keep weights that it has cast.
    """
    bonus, exact = seen(), seen()
    if kind == "bfloat16":
        bonus.to(torch.bfloat16)
    outputs: list[Tensor] = []
    bonus.predictor.register_forward_hook(lambda *args: outputs.append(args[-1]))
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        novelty = bonus(X)
        losses = [bonus.update(X, epochs=20) for _ in range(3)]
    assert {a.dtype for a in outputs} == {torch.bfloat16}
    assert novelty.dtype == np.float32
    np.testing.assert_allclose(novelty, exact(X), rtol=0.05)
    assert not np.allclose(novelty, exact(X), rtol=1e-6)
    assert losses[2] < 0.7 * losses[0]
    assert bonus.normaliser is not None
    assert bonus.normaliser.mean.dtype == torch.float64


@pytest.mark.parametrize("normalise", [True, False])
def test_inference_mode_changes_nothing(normalise):
    """In which an agent acts: `update` leaves it for its gradients."""
    bonus, plain = (seen(normalise=normalise) for _ in range(2))
    with torch.inference_mode():
        obs = torch.tensor(X_TEST, dtype=torch.float32)
        found = [bonus.step(obs, minibatch_size=3), bonus(obs), bonus.share(obs)]
    obs = torch.tensor(X_TEST, dtype=torch.float32)
    for one, other in zip(found, [plain.step(obs, minibatch_size=3), plain(obs), plain.share(obs)], strict=True):
        assert torch.equal(one, other)
    same(bonus.state_dict(), plain.state_dict())
    assert (found[2] != 1).all()
    bonus.update(obs)


# ------------------------------------------------------------------------------------------------- in an agent's loop


def test_by_default_it_learns_as_much_as_linear_layers():
    """Unlike weights of N(0, 1) with the factors outside, which Adam hardly moves, as it was (issue 49)."""
    obs = np.random.default_rng(0).normal(size=(512, 8))
    bonus, slow = RNDBonus(8), RNDBonus(8)
    for group in slow.optimizer.param_groups:
        group["lr"] *= 1.5 / sqrt(512)  # a factor of Eq. 1
    for one in (bonus, slow):
        one.observe(obs)
        one.update(obs, epochs=40, minibatch_size=128)
    assert bonus.share(obs).mean() < 0.05
    assert slow.share(obs).mean() > 0.1  # which the check above does not let pass


def test_the_bonus_falls_with_visits():
    """Rank correlation of visits with what is left, of states that come at rates of 1 to 1/48 for 40 rollouts.

    Without a relation it is 0 with variance 1 / 47: four standard deviations, within which shuffled visits are.
    """
    rng, obs, visits = np.random.default_rng(0), sqrt(48) * np.eye(48), np.zeros(48)
    bonus = RNDBonus(48, 16, network=MLP(48, width=128), normalise=False, learning_rate=3e-3)
    rates = 1 / np.arange(1, 49)
    for _ in range(40):
        came_to = rng.choice(48, 32, p=rates / rates.sum())
        np.add.at(visits, came_to, 1)
        bonus.update(obs[came_to], epochs=4, minibatch_size=16)
    left, margin = bonus.share(obs), 4 / sqrt(47)
    fall, none = (float(stats.spearmanr(of, left)[0]) for of in (visits, rng.permutation(visits)))  # pyright: ignore[reportArgumentType]
    assert fall < -margin
    assert abs(none) < margin


def test_the_share_is_what_is_left_of_the_novelty_at_the_start():
    bonus = seen(dtype=torch.float64)
    start = bonus(X_TEST)
    assert np.array_equal(bonus.share(X_TEST), np.ones(7))
    for _ in range(2):
        bonus.update(X, epochs=20)
        np.testing.assert_allclose(bonus.share(X_TEST), bonus(X_TEST) / start, rtol=1e-12)
    assert np.abs(bonus.share(X_TEST) - 1).min() > 1e-3
    np.testing.assert_array_equal(through_a_file(bonus.float()).share(X_TEST), bonus.share(X_TEST))


@pytest.mark.parametrize("gamma", [None, 0.5])
def test_a_step_observes_then_reads_then_learns(gamma):
    """It rewards the observations that follow. Leading dimensions are those of the bonus."""
    rollout, ends = RNG.normal(size=(5, 2, 3)), np.array([[0, 0], [0, 1], [0, 0], [1, 0]])
    before, after, how = rollout[:-1], rollout[1:], {"epochs": 2, "minibatch_size": 3}
    start, rows, flat = before.reshape(8, 3), after.reshape(8, 3), ends.reshape(8)

    def calls(*names: str) -> tuple[np.ndarray, dict]:
        bonus = seen(gamma=gamma)
        transitions = (rows,) if gamma is None else (start, rows, flat)
        each = {"observe": bonus.observe, "read": bonus, "learn": lambda _: bonus.update(*transitions, **how)}
        found = {name: each[name](rows) for name in names}
        return found["read"].reshape(4, 2), bonus.state_dict()

    bonus = seen(gamma=gamma)
    novelty = bonus.step(after, *(() if gamma is None else (before, ends)), **how)
    expected, wanted = calls("observe", "read", "learn")
    assert np.array_equal(novelty, expected)
    same(bonus.state_dict(), wanted)
    for wrong in (("observe", "learn", "read"), ("read", "observe", "learn"), ("read", "learn")):
        assert not np.array_equal(calls(*wrong)[0], novelty)
    assert bonus.errors(rollout).shape == (5, 2, 4)
    assert seen(normalise=False, gamma=gamma).share(rollout).shape == (5, 2)


def test_spaces_and_dictionaries():
    """Entries come in the order of `keys`, whatever that of the dictionary."""
    space = gym.spaces.Dict({"image": gym.spaces.Box(0, 255, (2, 2), np.uint8), "way": gym.spaces.Discrete(4)})
    image, way = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), np.ones((2, 3), int)
    obs = {"way": way, "image": image, "mission": "fly"}
    joined = np.concatenate([image.reshape(2, 3, 4), way[..., None]], -1)
    plain, again, read = (RNDBonus(s, 4) for s in (5, 5, space))
    turned = RNDBonus({"image": (2, 2), "way": ()}, 4, keys=["way", "image"])
    assert np.array_equal(read.step(obs), plain.step(joined))

    taken = []

    class Counted(dict):
        def __getitem__(self, key):
            taken.append(key)
            return super().__getitem__(key)

    RNDBonus(space, 4).step(Counted(obs))
    assert sorted(taken) == ["image", "image", "way"]  # each is read once, and one is asked for its kind
    assert np.array_equal(turned.step(obs), again.step(np.roll(joined, 1, -1)))
    of_box = RNDBonus(space["image"], 4)
    one = RNDBonus(space, 4, keys="image")
    assert np.array_equal(one.step(obs), of_box.step(image))
    entries = {"image": torch.tensor(image), "way": torch.tensor(way)}
    assert torch.is_tensor(read(entries))
    tensordict = pytest.importorskip("tensordict")
    assert read(tensordict.TensorDict(entries, [2, 3])).equal(read(entries))
    with pytest.raises(ValueError, match=r"obs is dict: give a dictionary with ..image., .way..*KeyError"):
        read({"image": image})
    with pytest.raises(ValueError, match=r"entries of obs have leading dimensions \[\(2, 3\), \(2,\)\]"):
        read({"image": image, "way": way[:, 0]})
    with pytest.raises(ValueError, match="keys = 'pixels': give names that obs_shape has a shape for"):
        RNDBonus(space, keys="pixels")
    with pytest.raises(ValueError, match="give observations of one axis or more"):
        RNDBonus(gym.spaces.Discrete(4))


def test_the_gradient_of_a_step_is_cut_to_a_norm():
    def moved(**options: Any) -> tuple[float, Tensor]:
        bonus = RNDBonus(3, 4, network=lambda k: nn.Linear(3, k), normalise=False, optimizer=sgd(1.0), **options)
        before = nn.utils.parameters_to_vector(bonus.predictor.parameters()).detach()
        bonus.update(X)
        change = nn.utils.parameters_to_vector(bonus.predictor.parameters()).detach() - before
        return float(change.norm()), change / change.norm()

    (free, way), (cut, same_way), (loose, _) = moved(), moved(max_grad_norm=1e-2), moved(max_grad_norm=1e3)
    assert cut == pytest.approx(1e-2, rel=1e-4)
    assert loose == pytest.approx(free) != pytest.approx(cut)
    torch.testing.assert_close(way, same_way, rtol=1e-3, atol=1e-4)
    assert seen(optimizer=sgd(0.1)).meaning.verdict == "ensemble variance"
    meaning = seen(optimizer=sgd(0.1), max_grad_norm=0.1).meaning
    assert (meaning.verdict, meaning.factor) == ("biased", 1.0)
    assert "cutting gradients depends on the error" in str(meaning)


def test_a_bonus_that_is_read_and_never_trained_warns_once(monkeypatch):
    monkeypatch.setattr("rndlib.torch.distillation._READS", 3)
    bonus, trained = seen(), seen()
    trained.update(X)
    for _ in range(5):
        trained(X)
    for _ in range(2):
        bonus(X)
    with pytest.warns(UserWarning, match="read 3 times and never trained: call update or step"):
        bonus(X)
    bonus(X)


def test_that_warning_names_the_line_that_reads():
    """In a process of its own, without the calls of the checks of annotations."""
    loop = "distillation._READS = 1; RNDBonus(2, normalise=False)([[0, 0]])"
    code = f"from rndlib.torch import RNDBonus, distillation; {loop}"
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], capture_output=True, text=True
    )
    assert run.stderr.startswith("<string>:1: UserWarning: the bonus was read 1 times")


def rank(number: int, store: str, results: Any) -> None:
    """What docs/how_to/torch.md says of several processes."""
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    mine, everyone = torch.tensor(X[number::2][:2]), [torch.empty(2, 3, dtype=torch.float64) for _ in range(2)]
    dist.all_gather(everyone, mine)
    bonus = RNDBonus(3, **SMALL)
    bonus.step(torch.cat(everyone), epochs=3, minibatch_size=2)
    results[number] = {name: tensor.numpy() for name, tensor in bonus.state_dict().items()}
    dist.destroy_process_group()


@pytest.mark.check
def test_two_processes_give_what_one_gives(tmp_path):
    """minimind #853: no drift between ranks, and no target of their own."""
    with torch.multiprocessing.get_context("spawn").Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(rank, (str(tmp_path / "store"), results), nprocs=2)
        one, two = ({name: torch.tensor(a) for name, a in results[number].items()} for number in range(2))
    alone = RNDBonus(3, **SMALL)
    alone.step(np.concatenate([X[::2][:2], X[1::2][:2]]), epochs=3, minibatch_size=2)
    same(one, two)
    for name, tensor in alone.state_dict().items():
        assert name == "_extra_state" or torch.allclose(tensor, one[name], rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("obs", "says"),
    [
        (X[0], r"obs has shape \(3,\): give \(batch, 3\), with at least one row; obs\[None\] may be meant, or"),
        (X[:, :2], r"obs has shape \(5, 2\)"),
        (X[:0], r"obs has shape \(0, 3\)"),
        (3.0, r"obs has shape \(\)"),
        (np.full((1, 3), np.inf), r"obs has a NaN or infinity, first at \[0, 0\]: remove or impute it"),
        (["a"], "obs is list: give a tensor or an array of numbers"),
        (np.array([None]), "obs is ndarray: give a tensor or an array of numbers"),
        (np.ones((2, 3), dtype=complex), "obs is complex: give real numbers"),
    ],
)
def test_malformed_observations(obs, says):
    bonus = seen()
    before = copy.deepcopy(bonus.state_dict())
    for method in (bonus, bonus.errors, bonus.update, bonus.observe):
        with pytest.raises(ValueError, match=says):
            method(obs)
    same(bonus.state_dict(), before)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"obs_shape": 0}, "obs_shape = 0"),
        ({"obs_shape": "ab"}, "obs_shape = 'a'"),
        ({"obs_shape": None}, "obs_shape = None"),
        ({"heads": 0}, "heads = 0"),
        ({"bodies": 1.5}, "bodies = 1.5"),
        ({"seed": -1}, "seed = -1"),
        ({"learning_rate": 0}, "learning_rate = 0"),
        ({"max_grad_norm": 0}, "max_grad_norm = 0"),
        ({"gamma": -1}, "gamma = -1"),
        ({"dtype": torch.int64}, "dtype = torch.int64: give a floating-point type"),
        ({"dtype": "float32"}, "dtype = 'float32'"),
        ({"optimizer": torch.optim.Adam([torch.ones(1)])}, "optimizer = Adam .*: give a function from parameters"),
        ({"optimizer": lambda parameters: None}, "optimizer = <function"),
        ({"optimizer": lambda: None}, "optimizer fails .*0 positional arguments.*: give a function from parameters"),
        (
            {"optimizer": torch.optim.SGD, "learning_rate": 0.5},
            r"learning_rate = 0.5 is for Adam alone: give the rate to the optimizer, as partial\(SGD, lr=0.5\)",
        ),
        ({"optimizer": sgd(-1.0)}, "optimizer fails .*Invalid learning rate: -1"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer = .*LBFGS.*whose steps take a gradient alone"),
        ({"obs_shape": gym.spaces.Tuple([gym.spaces.Discrete(2)])}, "obs_shape = Tuple.*: flatten it to one array"),
        (
            {"obs_shape": gym.spaces.Dict(x=gym.spaces.Box(0, 1), words=gym.spaces.Text(3))},
            "obs_shape of 'words' = Text.*leave it out by keys=",
        ),
        ({"network": 3}, "network = 3: give a function"),
        ({"network": build(4)}, r"network = Sequential\(.*give a function from a number of outputs to a new"),
        ({"network": MLP(3)}, "network has in_dim = 3, and observations 36 numbers: give in_dim=36"),
        ({"network": lambda k: nn.Conv2d(2, k, 3)}, r"cannot serve: the modules fail on observations \(16, 1, 6, 6\)"),
        ({"network": lambda outputs: "no"}, "build.4. = 'no': return an nn.Module"),
        (
            {"network": lambda k: nn.Sequential(nn.BatchNorm2d(1), build(k))},
            "BatchNorm2d in training mode.*use GroupNorm or LayerNorm, or call .eval",
        ),
        ({"network": lambda outputs: nn.Sequential(build(outputs), nn.Tanh())}, "not affine in a last layer"),
        ({"network": lambda outputs: nn.Sequential(nn.Flatten(), nn.LazyLinear(outputs))}, "lazy layers"),
        ({"network": lambda outputs: nn.Linear(6, outputs)}, r"return \(16, 1, 6, 4\) and .*not both \(n, outputs\)"),
        ({"network": lambda: build(1)}, r"build\(4\) fails .*0 positional arguments"),
    ],
)
def test_arguments_out_of_range_are_refused_before_training(options, says):
    state = torch.random.get_rng_state()
    with pytest.raises(ValueError, match=f"(?s){says}"):
        RNDBonus(**({"obs_shape": (1, 6, 6), "heads": 4, "network": build} | options))
    assert torch.random.get_rng_state().equal(state)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((84, 84), r"obs_shape = \(84, 84\): give \(channels, height, width\)"),
        ((84, 84, 4), r"obs_shape = \(84, 84, 4\): give images of 36 by 36 pixels at least, channels first"),
        ((1, 36, 35), "36 by 36 pixels at least"),
    ],
)
def test_images_that_nature_cnn_does_not_take(shape, says):
    with pytest.raises(ValueError, match=says):
        nature_cnn(shape)


@pytest.mark.parametrize(
    ("gamma", "arguments", "says"),
    [
        (None, (X, X), "gamma = None: give gamma to use next_obs and terminated"),
        (0.5, (X,), "next_obs = None with gamma = 0.5: give what follows obs"),
        (0.5, (X, X[:2]), r"next_obs has leading dimensions \(2,\), obs \(5,\)"),
        (0.5, (X, X, np.zeros((5, 1))), r"terminated has shape \(5, 1\): give \(5,\)"),
        (0.5, (X, X, np.full(5, 0.5)), "terminated has other entries than 0 and 1: give booleans"),
        (0.5, (X, X, torch.full((5,), torch.nan)), "terminated has other entries than 0 and 1"),
    ],
)
def test_transitions_that_cannot_be_trained_on(gamma, arguments, says):
    with pytest.raises(ValueError, match=says):
        seen(gamma=gamma).update(*arguments)


def test_calls_that_cannot_be_answered():
    bonus = RNDBonus(3, **SMALL)
    for method in (bonus, bonus.update, bonus.errors):
        with pytest.raises(NotFittedError, match=r"call observe\(obs\) first"):
            method(X)
    for wrong, says in (({"epochs": 0}, "epochs = 0"), ({"minibatch_size": 0}, "minibatch_size = 0")):
        with pytest.raises(ValueError, match=says):
            seen().update(X, **wrong)
    of_values = seen(gamma=0.5)
    state = copy.deepcopy(of_values.state_dict())
    with pytest.raises(ValueError, match=r"obs = None with gamma = 0\.5: give step\(next_obs, obs\)"):
        of_values.step(X)
    same(of_values.state_dict(), state)
    batched = RNDBonus(gym.vector.utils.batch_space(gym.spaces.Box(-1, 1, (3,)), 5))
    with pytest.raises(ValueError, match=r"give \(batch, 5, 3\).* obs_shape=envs\.single_observation_space"):
        batched.observe(X)
    with pytest.raises(ValueError, match="normalise = False: this bonus keeps no statistics"):
        RNDBonus(3, **SMALL, normalise=False).observe(X)
    diverged = seen(optimizer=sgd(1e3))
    with pytest.raises(DivergenceError, match="smaller learning rate"):
        diverged.update(X, epochs=100)
    for method in (diverged, diverged.share):
        with pytest.raises(DivergenceError, match="not finite"):
            method(X)
    with pytest.warns(HeadsWarning, match="64 heads on a network of width 64"):
        RNDBonus(3, 64, network=MLP(3, width=64))


@pytest.mark.usefixtures("as_a_user")
def test_modules_that_cannot_serve():
    linear = nn.Linear(3, 4)
    with pytest.raises(ValueError, match="target has weights of the predictor that train"):
        ModuleBonus(3, linear, linear)
    with pytest.raises(ValueError, match="predictor has no weights that require gradients"):
        ModuleBonus(3, nn.Linear(3, 4).requires_grad_(False), linear)
    with pytest.raises(ValueError, match="target has weights of another type or device than predictor: move one"):
        ModuleBonus(3, linear, nn.Linear(3, 4, dtype=torch.float64))
    narrow = ModuleBonus(3, nn.Linear(3, 4), nn.Linear(3, 4), normalise=False)
    dropped = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 4))  # held in eval mode
    assert ModuleBonus(3, nn.Sequential(nn.Linear(3, 8), nn.Identity(), nn.Linear(8, 4)), dropped).meaning.factor == 1
    narrow.target = nn.Linear(3, 1)  # which would broadcast
    with pytest.raises(ValueError, match=r"return \(5, 4\) and \(5, 1\) for 5 observations"):
        narrow(X)
