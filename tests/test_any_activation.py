"""Activations that are one function: kernels by quadrature, slopes by differentiation, and what is refused."""

import pickle

import numpy as np
import pytest

from rndlib import MLP, RND, GradientFlow, initial, kernels
from rndlib.activations import ACTIVATIONS, Activation

# By quadrature, against what is in closed form, as tests/test_kernels.py has it of interpolated ones. relu as there.
AGREE = 1e-9
X = np.random.default_rng(0).normal(size=(7, 3))


def mish(u, xp):
    return u * xp.tanh(xp.logaddexp(u, 0.0))


MISH = Activation("mish", mish)


@pytest.mark.parametrize(("name", "sigma_w", "depth"), [("gelu", 0.4, 3), ("erf", 1.2, 2), ("relu", 0.8, 2)])
def test_quadrature_and_closed_forms_are_one(name, sigma_w, depth):
    """A ramp and a sign that are smooth, and a kink."""
    net = MLP(2, depth=depth, activation=name, sigma_w=sigma_w)
    other = MLP(2, depth=depth, activation=Activation("other", ACTIVATIONS[name].function), sigma_w=sigma_w)
    points = np.random.default_rng(1).normal(size=(10, 2))
    for X2 in (None, points[:4]):
        closed, found = kernels.kernel(net, points, X2), kernels.kernel(other, points, X2)
        atol = 1e-7 if name == "relu" else AGREE  # relu at repeated points
        np.testing.assert_allclose(found.nngp, closed.nngp, rtol=0, atol=atol * closed.nngp.max())
        np.testing.assert_allclose(found.ntk, closed.ntk, rtol=0, atol=atol * closed.ntk.max())


def test_the_kernel_is_that_of_networks():
    net = MLP(3, width=512, activation=MISH)
    drawn = initial.functions(net, X, bodies=4000)[:, 0]
    expected = kernels.kernel(net, X).nngp
    # Four standard errors of the largest product of Gaussians, and 10 / width.
    assert np.abs(drawn.T @ drawn / 4000 - expected).max() < (4 * np.sqrt(2 / 4000) + 10 / 512) * expected.max()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
def test_both_backends_train_it_alike():
    net = MLP(3, width=16, activation=MISH)
    assert pickle.loads(pickle.dumps(net)) == net
    assert hash(pickle.loads(pickle.dumps(net))) == hash(net)
    jax, torch = (
        RND(net, 2, solver=GradientFlow(time=2.0, rtol=1e-3), backend=b).fit(X[:4]).errors(X) for b in ("jax", "torch")
    )
    np.testing.assert_allclose(torch, jax, rtol=1e-5, atol=1e-6)


def test_a_registered_one_is_stored_by_name():
    assert MLP(3, activation=ACTIVATIONS["tanh"]) == MLP(3, activation="tanh")
    assert MLP(3, activation=MISH).phi is MISH


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda u, xp: xp.arcsinh(u), "no xp.arcsinh; there are abs, cos"),
        (lambda u: u, "takes 1 positional argument"),
        (lambda u, xp: u.sum(), r"maps an array of shape \(2, 17\) to"),
        (lambda u, xp: 0 * u + np.nan, "is not finite"),
        (lambda u, xp: u / (1 + abs(u)), "another derivative in complex arithmetic.*such as xp.abs in place of abs"),
    ],
)
def test_bad_functions(function, message):
    with pytest.raises(ValueError, match=message):
        Activation("bad", function)


@pytest.mark.parametrize(
    "function", [lambda u, xp: xp.abs(u), lambda u, xp: u * xp.sign(u), lambda u, xp: xp.sqrt(u * u)]
)
def test_an_absolute_value_however_it_is_written(function):
    plain = Activation("where", lambda u, xp: xp.where(u > 0, u, -u))
    found, expected = (kernels.kernel(MLP(3, activation=of), X).ntk for of in (Activation("abs", function), plain))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_kink_away_from_zero_is_refused():
    capped = Activation("capped", lambda u, xp: xp.minimum(u, 1.0))
    with pytest.raises(ValueError, match=r"activation 'capped': its kernel at variances up to .* smooth except at 0"):
        kernels.kernel(MLP(3, activation=capped), X)
