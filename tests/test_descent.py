"""Gradient descent against a loop written out, its closed form, and its limits of stability."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import problems
import pytest
from networks import BACKENDS, body, jacobian, loss, relative, values
from problems import X_TEST

from rndlib import MLP, DivergenceError, GradientDescent, kernels
from rndlib.theory.dynamics import gain
from rndlib.training.backends.jax import in_float64

NET = MLP(3, width=64, sigma_b=0.5)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 3))
HEADS = [1, 30]


class Problem(problems.Problem):
    """Networks that descend to targets unlike their own, and the largest eigenvalue of their tangent kernels."""

    def __init__(self, heads, noise_std=0.0, net=NET, bodies=2, backend="jax"):
        super().__init__(net, X, heads, bodies, noise_std=noise_std, backend=backend)
        self.y = np.random.default_rng(heads).normal(size=self.y.shape)
        jacobians = [in_float64(jacobian)(net, body(self.start, i), X) for i in range(bodies)]
        self.largest = max(np.linalg.eigvalsh(J @ J.T)[-1] for J in jacobians) + noise_std**2

    def descend(self, learning_rate, steps):
        return GradientDescent(learning_rate, steps).run(self.given, self.backend)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(scope="module", params=[(heads, noise) for heads in HEADS for noise in (0.0, 0.4)], ids=str)
def problem(request, backend):
    return Problem(*request.param, backend=backend)


@partial(jax.jit, static_argnames="net")
def gradient(net, state, y, noise_std):
    return jax.grad(lambda state: loss(net, state, X, y, noise_std))(state)


def test_descent_is_a_loop_over_gradients(problem):
    rate, steps = 0.5 / problem.largest, 40
    offsets = np.zeros_like(problem.y).swapaxes(1, 2) if problem.xi is None else problem.xi

    @in_float64
    def loop(index):
        y = jnp.asarray(problem.y[index].T)
        state = jax.tree.map(jnp.asarray, (body(problem.start, index), offsets[index]))
        for _ in range(steps):
            slope = gradient(problem.net, state, y, problem.noise_std)
            state = jax.tree.map(lambda s, g: s - rate * g, state, slope)
        left = (2 * loss(problem.net, state, X, y, problem.noise_std)) ** 0.5
        return jax.tree.map(np.asarray, state[0]), float(left)

    params, report = problem.descend(rate, steps)
    residuals = []
    for index, (y, xi) in enumerate(zip(problem.y, offsets, strict=True)):
        expected, left = loop(index)
        for (w, b), (w_loop, b_loop) in zip(body(params, index), expected, strict=True):
            # 40 steps of contractions, each with the rounding of sums of at most 64 numbers of order 1.
            np.testing.assert_allclose(w, w_loop, rtol=0, atol=1e-12)
            np.testing.assert_allclose(b, b_loop, rtol=0, atol=1e-12)
        first = values(problem.net, body(problem.start, index), X) + problem.noise_std * xi.T - y
        residuals.append(left / np.linalg.norm(first))
    assert report.residual == pytest.approx(max(residuals), rel=1e-9)
    assert (report.time, report.error, report.evaluations, report.converged) == (rate * steps, 0, steps, True)


def test_the_learning_rate_has_a_limit(problem):
    limit = 2 / problem.largest
    # Power iteration comes from below, at once to an eigenvalue far above the others, and of many heads in 50 products
    # to a tenth of a percent.
    tolerance = 0.005 if problem.y.shape[1] == 1 else 0.015
    with pytest.raises(ValueError, match=r"learning_rate = .*2 / lambda_max = [\d.]+ on.*give less") as error:
        problem.descend((1 + tolerance) * limit, 1)
    (named,) = re.findall(r"2 / lambda_max = ([\d.e+-]+) on", str(error.value))
    assert float(named) == pytest.approx(limit, rel=tolerance)
    params, _ = problem.descend((1 - tolerance) * limit, 1)
    assert np.isfinite(problem.functions(params)).all()


@pytest.mark.parametrize("heads", HEADS)
def test_divergence_is_an_error(heads, backend):
    """Targets far from a narrow network's values: its kernel grows, and a rate that was stable is not any more."""
    problem = Problem(heads, net=MLP(3, width=8, sigma_b=0.5), backend=backend)
    problem.y = 100 * problem.y
    with pytest.raises(DivergenceError, match=r"gradient descent: training residual .* learning_rate"):
        problem.descend(1.5 / problem.largest, 200)


@pytest.mark.parametrize("noise_std", [0.0, 0.4])
def test_a_linear_model_is_solved_exactly(noise_std, backend):
    """f_k = f_0 + G' (y - f_0(X) - noise xi_0) with the gain of descent at step k."""
    problem = Problem(1, noise_std, MLP(3, depth=1, sigma_b=0.5), backend=backend)
    rate, steps = 1.9 / problem.largest, 500
    params, _ = problem.descend(rate, steps)
    theta = kernels.kernel(problem.net, X).ntk + noise_std**2 * np.eye(len(X))
    G = gain(theta, kernels.kernel(problem.net, X, X_TEST).ntk, rate * steps, rate)
    residual = problem.y - problem.functions(problem.start, X)
    if problem.xi is not None:
        residual = residual - noise_std * np.swapaxes(problem.xi, 1, 2)
    exact = problem.functions(problem.start) + residual @ G
    assert relative(problem.functions(params), exact) <= 1e-11
