"""v = Theta^-1 (I - e^{-h Theta}) r: the approximation of the exponential, and the ways to v against SciPy."""

from functools import partial
from math import inf, nan

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks import BACKENDS, body, jacobian
from scipy.interpolate import AAA
from scipy.linalg import expm

from rndlib import MLP, kernels
from rndlib.training import backends
from rndlib.training.backends.jax import LIBRARY
from rndlib.training.backends.jax.linearise import linearised, to_jax
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.flow import exponential, resolvents
from rndlib.training.flow.exponential import (
    DENSE_ALONE,
    DENSE_PAIR,
    EIGENPROBLEM_LIMIT,
    EXPONENTIAL_ERROR,
    POLES,
    RESIDUES,
    SOLVE_RTOL,
    dense,
)
from rndlib.training.problem import Spectrum
from rndlib.training.protocols import Backend, Linearised
from rndlib.training.weights import Role, draw

RNG = np.random.default_rng(1)
X = RNG.normal(size=(5, 3))


# ------------------------------------------------------------------------------------- the rational approximation


def test_rational_exponential():
    poles, residues = np.array(POLES), np.array(RESIDUES)
    z = np.concatenate([[0.0], np.geomspace(1e-10, 1e10, 100_001)])
    R = 2 * np.sum(residues / (z[:, None] - poles), axis=1).real
    assert np.abs(R - np.exp(-z)).max() <= EXPONENTIAL_ERROR
    # The step uses (R(0) - R(z)) / z for (1 - e^-z) / z; of slow modes, too, it must get the rate right.
    np.testing.assert_allclose((R[0] - R[1:]) / -np.expm1(-z[1:]), 1, rtol=2 * EXPONENTIAL_ERROR)
    # Shifted systems (Theta - pole / h) are regular for every Theta >= 0.
    assert (np.imag(poles) > 0).all()


def test_rational_exponential_is_that_of_the_aaa_algorithm():
    z = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 401)])
    fit = AAA(z, np.exp(-z), rtol=EXPONENTIAL_ERROR)
    upper = np.imag(fit.poles()) > 0
    for found, written in ((fit.poles(), POLES), (fit.residues(), RESIDUES)):
        # What is approximated to 1e-5 has poles that rounding moves far less.
        np.testing.assert_allclose(np.sort_complex(found[upper]), np.sort_complex(np.array(written)), rtol=1e-8)


# ---------------------------------------------------------------------------------------------- the ways to v

flow_integral = partial(exponential.flow_integral, lib=LIBRARY)


@jax.jit
def compiled(tangent, r, h, noise, spectrum):
    return flow_integral(tangent, r, h[None], noise, spectrum)[0]


def integral(A, r, h):
    """int_0^h e^{-s A} r ds without an inverse, from the exponential of an augmented matrix."""
    n = len(A)
    augmented = np.zeros((n + 1, n + 1))
    augmented[:n, :n], augmented[:n, n] = -A * h, r * h
    return expm(augmented)[:n, n]


def setting(heads, noise=0.0, **fields):
    """A network linearised at its start, its kernel matrix, and the arguments of `flow_integral` that they give."""
    net = MLP(3, **{"width": 64, "sigma_b": 0.5} | fields)
    params = body(draw(net, heads, 0, Role.PREDICTOR, range(1)), 0)
    f, at = linearised(net, jax.tree.map(jnp.asarray, to_jax(net, params)), jnp.asarray(X))
    J = jacobian(net, params, X)
    spectrum = Spectrum(*map(jnp.asarray, np.linalg.eigh(kernels.kernel(net, X).ntk + noise * np.eye(len(X)))))
    return at, J @ J.T + noise * np.eye(f.size), f, jnp.asarray(noise), spectrum


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("h", [0.0, 1e-14, 1e-3, 0.4, 20.0])
@in_float64
def test_few_heads(h, noise):
    at, A, r, noise, spectrum = setting(2, noise)
    v = compiled(at, r, jnp.asarray(h), noise, spectrum)
    # Relative to h r, which v is at most: conditioning plays no part.
    np.testing.assert_allclose(v.ravel(), integral(A, r.ravel(), h), rtol=0, atol=1e-12 * h * np.linalg.norm(r))


