"""RNDBonus: the numbers of the RND estimator, and the manners of a PyTorch module."""

import copy
import io
import pickle
import warnings
from math import sqrt
from typing import Any

import jaxtyping
import numpy as np
import pytest

from rndlib import MLP, RND, DivergenceError, GradientDescent, GradientFlow, HeadsWarning, kernels, laws
from rndlib.estimators import NotFittedError

torch = pytest.importorskip("torch")

from rndlib.torch import NTKMLP, MismatchWarning, ModuleBonus, RNDBonus, RunningNormaliser  # noqa: E402
from rndlib.training.weights import Role  # noqa: E402

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(5, 3)), RNG.normal(size=(7, 3))
SMALL: dict[str, Any] = {"heads": 4, "width": 32}


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, rate)


def seen(**options: Any) -> RNDBonus:
    """A small bonus that has seen X."""
    bonus = RNDBonus(3, **(SMALL | options))
    if bonus.normaliser is not None:
        bonus.observe(X)
    return bonus


# ---------------------------------------------------------------------------------------- the estimator, step for step


@pytest.mark.parametrize(("heads", "bodies", "depth", "activation"), [(4, 1, 2, "silu"), (3, 2, 3, "erf")])
def test_is_the_estimator_after_the_same_descent(heads, bodies, depth, activation):
    """The mean over points and outputs of half a square is 1 / (N K) of the paper's loss, and so is the gradient.

    A hundred steps of rounding 1e-16, at numbers of order one: 1e-12 is a hundred times that.
    """
    net, steps, rate = MLP(3, 32, depth, activation), 100, 0.01
    model = RND(net, heads, bodies, seed=5, backend="torch", solver=GradientDescent(rate, steps)).fit(X)
    options: dict[str, Any] = {
        "width": 32,
        "depth": depth,
        "activation": activation,
        "dtype": torch.float64,
        "normalise": False,
    }
    bonus = RNDBonus(3, heads, bodies, seed=5, optimizer=sgd(rate * 5 * heads * bodies), **options)
    untrained = bonus(X_TEST).numpy()
    bonus.update(X, epochs=steps)
    np.testing.assert_allclose(bonus(X_TEST).numpy(), model.variance(X_TEST), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bonus.errors(X_TEST).detach().numpy().T, model.errors(X_TEST), rtol=1e-12, atol=1e-12)
    assert np.abs(untrained / model.variance(X_TEST) - 1).max() > 0.1
    other = RNDBonus(3, heads, bodies, seed=6, optimizer=sgd(rate * 5 * heads * bodies), **options)
    other.update(X, epochs=steps)
    assert np.abs(other(X_TEST).numpy() / model.variance(X_TEST) - 1).max() > 0.1


def test_converges_to_the_estimator():
    """Descent and flow part by the step's first order. Half the step halves that: the change is as much as is left.

    Two steps so small that the second order does not count, to a residual of 1e-4; twice the change then bounds the
    rest, beside the flow's own rtol.
    """
    net, points = MLP(3, width=256), np.eye(3)
    flow = GradientFlow(rtol=1e-4)
    model = RND(net, 8, seed=1, backend="torch", solver=flow).fit(points)
    values = np.linalg.eigvalsh(kernels.kernel(net, points).ntk)

    def trained(step):
        rate = step / values[-1]
        options: dict[str, Any] = {"width": 256, "seed": 1, "dtype": torch.float64, "normalise": False}
        bonus = RNDBonus(3, 8, **options, optimizer=sgd(rate * 3 * 8))
        bonus.update(points, epochs=int(np.log(1e4) / (rate * values[0])))
        assert bonus(points).max() < 1e-6
        return bonus.errors(X_TEST).detach().numpy().T

    coarse, fine, expected = trained(0.2), trained(0.1), model.errors(X_TEST)
    left = np.linalg.norm(fine - expected)
    assert left < 2 * np.linalg.norm(fine - coarse) + (flow.rtol + 1e-3) * np.linalg.norm(expected)
    assert left < 0.01 * np.linalg.norm(expected)


def test_an_untrained_bonus_has_the_law_of_an_ensemble_before_training():
    """300 seeds of one head: the mean square over kappa is 1 within four times sqrt(2 / 300), at every point."""
    values = [RNDBonus(3, 1, width=512, seed=seed, normalise=False)(X_TEST).numpy() for seed in range(300)]
    expected = laws.ensemble(MLP(3), X, np.zeros(5), X_TEST, time=0.0).var
    ratio = np.mean(values, axis=0) / expected
    margin = 4 * sqrt(2 / 300)
    assert np.abs(ratio - 1).max() < margin
    assert np.abs(2 * ratio - 1).min() > margin  # not the mean squared error itself


