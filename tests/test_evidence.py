"""The evidence of the NTK-GP, its derivatives, and the hyperparameters that it chooses."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from rndlib import MLP, kernels
from rndlib.theory import erf, evidence

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3)), RNG.normal(size=(30, 2))
SCALES = np.array([0.5, 1.2, 2.0])
PHI, NONE = RNG.normal(size=(30, 2)), np.empty((30, 0))


def prior_kernel(prior, X, phi=None):
    K = kernels.ntk(prior.net, X / prior.input_scales)
    return prior.output_scale**2 * (K if phi is None else K + phi @ phi.T)


def log_evidence(K, y, noise_std):
    covariance: Any = K + noise_std**2 * np.eye(len(K))
    return multivariate_normal(cov=covariance).logpdf(y.T).sum()


def network(depth):
    return MLP(3, depth=depth, activation="erf", sigma_w=1.3, sigma_b=0.4)


@pytest.fixture
def short_strips(monkeypatch):
    """Strips of four rows, so that matrices of 30 rows have several, the last of them shorter."""
    monkeypatch.setattr(erf, "_STRIP", 4 * 30)


@pytest.mark.parametrize("phi", [NONE, PHI], ids=["network", "features"])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_derivatives_are_those_of_finite_differences(depth, phi, short_strips):
    at = np.log([*SCALES, 1.3, 0.4, 0.9, 0.3])

    def loss(at):
        return evidence.negative_log_evidence(X, Y[:, 0], phi, *evidence._read(at, depth, None))

    # A central difference is off by h^2 / 6 times a third derivative, and by the rounding of a loss of some 100 over h:
    # for third derivatives up to 1e4, 2e-7 and 1e-9.
    h = 1e-5
    numeric = [(loss(at + h * step)[0] - loss(at - h * step)[0]) / (2 * h) for step in np.eye(7)]
    assert np.allclose(loss(at)[1], numeric, rtol=0, atol=1e-6)


def test_the_evidence_is_the_density_of_the_labels():
    y = Y[:, 0]
    expected = log_evidence(0.81 * (kernels.kernel(network(3), X / SCALES).ntk + PHI @ PHI.T), y, 0.3)
    found = -evidence.negative_log_evidence(X, y, PHI, network(3), SCALES, 0.9, 0.3)[0]
    assert found == pytest.approx(expected, rel=1e-10)
    for phi in (None, PHI):
        prior = evidence.maximise(X, y, features=phi)
        expected = log_evidence(prior_kernel(prior, X, phi), y, prior.noise_std)
        assert prior.log_evidence == pytest.approx(expected, rel=1e-8)


def test_features_are_compared_with_the_network_at_its_own_optimum():
    """A slope that the network does not need costs it next to nothing, also where the starts lead to a worse optimum.

    They do here: the wave of period 1/3 is then taken for noise, at -75 nats and not at 2.
    """
    t = np.linspace(-3, 3, 72, endpoint=False)[:, None]
    y = 0.5 * t[:, 0] + np.sin(2 * np.pi * t[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=72)
    X, y = t / t.std(), (y - y.mean()) / y.std()
    alone, slope = evidence.maximise(X, y), evidence.maximise(X, y, features=t)
    assert abs(slope.log_evidence - alone.log_evidence) < 5
    wave = np.hstack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)])
    assert evidence.maximise(X, y, features=wave).log_evidence > alone.log_evidence + 20


def drawn(seed, n=200, noise=0.3):
    """Points and labels of a process with an erf network's kernel, which does not see the last column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    net = MLP(3, depth=2, activation="erf", sigma_w=1.5, sigma_b=0.5)
    K = kernels.kernel(net, X * [1.0, 1.0, 0.0]).ntk
    return X, rng.multivariate_normal(np.zeros(n), K + noise**2 * np.eye(n))


@pytest.mark.parametrize("seed", range(4))
def test_noise_and_an_irrelevant_column_are_found(seed):
    X, y = drawn(seed)
    found = evidence.maximise(X, y)
    # With e effective parameters, n - e residuals tell the noise to a part in sqrt(2 (n - e)); e is the trace of the
    # smoother of the true kernel.
    K = kernels.kernel(MLP(3, activation="erf", sigma_w=1.5, sigma_b=0.5), X * [1.0, 1.0, 0.0]).ntk
    left = np.trace(0.09 * np.linalg.inv(K + 0.09 * np.eye(200)))
    # One of four seeds is outside with a chance of one in a thousand.
    wide = norm.ppf(1 - 1e-3 / 8)
    assert abs(np.log(found.noise_std / 0.3)) < wide / np.sqrt(2 * left)
    # Twice the log likelihood ratio of a column that is not seen is chi-squared with one degree of freedom.
    without = log_evidence(prior_kernel(found, X * [1.0, 1.0, 0.0]), y, found.noise_std)
    assert found.log_evidence - without < norm.ppf(1 - 1e-3 / 8) ** 2 / 2
    # A column that is seen has a part of the signal that is many times the noise.
    for column in np.eye(3)[:2]:
        blind = log_evidence(prior_kernel(found, X * (1 - column)), y, found.noise_std)
        assert found.log_evidence - blind > 10
    # The truth is among the hyperparameters, up to a column that hardly counts, so the best is no less probable, up to
    # the tolerance of the optimiser.
    bounds = evidence._bounds(3, None, None)
    best = [*found.input_scales, found.net.sigma_w, found.net.sigma_b, found.output_scale, found.noise_std]
    truth = np.log([1.0, 1.0, 10.0, 1.5, 0.5, 1.0, 0.3])
    loss = evidence.negative_log_evidence(X, y, np.empty((200, 0)), *evidence._read(truth, 2, None))[0]
    loss += evidence._prior(truth, bounds)[0] - evidence._prior(np.log(best), bounds)[0]
    assert -found.log_evidence < loss + 0.01


