"""One step of a linear flow, by eigenvalues and by a rational approximation, against other ways to the exponential."""

from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from networks import BACKENDS, body, jacobian, values
from scipy.interpolate import AAA
from scipy.linalg import expm

from rndlib import MLP, kernels
from rndlib.training import backends, exponential
from rndlib.training.backends.jax import in_float64
from rndlib.training.exponential import DENSE, EXPONENTIAL_ERROR, POLES, RESIDUES, SOLVE_RTOL, dense, phi1
from rndlib.training.problem import Spectrum
from rndlib.training.weights import Role, draw

X = np.random.default_rng(0).normal(size=(5, 3))
pytestmark = pytest.mark.usefixtures("many_heads_by_products")

MANY = 27  # far more heads than `dense_many` allows


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


def test_the_gain_of_a_mode_and_its_limits():
    rates = np.array([1e-300, 1e-8, 0.5, 1e12])
    with np.errstate(over="ignore"):
        found = [phi1(rates, np.array(h), np) for h in (0.0, 0.7, inf)]
    np.testing.assert_array_equal(found[0], 0)
    np.testing.assert_allclose(found[1], [0.7, 0.7 * (1 - 0.35e-8), (1 - np.exp(-0.35)) / 0.5, 1e-12], rtol=1e-14)
    np.testing.assert_array_equal(found[2], 1 / rates)