def test_float32_only_rounds():
    double, single = (seen(dtype=dtype) for dtype in (torch.float64, None))
    assert single(X_TEST).dtype == torch.float32
    # Sums of 32 terms of rounding 2^-24; a hundred of them are a generous bound.
    np.testing.assert_allclose(single(X_TEST), double(X_TEST), rtol=100 * 2**-24 * 10)


# ------------------------------------------------------------------------------------------------ what changes what


def test_forward_and_loss_change_nothing_and_only_the_predictor_gets_gradients():
    bonus = seen()
    before = copy.deepcopy(bonus.state_dict())
    novelty, loss = bonus(X_TEST), bonus.loss(X_TEST)
    assert not novelty.requires_grad
    torch.testing.assert_close(loss, novelty.mean())
    assert bonus(X_TEST).equal(novelty)
    assert bonus.eval()(X_TEST).equal(novelty)
    assert bonus.train()(X_TEST).equal(novelty)
    same(bonus.state_dict(), before)
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in bonus.predictor.parameters())
    assert all(p.grad is None and not p.requires_grad for p in bonus.target.parameters())
    target = copy.deepcopy(bonus.target.state_dict())
    with torch.no_grad():
        bonus.update(X)
    same(bonus.target.state_dict(), target)
    assert not bonus(X_TEST).equal(novelty)


def test_errors_have_a_gradient_to_the_observations():
    bonus = seen(dtype=torch.float64)
    at = torch.tensor(X_TEST, requires_grad=True)
    assert torch.autograd.gradcheck(bonus.errors, at)


def test_an_agents_own_optimiser_trains_on_the_loss_as_update_does():
    own, lent = seen(optimizer=sgd(0.1)), seen()
    agent = torch.optim.SGD(lent.predictor.parameters(), 0.1)
    for _ in range(3):
        own.update(X)
        agent.zero_grad()
        lent.loss(X).backward()
        agent.step()
    assert own(X_TEST).equal(lent(X_TEST))


def test_update_returns_the_novelty_before_it_and_lowers_it():
    bonus = seen(learning_rate=0.01)
    before = float(bonus(X).mean())
    assert bonus.update(X) == pytest.approx(before, rel=1e-5)
    bonus.update(X, epochs=300)
    assert bonus(X).mean() < 0.01 * before


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


def test_the_share_that_counts_is_the_proportion_and_its_draws_are_the_seeds():
    """4000 draws of probability 0.25, four standard deviations: 110."""
    rows = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0))

    def counted(**options: Any):
        bonus = RNDBonus(3, 1, width=4, normalise=False, optimizer=sgd(1e-9), **options)
        taken = []
        bonus.predictor.register_forward_hook(lambda _, inputs, __: taken.append(inputs[0]))
        bonus.loss(rows)
        bonus.update(rows)
        return taken

    one, two = counted(update_proportion=0.25)
    for taken in (one, two):
        assert abs(len(taken) - 1000) < 4 * sqrt(4000 * 0.25 * 0.75)
    assert one.shape != two.shape or not one.equal(two)
    assert all(map(torch.equal, (one, two), counted(update_proportion=0.25)))
    assert len(counted(update_proportion=0.25, seed=1)[0]) != len(one)
    assert len(counted()[0]) == 4000


def test_where_nothing_counts_there_is_no_step_and_no_nan():
    bonus = seen(update_proportion=1e-9)
    before = copy.deepcopy(bonus.predictor.state_dict())
    loss = bonus.loss(X)
    loss.backward()
    assert loss == 0
    assert all(p.grad is not None and not p.grad.any() for p in bonus.predictor.parameters())
    assert bonus.update(X) == 0
    same(bonus.predictor.state_dict(), before)


# ------------------------------------------------------------------------------------------------------ normalisation


def test_statistics_are_those_of_all_rows_at_once_and_stay_float64():
    """Means of 1e6, a spread of 1, batches of any size: sums of squares, 1e12 with rounding 1e-16, would lose 1e-4."""
    rows = np.random.default_rng(1).normal(1e6, 1.0, (1000, 2, 2))
    normaliser = RunningNormaliser((2, 2)).float()
    for first, last in ((0, 1), (1, 4), (4, 500), (500, 1000)):
        normaliser.observe(torch.tensor(rows[first:last]))
    assert normaliser.count == 1000
    np.testing.assert_allclose(normaliser.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(normaliser.var, rows.var(0), rtol=1e-8)
    out = normaliser(torch.tensor(rows)).numpy()
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-8)
    np.testing.assert_allclose(out.std(0), 1, rtol=1e-8)
    kept = normaliser.mean.clone()
    assert normaliser.half().mean.dtype == torch.float64
    assert normaliser.mean.equal(kept)


