"""Training by minibatches: against a loop written out, on both backends, and which law it keeps or leaves."""

import io
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks import BACKENDS, body, forward, relative, values

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, DivergenceError, GradientFlow, StochasticGradient, kernels
from rndlib.training.backends.jax import in_float64
from rndlib.training.weights import Role, draw, stream

# The networks are tiny, which the warning about heads is right to notice.
pytestmark = pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")

NET = MLP(3, width=32, sigma_b=0.5)
RNG = np.random.default_rng(7)
X, X_TEST = RNG.standard_normal((23, 3)), RNG.standard_normal((9, 3))
Y = np.sin(X.sum(axis=1))
OPTIMIZERS = {"adam": 0.01, "sgd": 0.2}
quick = partial(StochasticGradient, batch_size=5, epochs=4, progress=False)


@jax.jit
def gradient(params, x, y):
    return jax.grad(lambda p: 0.5 * jnp.sum((forward(NET, p, x) - y) ** 2) / len(x))(params)


@in_float64
def written_out(role, member, targets, solver, pull=0.0):
    """A network after training: permutations by its stream, gradients by jax.grad, Adam by its formulas (Kingma and
    Ba), and L2 regularisation towards initialisation."""
    start = jax.tree.map(jnp.asarray, body(draw(NET, 1, 3, role, [member]), 0))
    y = jnp.asarray(targets.T)
    generator = stream(3, Role.ORDER, int(role), member)
    order = generator.permutation(len(X))
    params, first, second = start, jax.tree.map(jnp.zeros_like, start), jax.tree.map(jnp.zeros_like, start)
    # Of 23 points 3 are left out of each epoch.
    batches = [part for _ in range(solver.epochs) for part in np.split(generator.permutation(order)[:20], 4)]
    total = len(batches)
    for step, rows in enumerate(batches):
        g = jax.tree.map(lambda g, p, s: g + pull * (p - s), gradient(params, X[rows], y[rows]), params, start)
        rate = solver.learning_rate * (1 + np.cos(np.pi * step / total)) / 2
        if solver.optimizer == "adam":
            first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
            second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, g)
            a, b = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
            g = jax.tree.map(lambda m, v, a=a, b=b: m / a / (jnp.sqrt(v / b) + 1e-8), first, second)
        params = jax.tree.map(lambda p, g, rate=rate: p - rate * g, params, g)
    return jax.tree.map(np.asarray, params)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_steps_are_those_of_the_definition(optimizer, backend):
    solver = quick(optimizer, OPTIMIZERS[optimizer])
    model = RND(NET, 1, 3, seed=3, backend=backend, solver=solver).fit(X)
    expected = []
    for member in range(3):
        target = body(draw(NET, 1, 3, Role.TARGET, [member]), 0)
        params = written_out(Role.PREDICTOR, member, values(NET, target, X), solver)
        expected.append(values(NET, params, X_TEST) - values(NET, target, X_TEST))
    # 16 steps, each with the rounding of sums of at most 32 numbers; Adam divides by gradients that may be small.
    assert relative(model.errors(X_TEST), np.concatenate(expected)) < 1e-9
    assert (model.report.evaluations, model.report.time, model.report.converged) == (16, None, True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_noise_is_regularisation_towards_initialisation(optimizer, backend):
    """Of the network of the mean, which starts at 0: noise_std^2 / N of it goes with the mean loss over points."""
    solver = quick(optimizer, OPTIMIZERS[optimizer])
    model = BayesianRND(NET, 1, 1, seed=3, noise_std=3.0, backend=backend, solver=solver).fit(X, Y)
    start = body(draw(NET, 1, 3, Role.MEAN, [0]), 0)
    params = written_out(Role.MEAN, 0, Y + values(NET, start, X), solver, pull=3.0**2 / len(X))
    expected = values(NET, params, X_TEST) - values(NET, start, X_TEST)
    assert relative(model.predict(X_TEST)[None], expected) < 1e-9


@pytest.mark.torch
def test_backends_agree():
    """With noise: its regularisation is a part of the gradient for every optimiser."""
    solver = quick("adam", OPTIMIZERS["adam"])

    def errors(backend):
        model = BayesianRND(NET, 3, 2, noise_std=0.3, backend=backend, solver=solver).fit(X, Y)
        return np.vstack([model.errors(X_TEST), model.predict(X_TEST)]), model.report

    (found, one), (expected, other) = errors("torch"), errors("jax")
    assert relative(found, expected) <= 1e-5
    assert (one.evaluations, one.converged) == (other.evaluations, other.converged)
    assert one.residual == pytest.approx(other.residual, rel=1e-5)


CORNERS = 1.2 * np.vstack([np.eye(3), -np.eye(3)])


def distance(width, noise_std, optimizer, backend):
    """How far the converged errors are from those of gradient flow, body by body from the same start."""
    net = MLP(3, width=width, sigma_b=0.5)
    make = partial(BayesianRND, net, 1, 20, noise_std=noise_std, backend=backend)
    # A step's kernel is that of two points: 3 / lambda_max of six on their mean is well below 2 over its own. Adam
    # moves every weight by its rate, and a function of n weights of size 1 / sqrt(n) each by sqrt(n) times that.
    top = np.linalg.eigvalsh(kernels.kernel(net, CORNERS).ntk)[-1]
    rate = {"sgd": 6 / top, "adam": 1 / np.sqrt(width)}[optimizer]
    solver = StochasticGradient(optimizer, rate, batch_size=2, epochs=300, progress=False)
    model = make(solver=solver).fit(CORNERS)
    if not noise_std:
        assert model.report.residual < 1e-6  # it interpolates: what is left is which interpolant it found
    return relative(model.errors(X_TEST), make(solver=GradientFlow()).fit(CORNERS).errors(X_TEST))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("optimizer", "noise_std", "keeps"),
    [
        ("sgd", 0.0, True),
        ("adam", 0.0, False),
        pytest.param("sgd", 0.5, True, marks=pytest.mark.check),
        pytest.param("adam", 0.5, True, marks=pytest.mark.check),
    ],
)
def test_what_keeps_the_law(optimizer, noise_std, keeps):
    """From one start, in the limit of width: plain gradient steps end where gradient flow does, and so does whatever
    reaches the one minimum that noise leaves. Adam without noise is the negative control: it interpolates as well, and
    stays away. A wide network leaves its linear model by O(1 / sqrt(n)) at most, which over 64 to 1024 is a fourth."""
    narrow, wide = (distance(width, noise_std, optimizer, "torch") for width in (64, 1024))
    assert (wide < narrow / 4) == keeps
    assert (wide < 1 / np.sqrt(1024)) == keeps