def test_the_way_is_chosen_by_heads_and_points():
    """One or two heads keep to the kernel matrix, one for longer; more leave it earlier."""
    for lib in (SimpleNamespace(dense_many=40), SimpleNamespace(dense_many=400)):
        assert [dense(lib.dense_many // 5, heads, lib) for heads in (1, 5, 6)] == [True, True, False]
        assert [dense(DENSE[1] + more, 1, lib) for more in (0, 1)] == [True, False]
        assert [dense(DENSE[2] // 2 + more, 2, lib) for more in (0, 1)] == [True, False]


def step(lib, net, shared, own):
    X, times, noise, eigenvalues, vectors = shared
    tangent = lib.linearise(net, own[0], X)
    return exponential.flow_integral(tangent, own[1], times, noise, Spectrum(eigenvalues, vectors), lib)


class Setting:
    """A network at its start, its kernel matrix A with noise, and residuals r."""

    def __init__(self, heads, noise=0.0, backend="jax", **fields):
        self.net, self.lib = MLP(3, **{"width": 64, "sigma_b": 0.5} | fields), backends.load(backend)
        self.params, self.noise = draw(self.net, heads, 0, Role.PREDICTOR, range(1)), noise
        J = in_float64(jacobian)(self.net, body(self.params, 0), X)
        self.A, self.r = J @ J.T + noise * np.eye(len(J)), values(self.net, body(self.params, 0), X).T
        self.spectrum = np.linalg.eigh(kernels.kernel(self.net, X).ntk + noise * np.eye(len(X)))

    def v(self, h, scale=1.0, first=0.0):
        shared = X, np.array([first, h]), np.asarray(self.noise), *self.spectrum
        with self.lib.settings():
            found = self.lib.arrays(self.lib.each(step, self.net, shared, (self.params, scale * self.r[None])))[0]
        return found.reshape(2, -1)


def integral(A, r, h):
    """int_0^h e^{-s A} r ds without an inverse, from the exponential of an augmented matrix."""
    n = len(A)
    augmented = np.zeros((n + 1, n + 1))
    augmented[:n, :n], augmented[:n, n] = -A * h, r * h
    return expm(augmented)[:n, n]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_few_heads(noise, backend):
    at = Setting(2, noise, backend)
    for h in (0.0, 1e-14, 1e-3, 0.4, 20.0):
        exact = [integral(at.A, at.r.ravel(), time) for time in (h / 3, h)]
        # Relative to h r, which v is at most: conditioning plays no part.
        np.testing.assert_allclose(at.v(h, first=h / 3), exact, rtol=0, atol=1e-12 * h * float(np.linalg.norm(at.r)))
    for h in (1e4, inf):
        assert np.exp(-h * np.linalg.eigvalsh(at.A)[0]) < 1e-12
        assert np.linalg.norm(at.A @ at.v(h, first=h)[0] - at.r.ravel()) <= 1e-11 * np.linalg.norm(at.r)


def test_directions_that_do_not_train():
    """A linear model of four parameters a head on five points: its kernel is singular, and a finite time is fine."""
    at = Setting(2, depth=1)
    assert np.linalg.eigvalsh(at.A)[1] < 1e-12
    np.testing.assert_allclose(at.v(2.0)[1], integral(at.A, at.r.ravel(), 2.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_heads(noise, backend):
    at = Setting(MANY, noise, backend)
    (eigenvalues, vectors), r = np.linalg.eigh(at.A), at.r.ravel()
    poles, residues = np.array(POLES), np.array(RESIDUES)
    for h in (1e-3, 0.4, 20.0, 1e4, inf):
        nothing, v = at.v(h)
        assert not nothing.any()
        moved = vectors @ (-np.expm1(-h * eigenvalues) * (vectors.T @ r))
        # Theta v is off by the approximation's error, and by the residuals e_j of its systems (Theta + s_j) x_j = r,
        # which reach it as 2 |c_j / z_j| |Theta (Theta + s_j)^-1 e_j|; float32 adds its rounding times the condition.
        passed = np.abs(eigenvalues[:, None] / (eigenvalues[:, None] - poles / h)).max(axis=0)
        allowed = 2 * EXPONENTIAL_ERROR + 2 * np.sum(np.abs(residues / poles) * passed) * SOLVE_RTOL
        allowed += 1e-7 * eigenvalues[-1] / eigenvalues[0]
        assert allowed < 2e-3
        assert np.linalg.norm(at.A @ v - moved) <= allowed * np.linalg.norm(r)
    np.testing.assert_array_equal(*at.v(0.4, first=0.4))
    assert not at.v(0.0).any()
    # Single precision has no say in how large the residual may be.
    for h in (0.4, inf):
        v = at.v(h)[1]
        for scale in (1e-60, 1e60):
            np.testing.assert_allclose(at.v(h, scale)[1] / scale, v, rtol=1e-3, atol=1e-6 * np.abs(v).max())
        assert not at.v(h, 0.0).any()


@pytest.mark.parametrize(("iterations", "solved"), [(5, False), (500, True)])
@pytest.mark.torch
def test_what_did_not_converge_starts_anew_or_is_not_a_number(monkeypatch, iterations, solved):
    """Five iterations between starts are too few, and a hundred starts are enough."""
    monkeypatch.setattr(exponential, "RESTART", 5)
    monkeypatch.setattr(exponential, "ITERATIONS", iterations)
    at = Setting(MANY, backend="torch")
    v, r = at.v(inf)[1], at.r.ravel()
    assert np.isnan(v).all() != solved
    allowed = 2 * EXPONENTIAL_ERROR + SOLVE_RTOL + 1e-7 * np.linalg.cond(at.A)
    assert (np.linalg.norm(at.A @ v - r) <= allowed * np.linalg.norm(r)) == solved


@pytest.mark.torch
def test_a_body_that_left_the_finite_numbers_takes_no_other_along():
    net, lib = MLP(3, width=32), backends.load("torch")
    params = draw(net, 1, 0, Role.MEMBER, range(3))
    params[0][0][1] = inf
    shared = X, np.array([1.0, 1.0]), np.asarray(0.0), np.ones(5), np.eye(5)
    with lib.settings():
        v = lib.arrays(lib.each(lambda *given: step(*given)[0], net, shared, (params, np.ones((3, 5, 1))), 8))
    assert np.isnan(v[1]).all()
    assert np.isfinite(v[[0, 2]]).all()