def test_clips_at_five_at_once_where_an_entry_never_varied():
    """The mean of many equal numbers must be exact for that, though 0.1 is none in binary."""
    normaliser, constant = RunningNormaliser((3,)), torch.tensor([[0.1, 0.0, 0.0]], dtype=torch.float64)
    for size in (1, 3, 7, 11, 1000):
        rows = constant.repeat(2 * size, 1)
        rows[::2, 2], rows[1::2, 2] = -1, 1
        normaliser.observe(rows)
    rows = torch.tensor([[0.1, 0.0, 0.5], [0.1001, -1e-9, -100.0], [0.0999, 1e-9, 100.0]], dtype=torch.float64)
    expected = [[0.0, 0.0, 0.5], [5.0, -5.0, -5.0], [-5.0, 5.0, 5.0]]
    torch.testing.assert_close(normaliser(rows), torch.tensor(expected).double(), rtol=1e-12, atol=0)


def test_bytes_of_an_image_are_observations_too():
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 1), dtype=np.uint8)
    bonus = RNDBonus(images.shape[1:], **SMALL)
    bonus.observe(images)
    expected = (images - images.mean(0)) / images.std(0)
    plain = RNDBonus(16, **SMALL, normalise=False)
    np.testing.assert_allclose(bonus(images), plain(expected.reshape(6, 16)), rtol=1e-4)


def test_arrays_of_any_layout_and_lists_are_observations():
    bonus, turned = seen(), X[::-1]
    turned.flags.writeable = False
    expected = bonus(torch.tensor(X))
    assert bonus(turned).flip(0).equal(expected)
    assert bonus(X.tolist()).equal(expected)


# --------------------------------------------------------------------------------------------------- a module's manners


def same(one, other):
    """Two nested states, to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


def through_a_file(bonus):
    file = io.BytesIO()
    torch.save(bonus.state_dict(), file)
    file.seek(0)
    fresh = RNDBonus(3, **SMALL, seed=99, update_proportion=0.5)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return fresh


@pytest.mark.parametrize("again", [through_a_file, copy.deepcopy, lambda bonus: pickle.loads(pickle.dumps(bonus))])
def test_goes_on_from_a_state_to_the_last_bit(again):
    bonus = seen(update_proportion=0.5)
    bonus.update(X, epochs=3, minibatch_size=2)
    other = again(bonus)
    for one in (bonus, other):
        one.observe(X_TEST)
        one.update(X_TEST, epochs=3, minibatch_size=2)
    same(bonus.state_dict(), other.state_dict())
    assert bonus(X).equal(other(X))
    # And they are two.
    bonus.update(X)
    assert not bonus(X).equal(other(X))
    # A bonus that did not get the state does go on otherwise.
    stranger = seen(update_proportion=0.5)
    stranger.update(X_TEST, epochs=3, minibatch_size=2)
    assert not stranger(X).equal(other(X))


def test_the_optimiser_moves_along():
    bonus = seen()
    bonus.update(X)
    assert bonus.normaliser is not None
    statistics = bonus.normaliser.mean.clone()
    bonus.double()
    assert bonus.normaliser.mean.equal(statistics)
    assert bonus(X).dtype == torch.float64
    bonus.update(X)
    assert {state["exp_avg"].dtype for state in bonus.optimizer.state.values()} == {torch.float64}
    bonus.to("meta")
    assert {state["exp_avg"].device.type for state in bonus.optimizer.state.values()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_and_back():
    here, there = (seen(update_proportion=0.5) for _ in range(2))
    here.update(X, minibatch_size=2)
    there.to("cuda").update(X, minibatch_size=2)
    there.load_state_dict(here.state_dict())
    here.update(X, epochs=3, minibatch_size=2)
    there.update(X, epochs=3, minibatch_size=2)
    assert there(X).device.type == "cuda"
    np.testing.assert_allclose(there.cpu()(X), here(X), rtol=1e-3)
    there.update(X)


def test_pytorchs_generator_is_left_alone():
    state = torch.random.get_rng_state()
    seen(update_proportion=0.5).update(X, minibatch_size=2)
    assert torch.random.get_rng_state().equal(state)


def test_the_target_stays_in_eval_mode():
    def network():
        return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5))

    with pytest.warns(MismatchWarning, match="Dropout adds noise"):
        bonus = ModuleBonus(3, network(), network(), normalise=False)
    for mode in (True, False):
        bonus.train(mode)
        assert not bonus.target.training
        assert bonus.predictor.training is mode


# ------------------------------------------------------------------------------------------------------- what is wrong


@pytest.fixture
def _as_a_user():
    """Without the tests' own check of annotations, which would speak up first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("obs", "says"),
    [
        (X[0], r"obs has shape \(3,\): give \(batch, 3\), with at least one row; obs\[None\] may be meant"),
        (X[:, :2], r"obs has shape \(5, 2\)"),
        (X[:0], r"obs has shape \(0, 3\)"),
        (3.0, r"obs has shape \(\)"),
        (np.where(X > 1, np.nan, X), "obs has a NaN or infinity, first at"),
        (np.full((1, 3), np.inf), r"obs has a NaN or infinity, first at \[0, 0\]: remove or impute it"),
        (["a"], "obs is list: give a tensor or an array of numbers"),
        (np.array([None]), "obs is ndarray: give a tensor or an array of numbers"),
    ],
)
@pytest.mark.parametrize("method", ["__call__", "errors", "loss", "update", "observe"])
def test_malformed_observations(method, obs, says):
    bonus = seen()
    before = copy.deepcopy(bonus.state_dict())
    with pytest.raises(ValueError, match=says):
        getattr(bonus, method)(obs)
    same(bonus.state_dict(), before)