@pytest.mark.parametrize("backend", BACKENDS)
def test_data_whose_kernel_would_not_fit(backend):
    """50,000 points have a kernel matrix of 20 GB. Repeated points are welcome."""
    points = np.repeat(np.random.default_rng(0).standard_normal((25_000, 3)), 2, axis=0)
    solver = StochasticGradient("adam", 0.02, batch_size=1000, epochs=2, progress=False)
    model = RND(NET, 2, backend=backend, solver=solver).fit(points)
    assert model.report.evaluations == 100
    assert model.variance(points[:100]).mean() < model.variance(10 * points[:100]).mean()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rate", [50.0, 1e6])
def test_divergence_is_an_error(backend, rate):
    with (
        np.errstate(all="ignore"),
        pytest.raises(DivergenceError, match=r"sgd: training residual .* after 4 epochs .*give a smaller rate"),
    ):
        DeepEnsemble(NET, 2, backend=backend, solver=quick("sgd", rate)).fit(X, Y)


@pytest.mark.torch
def test_one_seed_one_order_and_members_of_their_own():
    fit = partial(DeepEnsemble, NET, backend="torch", solver=quick("sgd", 0.2))
    functions = fit(3).fit(X, Y).functions(X_TEST)
    np.testing.assert_array_equal(fit(3).fit(X, Y).functions(X_TEST), functions)
    # How many train together changes nothing but rounding.
    np.testing.assert_allclose(fit(5).fit(X, Y).functions(X_TEST)[:3], functions, rtol=1e-9)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.torch
@pytest.mark.parametrize(
    ("stream", "shown", "expected"), [(Terminal, True, True), (io.StringIO, True, False), (Terminal, False, False)]
)
def test_progress_is_for_terminals(monkeypatch, stream, shown, expected):
    monkeypatch.setattr(sys, "stderr", stream())
    DeepEnsemble(NET, 2, backend="torch", solver=quick("sgd", 0.1, progress=shown)).fit(X, Y)
    assert ("epoch" in sys.stderr.getvalue()) == expected  # pyright: ignore[reportAttributeAccessIssue]
