"""What only the PyTorch backend has: its batched tangents, its linear systems, and its manners as a guest."""

from math import inf

import numpy as np
import pytest

from rndlib import MLP, RND, DivergenceError, GradientDescent, GradientFlow, kernels
from rndlib.activations import ACTIVATIONS
from rndlib.training import backends
from rndlib.training.flow import exponential, integration
from rndlib.training.flow.exponential import DENSE_MANY, SOLVE_RTOL
from rndlib.training.problem import Problem, Spectrum
from rndlib.training.protocols import Linearised
from rndlib.training.weights import Role, draw, draw_directions

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")]

NET = MLP(3, width=32, sigma_b=0.5)
X = np.random.default_rng(7).normal(size=(4, 3))
BODIES, HEADS = 2, 3


@pytest.fixture(scope="module")
def backend():
    return backends.load("torch")


# ------------------------------------------------------------------------------------------------------- the tangent


@pytest.fixture(scope="module", params=[1, 2, 3])
def case(request):
    """Networks linearised at their parameters, and the Jacobian of each by automatic differentiation."""
    import torch
    from torch.func import jacrev, vmap

    from rndlib.training.backends.torch.linearise import apply, linearised

    net = MLP(3, width=9, depth=request.param, activation="tanh", sigma_w=1.3, sigma_b=0.7)
    points = torch.tensor(X)
    params = tensors(draw(net, HEADS, 1, Role.MEMBER, range(BODIES)))
    blocks = vmap(jacrev(lambda p: apply(net, p, points)))(params)
    J = torch.cat([a.reshape(BODIES, len(X) * HEADS, -1) for layer in blocks for a in layer], -1)
    return net, params, *linearised(net, params, points), J


def tensors(params):
    import torch

    return [(torch.tensor(w), torch.tensor(b)) for w, b in params]


def flat(params):
    import torch

    return torch.cat([a.flatten(1) for layer in params for a in layer], -1)


def close(found, expected):
    # Sums of at most N * (P = 150) products of numbers of order 1 to 10.
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_kernel(case):
    import torch

    *_, tangent, J = case
    close(tangent.kernel_matrix(), J @ J.mT)
    vectors = torch.tensor(np.random.default_rng(0).normal(size=(BODIES, 5, len(X), HEADS)))
    close(tangent.kernel_product(vectors).flatten(2).mT, J @ (J.mT @ vectors.flatten(2).mT))


def test_pull_back(case):
    import torch

    *_, tangent, J = case
    v = torch.tensor(np.random.default_rng(0).normal(size=(BODIES, len(X), HEADS)))
    assert isinstance(tangent, Linearised)
    close(flat(tangent.pull_back(v)), (J.mT @ v.flatten(1)[..., None])[..., 0])


def test_push_forward(case):
    import torch

    net, params, f, tangent, J = case
    change = tensors(draw(net, HEADS, 2, Role.MEMBER, range(BODIES)))
    close(tangent.push_forward(change).flatten(1), (J @ flat(change)[..., None])[..., 0])
    of_body = [*change[:-1], tuple(map(torch.zeros_like, change[-1]))]
    close(tangent.push_forward(change[:-1]), tangent.push_forward(of_body))
    close(f, apply_(net, params))