@pytest.mark.usefixtures("_as_a_user")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"obs_shape": 0}, "obs_shape = 0"),
        ({"obs_shape": (2, -1)}, "obs_shape = -1"),
        ({"obs_shape": "ab"}, "obs_shape = 'a'"),
        ({"obs_shape": None}, "obs_shape = None"),
        ({"heads": 0}, "heads = 0"),
        ({"bodies": 1.5}, "bodies = 1.5"),
        ({"width": 0}, "width = 0"),
        ({"activation": "swish"}, "activation = 'swish'"),
        ({"seed": -1}, "seed = -1"),
        ({"update_proportion": 0}, "update_proportion = 0"),
        ({"update_proportion": 1.01}, "update_proportion = 1.01: give a number above 0, and 1 at most"),
        ({"update_proportion": float("nan")}, "update_proportion = nan"),
        ({"learning_rate": 0}, "learning_rate = 0"),
        ({"dtype": torch.int64}, "dtype = torch.int64: give a floating-point type"),
        ({"dtype": "float32"}, "dtype = 'float32'"),
        ({"optimizer": torch.optim.Adam([torch.ones(1)])}, "optimizer = Adam .*: give a function from parameters"),
        ({"optimizer": lambda parameters: None}, "optimizer = <function"),
    ],
)
def test_arguments_out_of_range(options, says):
    with pytest.raises(ValueError, match=f"(?s){says}"):
        RNDBonus(**({"obs_shape": 3} | SMALL | options))


def test_arguments_of_update_out_of_range():
    with pytest.raises(ValueError, match="epochs = 0"):
        seen().update(X, epochs=0)
    with pytest.raises(ValueError, match="minibatch_size = 0"):
        seen().update(X, minibatch_size=0)


def test_nothing_is_normalised_by_nothing():
    for method in ("__call__", "loss", "update", "errors"):
        with pytest.raises(NotFittedError, match=r"call observe\(obs\) first"):
            getattr(RNDBonus(3, **SMALL), method)(X)
    with pytest.raises(ValueError, match="normalise = False: this bonus keeps no statistics"):
        RNDBonus(3, **SMALL, normalise=False).observe(X)


def test_divergence_is_an_error():
    bonus = seen(optimizer=sgd(1e3))
    with pytest.raises(DivergenceError, match="smaller learning rate"):
        bonus.update(X, epochs=1000)
    with pytest.raises(DivergenceError, match="not finite"):
        bonus(X)


def test_many_heads_on_a_narrow_body_warn():
    with pytest.warns(HeadsWarning, match="64 heads on a body of width 64"):
        RNDBonus(3, 64, width=64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RNDBonus(3)
        RNDBonus(3, 8, bodies=8, width=64)


@pytest.mark.usefixtures("_as_a_user")
def test_modules_that_cannot_serve():
    linear = torch.nn.Linear(3, 4)
    with pytest.raises(ValueError, match="target has weights of the predictor that train"):
        ModuleBonus(3, linear, linear)
    with pytest.raises(ValueError, match="predictor has no weights that require gradients"):
        ModuleBonus(3, torch.nn.Linear(3, 4).requires_grad_(False), linear)
    with pytest.raises(ValueError, match=r"weights of torch\.float32 on cpu and torch\.float64 on cpu: move one"):
        ModuleBonus(3, linear, torch.nn.Linear(3, 4, dtype=torch.float64))
    narrow = ModuleBonus(3, torch.nn.Linear(3, 4), torch.nn.Linear(3, 4), normalise=False)
    narrow.target = torch.nn.Linear(3, 1)  # which would broadcast
    with pytest.raises(ValueError, match=r"return \(5, 4\) and \(5, 1\) for 5 observations"):
        narrow(X)
    with pytest.raises(ValueError, match="net = 3"):
        NTKMLP(3, 1, Role.TARGET)  # pyright: ignore[reportArgumentType]
