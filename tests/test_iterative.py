"""Training without a kernel matrix: its definition, the same samples as with one, and what is refused."""

from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_linearised import DATA, NETWORKS

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, GradientFlow, datasets
from rndlib.training import iterative, linear

pytestmark = pytest.mark.torch


def kernel(seed: int, n: int, decay: float) -> np.ndarray:
    """A positive matrix with eigenvalues n k^-decay, in directions without a pattern."""
    vectors = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return n * (vectors * np.arange(1.0, n + 1) ** -decay) @ vectors.T


def nystroem(A: np.ndarray, noise: float, rank: int) -> iterative.Nystroem:
    return iterative.Nystroem.of(lambda some: A[some], len(A), noise, rank)


def same(v: np.ndarray) -> np.ndarray:
    """A product with J' = I."""
    return v


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 99),
    n=st.integers(1, 60),
    columns=st.integers(1, 40),
    decay=st.floats(0, 4),
    noise=st.floats(0.01, 1),
    rank=st.integers(1, 80),
)
def test_it_solves_the_system(seed, n, columns, decay, noise, rank):
    A, r = kernel(seed, n, decay), np.random.default_rng(seed + 1).standard_normal((n, columns))
    v, residual = (a.T for a in iterative.solve(same, lambda v: v @ A, nystroem(A, noise, rank), r.T))
    left = r - A @ v - noise * v
    assert (np.linalg.norm(left, axis=0) <= 2 * iterative.RTOL * np.linalg.norm(r, axis=0)).all()
    np.testing.assert_allclose(residual, left, rtol=0, atol=1e-12 * np.abs(r).max())


def test_the_preconditioner_leaves_few_iterations():
    A, r = kernel(0, 300, 4.0), np.random.default_rng(1).standard_normal((300, 2))
    counts = {}
    for rank in (1, 100):
        products = []
        iterative.solve(same, lambda v, to=products: to.append(v) or v @ A, nystroem(A, 0.01, rank), r.T)
        counts[rank] = len(products)
    assert 2 * counts[100] < 20 < counts[1]


def test_zero_residuals_stay_zero():
    r = np.zeros((5, 2))
    r[:, 1] = 1.0
    v, _ = iterative.solve(same, lambda v: 2.0 * v, nystroem(2.0 * np.eye(5), 1.0, 3), r.T)
    np.testing.assert_allclose(v, r.T / 3, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_samples_are_those_with_a_kernel_matrix(name, monkeypatch):
    monkeypatch.setattr(linear, "BLOCK", 4)  # so that the last block of the matrix overlaps the one before
    net, backend = NETWORKS[name]
    make = partial(BayesianRND, net, 3, 2, noise_std=0.1, linearised=True, backend=backend)
    whole = make().fit(DATA.X, DATA.y)
    without = make(solver=GradientFlow(memory=1)).fit(DATA.X, DATA.y)
    for method in ("errors", "predict"):
        expected, found = (getattr(model, method)(DATA.X_test) for model in (whole, without))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(without.sample_y(DATA.X_test, 4), whole.sample_y(DATA.X_test, 4), rtol=0, atol=1e-4)
    assert 0 < without.report.residual < 1e-5
    one = make(solver=GradientFlow(memory=16 * len(DATA.X) ** 2)).fit(DATA.X, DATA.y)
    assert ("by one matrix" in one.report.notes[0]) == isinstance(net, MLP)
    np.testing.assert_allclose(one.errors(DATA.X_test), whole.errors(DATA.X_test), rtol=1e-5, atol=1e-5)


def test_no_matrix_over_pairs_of_points_is_formed(monkeypatch):
    from rndlib.training.backends.jax import JaxBackend

    monkeypatch.setattr(JaxBackend, "tangent_kernels", None)
    data = datasets.toy(0, n_train=600, n_test=4)
    net = MLP(3, width=32)
    model = BayesianRND(net, 4, noise_std=0.1, linearised=True, backend="jax", solver=GradientFlow(memory=2**20))
    assert model.fit(data.X, data.y).report.residual < 1e-5


@pytest.mark.filterwarnings("ignore::rndlib.HeadsWarning")
def test_what_does_not_fit_is_refused():
    net, small = MLP(3, width=32), GradientFlow(memory=2**10)
    with pytest.raises(ValueError, match=r"over the 10 rows of X take 4\.7 KiB, and memory = 1024 is 1\.0 KiB: give"):
        DeepEnsemble(net, 2, solver=small).fit(DATA.X, DATA.y)
    finite = GradientFlow(time=1.0, memory=2**10)
    with pytest.raises(ValueError, match="fewer rows, or time = inf, for which they are not formed"):
        RND(net, 2, linearised=True, solver=finite).fit(DATA.X)
    close, labels = np.concatenate([DATA.X + 1e-7 * k for k in range(4)]), np.linspace(-2, 2, 40)
    # Of one column or of ten. With one, the recurrence of conjugate gradients ends with a small residual, a wrong one.
    for flow in (small, GradientFlow(memory=16 * 40 * 10)):
        with pytest.raises(ValueError, match="tangent kernel of its 40 rows is too close to singular") as refused:
            BayesianRND(net, 2, linearised=True, solver=flow).fit(close, labels)
        enough = float(str(refused.value).split("noise_std of about ")[1].split()[0])
        assert 0 < enough < 0.1
        BayesianRND(net, 2, noise_std=enough, linearised=True, solver=flow).fit(close, labels)
    with pytest.raises(ValueError, match="memory = 0"):
        GradientFlow(memory=0)
    many = np.random.default_rng(0).standard_normal((200_000, 3))
    with pytest.raises(
        ValueError,
        match=r"the 200000 rows of X take 1,788\.1 GiB, and memory = 4294967296 is 4\.0 GiB: give GradientFlow",
    ):
        BayesianRND(net, 2, noise_std=0.1).fit(many)
    assert RND(net, 2, linearised=True, solver=GradientFlow(time=inf)).fit(DATA.X).report.residual < 1e-6


def test_the_noise_that_is_advised_is_enough():
    """Where iterations and not rounding are the limit: eigenvalues that fall slowly beyond those taken out."""
    A, r = kernel(0, 200, 3.0), np.random.default_rng(1).standard_normal((200, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterative, "ITERATIONS", 40)
        with pytest.raises(ValueError, match="noise_std of about") as refused:
            iterative.solve(same, lambda v: v @ A, nystroem(A, 1e-4, 10), r.T)
        enough = float(str(refused.value).split("noise_std of about ")[1].split()[0])
        iterative.solve(same, lambda v: v @ A, nystroem(A, enough**2, 10), r.T)