def apply_(net, params):
    import torch

    from rndlib.training.backends.torch.linearise import apply

    return apply(net, params, torch.tensor(X))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nonlinearities_and_their_slopes(name):
    """Far out the complex steps that the slopes are compared with would overflow."""
    import torch

    from rndlib.training.backends.torch.activations import value, value_and_slope

    z = np.concatenate([np.linspace(-40, 40, 4001), [1e-300, -1e-8]])
    found, slope = value_and_slope(name)(torch.tensor(z))
    for one, expected in zip((found, slope), ACTIVATIONS[name].value_and_slope(z), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(value(name)(torch.tensor(z)), found, rtol=1e-13, atol=1e-14)


# ---------------------------------------------------------------------------------------------------- linear systems


@pytest.fixture
def many():
    """One body of so many heads that its kernel is not formed: linearised, with residuals, and the preconditioner."""
    import torch

    from rndlib.training.backends.torch.linearise import linearised

    heads = DENSE_MANY // len(X) + 2
    f, tangent = linearised(NET, tensors(draw(NET, heads, 0, Role.PREDICTOR, range(1))), torch.tensor(X))
    return tangent, f, Spectrum(*map(torch.tensor, np.linalg.eigh(kernels.kernel(NET, X).ntk)))


def flow_integral(tangent, r, times, spectrum):
    import torch

    from rndlib.training.backends.torch import LIBRARY

    times, noise = (torch.tensor(a, dtype=torch.float64) for a in (times, 0.0))
    return exponential.flow_integral(tangent, r, times, noise, spectrum, LIBRARY)


@pytest.mark.parametrize("iterations", [1000, 5])
def test_a_solve_and_one_that_starts_anew(monkeypatch, many, iterations):
    monkeypatch.setattr(exponential, "ITERATIONS", iterations)
    monkeypatch.setattr(exponential, "STARTS", 100)
    at, r, spectrum = many
    [v] = flow_integral(at, r, [inf], spectrum)
    A, r, v = at.kernel_matrix()[0].numpy(), r.numpy().ravel(), v.numpy().ravel()
    # The recurrence's residual is the true one but for float32's rounding times the condition.
    allowed = SOLVE_RTOL + 1e-7 * np.linalg.cond(A)
    assert allowed < 1e-3
    assert np.linalg.norm(A @ v - r) <= allowed * np.linalg.norm(r)


def test_what_did_not_converge_is_not_a_number(monkeypatch, many):
    monkeypatch.setattr(exponential, "ITERATIONS", 2)
    monkeypatch.setattr(exponential, "STARTS", 1)
    at, r, spectrum = many
    assert flow_integral(at, r, [inf], spectrum)[0].isnan().all()
    monkeypatch.setattr(integration, "MOST_STEPS", 4)
    with pytest.raises(DivergenceError, match="the trained function is not finite after"):
        RND(NET, r.shape[-1], backend="torch").fit(X)


def test_a_body_that_left_the_finite_numbers_takes_no_other_along():
    import torch

    from rndlib.training.backends.torch.linearise import linearised

    params = tensors(draw(NET, 1, 0, Role.MEMBER, range(3)))
    params[0][0][1] = inf
    _, tangent = linearised(NET, params, torch.tensor(X))
    r = torch.ones(3, len(X), 1, dtype=torch.float64)
    unused = Spectrum(torch.ones(len(X)), torch.eye(len(X)))
    for v in flow_integral(tangent, r, [1.0, inf], unused):
        assert v[1].isnan().all()
        assert v[[0, 2]].isfinite().all()


# -------------------------------------------------------------------------------------------- a guest in the process


def test_the_settings_of_pytorch_do_not_matter_and_stay(backend):
    import torch

    def work():
        params = draw(NET, 2, 0, Role.PREDICTOR, range(2))
        spectrum = Spectrum(*np.linalg.eigh(np.eye(len(X))))
        psi = draw_directions(NET, 0, range(2), None)
        many = draw(NET, 40, 0, Role.PREDICTOR, range(1))
        flow, descent = GradientFlow(0.1, rtol=0.1), GradientDescent(1e-4, 2)
        return [
            backend.functions(NET, params, X, "float32"),
            backend.tangents(NET, params, psi, X, "float64"),
            *backend.tangent_kernels(NET, params, X),
            flow.run(Problem(NET, params, X, np.ones((2, 2, 4)), 0.1), backend, spectrum)[0][0][0],
            flow.run(Problem(NET, many, X, np.ones((1, 40, 4)), 0.1), backend, spectrum)[0][0][0],
            descent.run(Problem(NET, many, X, np.ones((1, 40, 4))), backend)[0][0][0],
        ]

    def settings():
        return torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(), torch.is_grad_enabled()

    plain = work()
    torch.set_default_device("meta")  # on which nothing can be computed
    torch.set_default_dtype(torch.float16)
    try:
        before, state = settings(), torch.random.get_rng_state()
        again = work()
        assert settings() == before
        assert torch.equal(torch.random.get_rng_state(), state)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    for one, other in zip(plain, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_of_any_layout_are_welcome_and_left_alone(backend):
    params = draw(NET, 1, 0, Role.MEMBER, range(2))
    kept = [(w.copy(), b.copy()) for w, b in params]
    turned = X[::-1]
    turned.flags.writeable = False
    straight = backend.functions(NET, params, X, "float64")
    np.testing.assert_allclose(backend.functions(NET, params, turned, "float64")[..., ::-1], straight, rtol=1e-12)
    problem = Problem(NET, params, turned, np.zeros((2, 1, 4)), 0.1, np.ones((2, 4, 1)))
    trained, _ = GradientDescent(0.01, 3).run(problem, backend)
    for (w, b), (w_kept, b_kept), (w_new, _) in zip(params, kept, trained, strict=True):
        np.testing.assert_array_equal(w, w_kept)
        np.testing.assert_array_equal(b, b_kept)
        assert np.any(w_new != w)