def test_what_is_given_is_kept():
    X, y = drawn(0, n=40)
    found = evidence.maximise(X, y, noise_std=0.5, input_scales=np.array([1.0, 2.0, 3.0]))
    assert found.noise_std == 0.5
    assert found.input_scales.tolist() == pytest.approx([1, 2, 3], rel=1e-12)
    assert found.log_evidence <= evidence.maximise(X, y).log_evidence
    assert evidence.maximise(X, y, noise_std=0.0).noise_std == 0


def test_of_several_ends_the_smallest_loss_is_kept(monkeypatch):
    losses = {2: 7.0, 3: 5.0, 4: 6.0}
    monkeypatch.setattr(evidence, "DEPTHS", losses)
    monkeypatch.setattr(evidence, "_climb", lambda _data, _bounds, _noise, _most, start: (*start, losses[start[0]]))
    assert evidence.maximise(X, Y[:, 0]).net.depth == 3


def test_beyond_most_rows_a_subset_is_drawn(monkeypatch):
    X, y = drawn(2, n=120)
    assert evidence.maximise(X, y).rows == 120
    monkeypatch.setattr(evidence, "MOST_ROWS", 30)
    first, again = (evidence.maximise(X, y) for _ in range(2))
    assert first.rows == 30
    assert first.log_evidence == again.log_evidence


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((1, 1)), np.zeros(1)),
        (np.ones((5, 2)), np.arange(5.0) - 2),
        (RNG.normal(size=(8, 2)), np.zeros(8)),
        (np.repeat(RNG.normal(size=(4, 1)), 3, axis=0), RNG.normal(size=12)),
        (RNG.normal(size=(6, 40)), RNG.normal(size=6)),
    ],
)
def test_odd_data_have_an_answer(X, y):
    found = evidence.maximise(X, y)
    assert np.isfinite([found.output_scale, found.noise_std, found.log_evidence]).all()
    assert np.isfinite(prior_kernel(found, X)).all()


def test_repeated_points_without_noise_are_named():
    with pytest.raises(ValueError, match=r"is singular: .*give a larger noise_std"):
        evidence.maximise(X[[0] * 30], Y[:, 0], noise_std=0.0)


def test_two_scales_of_a_kernel_that_is_given():
    K = kernels.kernel(network(2), X).ntk
    signal = np.linalg.cholesky(K) @ Y[::-1]
    for y in (signal + 0.3 * Y, signal[:, 0] + 0.1 * Y[:, 0]):
        output_scale, noise, found = evidence.of_kernel(K, y)
        assert found == pytest.approx(log_evidence(output_scale**2 * K, y, noise), rel=1e-9)
        for factor in (0.9, 1.1):
            assert log_evidence((factor * output_scale) ** 2 * K, y, noise) < found
            assert log_evidence(output_scale**2 * K, y, factor * noise) < found
        output_scale, noise, fixed = evidence.of_kernel(K, y, noise_std=0.2)
        assert noise == 0.2
        assert fixed == pytest.approx(log_evidence(output_scale**2 * K, y, 0.2), rel=1e-9)
        assert fixed <= found


def test_labels_that_a_kernel_does_not_explain_are_noise():
    # Signs that change between the points of a line, which this kernel has as good as equal.
    K = kernels.kernel(MLP(1, activation="erf"), np.linspace(0, 0.01, 30)[:, None]).ntk
    _, noise, _ = evidence.of_kernel(K, np.resize([1.0, -1.0], 30))
    assert noise == pytest.approx(1, rel=1e-3)


def test_the_scales_of_a_kernel_have_the_units_of_the_labels():
    K = kernels.kernel(network(2), X).ntk
    once, thousandfold = evidence.of_kernel(K, Y), evidence.of_kernel(K / 25, 1000 * Y)
    assert thousandfold[0] == pytest.approx(5000 * once[0], rel=1e-4)
    assert thousandfold[1] == pytest.approx(1000 * once[1], rel=1e-4)


@pytest.mark.parametrize(
    ("K", "y", "noise_std", "message"),
    [
        (np.eye(2), [0.0, 0.0], None, "y is 0"),
        (np.zeros((2, 2)), [1.0, 2.0], None, "K is 0"),
        (np.ones((2, 2)), [1.0, 2.0], 0.0, "singular: .*give a larger noise_std"),
    ],
)
def test_a_bad_kernel_is_named(K, y, noise_std, message, as_a_user):
    with pytest.raises(ValueError, match=message):
        evidence.of_kernel(K, y, noise_std)