@pytest.mark.parametrize("h", [1e4, inf])
@in_float64
def test_few_heads_for_long(h):
    at, A, r, noise, spectrum = setting(2)
    decay = np.exp(-h * np.linalg.eigvalsh(A)[0])
    assert decay < 1e-12
    v = compiled(at, r, jnp.asarray(h), noise, spectrum)
    assert np.linalg.norm(A @ v.ravel() - r.ravel()) <= 1e-11 * np.linalg.norm(r)


@in_float64
def test_directions_that_do_not_train():
    """A linear model of four parameters a head on five points: its kernel is singular, and a finite time is fine."""
    at, A, r, noise, spectrum = setting(2, depth=1)
    assert np.linalg.eigvalsh(A)[1] < 1e-12
    v = compiled(at, r, jnp.asarray(2.0), noise, spectrum)
    np.testing.assert_allclose(v.ravel(), integral(A, r.ravel(), 2.0), rtol=0, atol=1e-12)


class Identity:
    """The kernel of ones on the diagonal, for any number of heads."""

    def __init__(self, unknowns):
        self.unknowns = unknowns

    def kernel_matrix(self):
        return jnp.eye(self.unknowns)

    def in_float32(self):
        return self

    def pull_back(self, v):
        return v

    push_forward = kernel_product = pull_back


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 9, 25, 26])
@in_float64
def test_the_way_is_chosen_by_heads_and_points(heads):
    """One or two heads keep to the kernel matrix, one for longer; more leave it earlier."""
    spectrum, r = Spectrum(jnp.ones(len(X)), jnp.eye(len(X))), jnp.ones((len(X), heads))
    given = Identity(r.size), r, jnp.ones(1), jnp.asarray(0.0), spectrum
    program = str(jax.make_jaxpr(lambda: flow_integral(*given))())
    assert ("eigh" in program) == (heads <= 4)
    assert ("cholesky" in program) == (heads == 8)
    assert dense(len(X), heads) == (heads <= 8)
    assert dense(DENSE_PAIR // 2, 2)
    assert not dense(DENSE_PAIR // 2 + 1, 2)
    assert dense(DENSE_ALONE, 1)
    assert not dense(DENSE_ALONE + 1, 1)
    assert not dense(DENSE_PAIR // 4, 4)


# ------------------------------------------------------------------------------------------------- by a resolvent


class Given:
    """Kernel matrices, as a linearised network or several of them would have."""

    def __init__(self, matrices):
        self.matrices = matrices

    def kernel_matrix(self):
        return self.matrices

    def bodies(self):
        return [Given(matrix) for matrix in self.matrices]


def in_library(backend):
    """The steps' view of an array library, and how NumPy's arrays get there."""
    if backend == "jax":
        return LIBRARY, jnp.asarray
    import torch

    from rndlib.training.backends.torch import LIBRARY as of_torch

    return of_torch, torch.tensor


def by_resolvents(backend, theta, r, times, noise=0.0):
    """v of kernel matrices that are past the eigenproblem's limit, in NumPy's arrays."""
    library, to = in_library(backend)
    assert r.shape[-2] > EIGENPROBLEM_LIMIT
    times, noise = np.array(times, float), np.array(float(noise))
    v = exponential.flow_integral(Given(to(theta)), to(r), to(times), to(noise), Spectrum(None, None), library)
    return np.asarray(v)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shorter", [1, 3, 10, 30])
@in_float64
def test_a_resolvent_gives_every_mode_its_step(shorter, backend):
    """Slow, fast and resting modes at two times."""
    rates = np.concatenate([[0.0], np.geomspace(1e-8, 1e12, 200)])
    longest = 0.7
    times = np.array([longest / shorter, longest])
    v = by_resolvents(backend, np.diag(rates), np.ones((len(rates), 1)), times)[..., 0]
    for found, h in zip(v, times, strict=True):
        expected = np.where(rates > 0, -np.expm1(-h * rates) / np.where(rates > 0, rates, 1), h)
        allowed = 1e-9 if h == longest else resolvents.ERROR
        assert np.abs(found - expected).max() <= allowed * h
        assert np.abs(rates * (found - expected)).max() <= allowed


def several(count, n=EIGENPROBLEM_LIMIT + 8):
    """Kernel matrices of some condition, and residuals."""
    factors = RNG.normal(size=(count, n, 2 * n)) * np.geomspace(0.1, 10, 2 * n)
    return factors @ np.swapaxes(factors, 1, 2), RNG.normal(size=(count, n, 1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("noise", [0.0, 0.3])
@in_float64
def test_a_resolvent_is_the_exponential(noise, backend):
    (theta,), (r,) = several(1)
    v = by_resolvents(backend, theta, r, [1e-3, 4e-3], noise)
    for found, h in zip(v, (1e-3, 4e-3), strict=True):
        expected = integral(theta + noise * np.eye(len(theta)), r.ravel(), h)
        np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-8 * h * float(np.linalg.norm(r)))
    solved = by_resolvents(backend, theta, r, [inf, inf], noise)
    np.testing.assert_allclose(solved[0], np.linalg.solve(theta + noise * np.eye(len(theta)), r), rtol=1e-9)
    np.testing.assert_array_equal(solved[0], solved[1])
    without, with_time = by_resolvents(backend, theta, r, [0.0, 1.0], noise)
    assert not without.any()
    np.testing.assert_array_equal(by_resolvents(backend, theta, r, [0.0, 0.0], noise), 0.0)
    assert with_time.any()


@pytest.mark.torch
@pytest.mark.parametrize("together", [exponential.TOGETHER, 1])
def test_resolvents_of_several_bodies(together, monkeypatch):
    monkeypatch.setattr(exponential, "TOGETHER", together)
    theta, r = several(3)
    v = by_resolvents("torch", theta, r, [1e-3, 2e-3])
    for each in range(3):
        np.testing.assert_allclose(v[:, each], by_resolvents("torch", theta[each], r[each], [1e-3, 2e-3]), rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@in_float64
def test_a_kernel_that_is_none_is_not_a_number(backend):
    (theta,), (r,) = several(1)
    values, vectors = np.linalg.eigh(theta)
    indefinite = theta - 2 * values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    assert np.isnan(by_resolvents(backend, indefinite, r, [inf])).any()
    assert np.isnan(by_resolvents(backend, np.full_like(theta, nan), r, [0.1])).any()


MANY = 27  # far more than DENSE_MANY allows


@pytest.fixture(scope="module", params=[0.0, 0.3])
def many(request):
    return in_float64(setting)(MANY, request.param)


@pytest.mark.parametrize("h", [1e-3, 0.4, 20.0, 1e4, inf])
@in_float64
def test_many_heads(h, many):
    at, A, r, noise, spectrum = many
    v = np.asarray(compiled(at, r, jnp.asarray(h), noise, spectrum)).ravel()
    values, vectors = np.linalg.eigh(A)
    moved = vectors @ (-np.expm1(-h * values) * (vectors.T @ np.asarray(r).ravel()))
    # Theta v is off by the approximation's error, and by the residuals e_j of its systems (Theta + s_j) x_j = r,
    # which reach it as 2 |c_j / z_j| |Theta (Theta + s_j)^-1 e_j|; float32 adds its rounding times the condition.
    poles, residues = np.array(POLES), np.array(RESIDUES)
    passed = np.abs(values[:, None] / (values[:, None] - poles / h)).max(axis=0)
    allowed = 2 * EXPONENTIAL_ERROR + 2 * np.sum(np.abs(residues / poles) * passed) * SOLVE_RTOL
    allowed += 1e-7 * values[-1] / values[0]
    assert allowed < 2e-3
    assert np.linalg.norm(A @ v - moved) <= allowed * np.linalg.norm(r)


@pytest.mark.parametrize("h", [0.4, inf])
@in_float64
def test_many_heads_at_any_scale(h, many):
    """Single precision has no say in how large the residual may be."""
    at, _, r, noise, spectrum = many
    v = compiled(at, r, jnp.asarray(h), noise, spectrum)
    for scale in (1e-60, 1e60):
        scaled = compiled(at, scale * r, jnp.asarray(h), noise, spectrum)
        np.testing.assert_allclose(scaled / scale, v, rtol=1e-3, atol=1e-6 * np.abs(v).max())
    assert not np.any(compiled(at, jnp.zeros_like(r), jnp.asarray(h), noise, spectrum))


@in_float64
def test_many_heads_without_time(many):
    at, _, r, noise, spectrum = many
    assert not np.any(compiled(at, r, jnp.asarray(0.0), noise, spectrum))


# ----------------------------------------------------------------------------------------------- no convergence


@pytest.fixture(scope="module")
def noiseless():
    return in_float64(setting)(MANY)


@in_float64
def test_what_did_not_converge_is_not_a_number(monkeypatch, noiseless):
    monkeypatch.setattr(exponential, "ITERATIONS", 5)
    monkeypatch.setattr(exponential, "STARTS", 1)
    at, _, r, noise, spectrum = noiseless
    assert np.isnan(flow_integral(at, r, jnp.array([inf]), noise, spectrum)).all()


@in_float64
def test_what_did_not_converge_starts_anew_from_where_it_is(monkeypatch, noiseless):
    monkeypatch.setattr(exponential, "ITERATIONS", 5)  # too few, as the test before shows
    monkeypatch.setattr(exponential, "STARTS", 100)
    at, A, r, noise, spectrum = noiseless
    v = np.asarray(flow_integral(at, r, jnp.array([inf]), noise, spectrum)).ravel()
    r = np.asarray(r).ravel()
    allowed = 2 * EXPONENTIAL_ERROR + SOLVE_RTOL + 1e-7 * np.linalg.cond(A)
    assert np.linalg.norm(A @ v - r) <= allowed * np.linalg.norm(r)


# ------------------------------------------------------------------------------------------ any network will do


class Traced:
    """A network linearised by JAX itself, of which nothing is known but its function: the protocol and no more."""

    def __init__(self, function, params):
        self.function, self.params = function, params
        values, self.push_forward = jax.linearize(function, params)
        pulled = jax.linear_transpose(self.push_forward, params)
        self.pull_back = lambda v: pulled(v)[0]
        self.values = values

    def kernel_product(self, v):
        return self.push_forward(self.pull_back(v))

    def kernel_matrix(self):
        basis = jnp.eye(self.values.size).reshape(-1, *self.values.shape)
        return jax.vmap(self.kernel_product)(basis).reshape(len(basis), -1)

    def in_float32(self):
        return Traced(self.function, jax.tree.map(lambda a: a.astype(jnp.float32), self.params))


@pytest.mark.parametrize("h", [0.3, inf])
@pytest.mark.parametrize("heads", [2, MANY])
@in_float64
def test_a_network_is_what_its_linearisation_can_do(heads, h):
    """Layer norm, a skip and a network's own parameters as a dictionary: a step needs nothing but the protocol."""

    def function(params):
        x = jnp.tanh(jnp.asarray(X, params["in"].dtype) @ params["in"])
        x = x + jnp.tanh(x @ params["middle"])
        x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x @ params["out"] / 8

    draws = np.random.default_rng(0)
    params = {
        "in": jnp.asarray(draws.normal(size=(3, 64))),
        "middle": jnp.asarray(draws.normal(size=(64, 64)) / 8),
        "out": jnp.asarray(draws.normal(size=(64, heads))),
    }
    at = Traced(function, params)
    assert isinstance(at, Linearised)
    A = np.asarray(jax.jit(lambda p: Traced(function, p).kernel_matrix())(params))
    blocks = A.reshape(len(X), heads, len(X), heads)
    mean = np.einsum("iaja->ij", blocks) / heads  # what the empirical kernel of a head is near to
    spectrum = Spectrum(*map(jnp.asarray, np.linalg.eigh(mean)))
    v = jax.jit(lambda p: flow_integral(Traced(function, p), at.values, jnp.array([h]), jnp.asarray(0.0), spectrum))(
        params
    )
    r = np.asarray(at.values).ravel()
    expected = np.linalg.solve(A, r) if h == inf else integral(A, r, h)
    size = np.linalg.norm(A @ expected if h == inf else expected)
    off = np.linalg.norm(A @ (np.asarray(v).ravel() - expected) if h == inf else np.asarray(v).ravel() - expected)
    exact = heads == 2
    assert off <= (1e-9 if exact else 2 * EXPONENTIAL_ERROR + SOLVE_RTOL + 1e-7 * np.linalg.cond(A)) * size


def test_the_written_out_network_keeps_the_protocol():
    with_heads = in_float64(setting)(2)[0]
    assert isinstance(with_heads, Linearised)
    assert isinstance(backends.load("jax"), Backend)


@pytest.mark.torch
def test_the_torch_backend_keeps_the_protocol():
    assert isinstance(backends.load("torch"), Backend)
