"""What fails inside a user's network is a sentence: the line that fails, why, and what works."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from rndlib import RND, GradientFlow, StochasticGradient, kernels
from rndlib.jax import Function
from rndlib.torch import Module, RNDBonus
from rndlib.training.probes import probes as _around

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("as_a_user"),
    pytest.mark.filterwarnings("ignore::rndlib.HeadsWarning"),
]

RNG = np.random.default_rng(0)
X, SERIES, TOKENS = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 5, 3)), RNG.integers(0, 7, (6, 2))
MINIBATCHES = StochasticGradient(batch_size=3, epochs=2)


class Recurrent(nn.Module):
    """A GRU over (time, features)."""

    def __init__(self, outputs: int):
        super().__init__()
        self.over_time, self.out = nn.GRU(3, 8, batch_first=True), nn.Linear(8, outputs)

    def forward(self, x):
        states, _ = self.over_time(x)
        return self.out(states[:, -1])


class Branch(nn.Module):
    def __init__(self, outputs: int):
        super().__init__()
        self.first, self.out = nn.Linear(3, 8), nn.Linear(8, outputs)

    def forward(self, x):
        h = self.first(x)
        if h.abs().max() > 0:
            h = torch.tanh(h)
        return self.out(h)


class Mask(Branch):
    def forward(self, x):
        h = self.first(x)
        h[h < 0] = 0
        return self.out(h)


BY_POINTS = {
    "gru": (Recurrent, SERIES, "states, _ = self.over_time"),
    "if": (Branch, X, "if h.abs"),
    "mask": (Mask, X, "h.h < 0. = 0"),
}


@pytest.mark.parametrize("name", BY_POINTS)
def test_what_has_no_derivatives_point_by_point_trains_by_minibatches(name):
    build, points, line = BY_POINTS[name]
    net, refused = (
        Module(build),
        f"cannot be differentiated point by point at .*{line}.*: train with StochasticGradient",
    )
    for fit in (lambda: RND(net, heads=2).fit(points), lambda: kernels.empirical(net, points)):
        with pytest.raises(ValueError, match=refused) as caught:
            fit()
        assert isinstance(caught.value.__cause__, RuntimeError)
    assert RND(net, heads=2, solver=MINIBATCHES).fit(points).variance(points).min() > 0


class OutOfTorch(Branch):
    def forward(self, x):
        return self.out(torch.from_numpy(np.tanh(self.first(x).numpy())))


def init(key, outputs):
    first, last = jax.random.split(key)
    return {"w": jax.random.normal(first, (3, 8)), "v": jax.random.normal(last, (8, outputs))}


def branch(params, x):
    h = x @ params["w"]
    return (jnp.tanh(h) if h[0, 0] > 0 else h) @ params["v"]


def mask(params, x):
    h = x @ params["w"]
    return jnp.stack([row[row > 0].sum() + row for row in h]) @ params["v"]


def to_numpy(params, x):
    return np.tanh(np.asarray(x @ params["w"])) @ params["v"]


def loop(params, x):
    halved = jax.vmap(lambda h: jax.lax.while_loop(lambda h: (jnp.abs(h) > 1).any(), lambda h: h / 2, h))
    return halved(x @ params["w"]) @ params["v"]


@pytest.mark.parametrize(
    ("net", "points", "message"),
    [
        (
            Module(Branch),
            np.ones((6, 4)),
            r"fails on points of shape \(4,\) at 'h = self.first\(x\)' .*give X in the shape",
        ),
        (Module(OutOfTorch), X, "cannot be differentiated at 'return self.out.*: keep to PyTorch's differentiable"),
        (Function(init, branch), X, "fails on points .* if h.0, 0. > 0 .*TracerBoolConversionError.*lax.cond"),
        (Function(init, mask), X, "fails on points .*row.row > 0.*NonConcreteBooleanIndexError.*numpy.where"),
        (Function(init, to_numpy), X, "fails on points .*np.asarray.*TracerArrayConversionError"),
        (
            Function(init, branch),
            np.ones((6, 4)),
            r"fails on points of shape \(4,\) at 'h = x @ params.*give X in the shape",
        ),
        (
            Function(init, loop),
            X,
            "cannot be differentiated.*ValueError.*: replace loops of unknown length by lax.scan",
        ),
    ],
    ids=["columns", "numpy", "jax if", "jax mask", "jax numpy", "jax columns", "jax loop"],
)
def test_what_cannot_be_trained_is_refused_before_training(net, points, message):
    with pytest.raises(ValueError, match=message) as caught:
        RND(net, heads=2, solver=MINIBATCHES).fit(points)
    assert caught.value.__cause__ is not None


def test_a_network_with_a_prior_mean_is_refused():
    """The theorems are about functions of mean 0: with a constant bias, Bayesian RND would have another variance."""

    def biased(key, outputs):
        return init(key, outputs) | {"b": 2 * jnp.ones(outputs)}

    def positive(key, outputs):
        return {"w": jax.random.normal(key, (3, 64)), "v": jax.random.uniform(key, (64, outputs))}

    class Offset(Branch):
        def __init__(self, outputs: int):
            super().__init__(outputs)
            nn.init.constant_(self.out.bias, 1.0)

        def forward(self, x):
            return self.out(torch.tanh(self.first(x)))

    def plain(params, x):
        return jnp.tanh(x @ params["w"]) @ params["v"] + params.get("b", 0.0)

    says = "start with a mean that is not 0: "
    for net in (Function(biased, plain), Module(Offset)):
        with pytest.raises(ValueError, match=says + "start biases of the last layer at 0 or at random"):
            RND(net, heads=2).fit(X)
    with pytest.raises(ValueError, match=says + r"draw \['v'\] of the last layer about 0; a mean belongs in the"):
        RND(Function(positive, plain), heads=2).fit(X)


class Words(nn.Module):
    """An embedding of some tokens out of seven."""

    def __init__(self, outputs: int, count: int = 2):
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 8), nn.Linear(8 * count, outputs)

    def forward(self, x):
        return self.out(torch.tanh(self.embed(x.long())).flatten(1))


@pytest.mark.parametrize("points", [TOKENS, TOKENS.astype(np.uint8), TOKENS > 3, TOKENS[:1]], ids=str)
def test_a_network_of_tokens_is_tried_on_tokens_of_the_user_s(points):
    distinct = np.unique(points, axis=0)
    model = RND(Module(Words), heads=2, solver=GradientFlow(rtol=1e-2)).fit(distinct)
    assert np.abs(model.errors(distinct)).max() < 1e-6


@pytest.mark.parametrize("points", [X, TOKENS.astype(float), SERIES, X[:1]], ids=["reals", "tokens", "series", "one"])
def test_probe_points_of_a_user_s_network_are_values_of_the_user_s(points):
    around = _around(points, own=True)
    assert np.array_equal(around, _around(points, own=True))
    assert len(around) == 3 * len(points)
    for part in np.split(around, 3):
        assert np.array_equal(np.sort(part, axis=0), np.sort(points, axis=0))


def test_a_bonus_tries_a_network_on_observations_as_it_will_see_them():
    tokens = torch.as_tensor(TOKENS)
    bonus = RNDBonus(2, heads=4, network=Words, normalise=False)
    assert bonus(tokens).shape == (6,)
    with pytest.raises(ValueError, match=r"cannot serve: the modules fail .*IndexError.*tried on normal numbers"):
        RNDBonus(20, heads=4, network=partial(Words, count=20))  # of 80 normal numbers, some are below -1
    with pytest.raises(ValueError, match=r"cannot serve: the modules fail on observations \(16, 4\)"):
        RNDBonus(4, heads=4, network=Branch, normalise=False)


def test_a_bonus_has_the_output_scale_of_its_network():
    one, three = (RNDBonus(3, heads=4, network=Module(Branch, output_scale=s), normalise=False) for s in (1.0, 3.0))
    assert np.allclose(three(X), 9 * one(X), rtol=1e-5)  # in float32
