"""The laws against formulas written out with matrix exponentials and repeated steps, and at their limits."""

from functools import cache, partial
from math import inf

import jaxtyping
import numpy as np
import pytest
from scipy import linalg, stats

from rndlib import MLP, kernels, laws
from rndlib.theory.gaussian import mended

NET = MLP(3, depth=2, activation="silu", sigma_w=1.5, sigma_b=0.1)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(8, 3))
Y = X.sum(1) - 2 * X.prod(1)
X_TEST = np.vstack([X[:2], RNG.normal(size=(5, 3))])
NETS = {"mlp": NET, "kernels of a function": partial(kernels.kernel, NET)}
TIMES = [0.3, 4e3, inf]
NOISES = [0, 1e-2, 0.7]

# Condition number of Theta on X, checked below: solving loses a factor of it times eps in G, and kernels of order 1.
CONDITION = 1e5
ROUNDING = CONDITION * np.finfo(float).eps


@cache
def kernel(*points: bytes):
    return kernels.kernel(NET, *(np.frombuffer(of).reshape(-1, 3) for of in points))


def theta(A, B):
    return kernel(A.tobytes(), B.tobytes()).ntk


def kappa(A, B):
    return kernel(A.tobytes(), B.tobytes()).nngp


def decay(A, time):
    """exp(-A t), whose limit is 0."""
    return np.zeros_like(A) if time == inf else linalg.expm(-A * time)


def gain(A, C, E):
    return np.linalg.solve(A, (np.eye(len(A)) - E) @ C)


def close(actual, expected, tolerance=ROUNDING):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def agrees(law, mean, cov):
    close(law.mean, mean)
    close(law.var, np.diag(cov))
    close(law.cov, cov)


def standard_cov(G, prior=kappa):
    cross = G.T @ prior(X, X_TEST)
    return prior(X_TEST, X_TEST) + G.T @ prior(X, X) @ G - (cross + cross.T)


def test_the_problem_is_as_well_conditioned_as_the_margins_take_it_to_be():
    assert np.linalg.cond(theta(X, X)) < CONDITION


# ---------------------------------------------------------------------------------------------- against formulas


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
@pytest.mark.parametrize("time", TIMES)
def test_ensemble_and_rnd_error(net, time):
    G = gain(theta(X, X), theta(X, X_TEST), decay(theta(X, X), time))
    agrees(laws.ensemble(net, X, Y, X_TEST, time, full_cov=True), G.T @ Y, standard_cov(G))
    agrees(laws.rnd_error(net, X, X_TEST, time, full_cov=True), np.zeros(len(X_TEST)), 2 * standard_cov(G))


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
@pytest.mark.parametrize("noise_std", NOISES)
def test_posterior(net, noise_std):
    A, C = theta(X, X) + noise_std**2 * np.eye(len(X)), theta(X, X_TEST)
    law = laws.posterior(net, X, Y, X_TEST, noise_std, full_cov=True)
    agrees(law, C.T @ np.linalg.solve(A, Y), theta(X_TEST, X_TEST) - C.T @ np.linalg.solve(A, C))


@pytest.mark.parametrize("noise_std", NOISES)
@pytest.mark.parametrize("time", TIMES)
def test_bayesian_rnd_error(time, noise_std):
    A, C = theta(X, X) + noise_std**2 * np.eye(len(X)), theta(X, X_TEST)
    # The error starts as GP(0, Theta), with the jitter on X only, and is driven to 0 there: its covariance written
    # as that of e(x) - G^T e(X), rather than with E^2 as in the law's docstring.
    G = gain(A, C, decay(A, time))
    cov = theta(X_TEST, X_TEST) - G.T @ C - C.T @ G + G.T @ A @ G
    agrees(laws.bayesian_rnd_error(NET, X, X_TEST, time, noise_std, full_cov=True), np.zeros(len(X_TEST)), cov)


def test_without_full_covariance_the_rest_is_the_same():
    for name, args in CALLS.items():
        with_cov, law = getattr(laws, name)(*args, full_cov=True), getattr(laws, name)(*args)
        close(law.mean, with_cov.mean, 1e-14)
        close(law.var, with_cov.var, 1e-14)
        assert law.cov is None
        np.testing.assert_array_equal(with_cov.cov, with_cov.cov.T)
        np.testing.assert_array_equal(with_cov.cov.diagonal(), with_cov.var)
        # Off the diagonal an error of ROUNDING an entry, over 7 points.
        assert np.linalg.eigvalsh(with_cov.cov)[0] >= -len(X_TEST) * ROUNDING * with_cov.var.max()


CALLS = {
    "ensemble": (NET, X, Y, X_TEST),
    "rnd_error": (NET, X, X_TEST),
    "posterior": (NET, X, Y, X_TEST),
    "bayesian_rnd_error": (NET, X, X_TEST),
}


def test_gradient_descent_step_by_step():
    """The linear network's functions on X and X_TEST through 40 steps, for each of their starting values."""
    A, C = theta(X, X), theta(X, X_TEST)
    top = np.linalg.eigvalsh(A)[-1]
    joint = np.vstack([A, C.T])
    for share in (0.3, 0.99):  # the second beyond 1 / lambda_max, where the fastest direction oscillates
        rate = share * 2 / top
        n, t = len(X), len(X_TEST)
        state = np.eye(n + t)  # f_k = state f_0 + shift y on X, then X_TEST
        shift = np.zeros((n + t, n))
        for _ in range(40):
            state, shift = state - rate * joint @ state[:n], shift - rate * joint @ (shift[:n] - np.eye(n))
        points = np.vstack([X, X_TEST])
        law = laws.ensemble(NET, X, Y, X_TEST, 40 * rate, full_cov=True, learning_rate=rate)
        cov = (state @ kappa(points, points) @ state.T)[n:, n:]
        agrees(law, (shift @ Y)[n:], cov)
        agrees(laws.rnd_error(NET, X, X_TEST, 40 * rate, True, rate), np.zeros(t), 2 * cov)
        bayesian = laws.bayesian_rnd_error(NET, X, X_TEST, 40 * rate, full_cov=True, learning_rate=rate)
        agrees(bayesian, np.zeros(t), (state @ theta(points, points) @ state.T)[n:, n:])


@pytest.mark.parametrize("time", [0.3, 20.0])
def test_a_singular_kernel_at_finite_time(time):
    """Repeated points, against A^-1 (I - exp(-A t)) as a block of one exponential, which needs no inverse."""
    again = np.vstack([X, X[:3]])
    y = np.append(Y, [1.0, 2.0, 3.0])
    A, n = theta(again, again), len(again)
    block = linalg.expm(np.block([[-A, np.eye(n)], [np.zeros((n, 2 * n))]]) * time)[:n, n:]
    G = block @ theta(again, X_TEST)
    law = laws.ensemble(NET, again, y, X_TEST, time)
    close(law.mean, G.T @ y)
    cross = (G * kappa(again, X_TEST)).sum(0)
    close(law.var, kernels.diagonal(NET, X_TEST).nngp + ((kappa(again, again) @ G) * G).sum(0) - 2 * cross)


# ---------------------------------------------------------------------------------------------- limits and relations


def test_time_zero_is_the_prior():
    d, k = kernels.diagonal(NET, X_TEST), kernels.kernel(NET, X_TEST)
    for law, prior in (
        (laws.ensemble(NET, X, Y, X_TEST, 0, True), k.nngp),
        (laws.rnd_error(NET, X, X_TEST, 0, True), 2 * k.nngp),
        (laws.bayesian_rnd_error(NET, X, X_TEST, 0, 0.3, True), k.ntk),
    ):
        np.testing.assert_array_equal(law.mean, 0)
        np.testing.assert_array_equal(law.cov, prior)
    np.testing.assert_array_equal(laws.ensemble(NET, X, Y, X_TEST, 0).var, d.nngp)


def test_at_the_training_points():
    """Converged functions interpolate: the mean is y (not -y, the sign that the paper prints), the variance 0."""
    for law in (laws.ensemble(NET, X, Y, X), laws.posterior(NET, X, Y, X)):
        close(law.mean, Y)
        assert np.abs(law.mean + Y).max() > 1
        assert (law.var >= 0).all()
        close(law.var, np.zeros(len(X)))


# ---------------------------------------------------------------------------------------------- against draws


def test_mean_square_is_the_law_of_a_mean_square():
    rng = np.random.default_rng(0)
    variance, dof, n = 2.5, 6, 4000
    draws = np.sqrt(variance) * rng.normal(size=(n, dof))
    # A seeded Kolmogorov-Smirnov test at 1e-3, and the same with a degree of freedom less, which it must reject.
    assert stats.kstest((draws**2).mean(1), laws.mean_square(variance, dof).cdf).pvalue > 1e-3
    assert stats.kstest((draws**2).mean(1), laws.mean_square(variance, dof - 1).cdf).pvalue < 1e-3
    members = np.sqrt(variance) * rng.normal(size=(n, dof + 1))
    assert stats.kstest(members.var(1, ddof=1), laws.mean_square(variance, dof).cdf).pvalue > 1e-3


# ---------------------------------------------------------------------------------------------- kernels of a function


def test_variances_are_taken_from_blocks_of_the_kernel():
    """Of more points than a block has, without the kernel between all of them."""
    many = RNG.normal(size=(150, 3))
    asked = []

    def watched(X1, X2):
        asked.append((len(X1), len(X2)))
        return kernels.kernel(NET, X1, X2)

    close(laws.posterior(watched, X, Y, many, 0.1).var, laws.posterior(NET, X, Y, many, 0.1).var, 1e-9)
    assert (150, 150) not in asked


def test_points_have_any_shape_and_the_given_kernels_are_left_alone():
    gram = np.random.default_rng(0).normal(size=(9, 9))
    gram = gram @ gram.T + 9 * np.eye(9)
    images = np.arange(36.0).reshape(9, 2, 2)

    def given(X1, X2):
        rows, cols = (np.asarray(at[:, 0, 0] // 4, int) for at in (X1, X2))
        part = gram[np.ix_(rows, cols)]
        part.flags.writeable = False
        return kernels.Kernel(part, part)

    law = laws.posterior(given, images[:5], np.arange(5.0), images[5:], noise_std=1.0, full_cov=True)
    A, C = gram[:5, :5] + np.eye(5), gram[:5, 5:]
    assert np.allclose(law.mean, C.T @ np.linalg.solve(A, np.arange(5.0)))
    assert law.cov is not None
    assert np.allclose(law.cov, gram[5:, 5:] - C.T @ np.linalg.solve(A, C))


# ---------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("variance", "dof", "message"),
    [
        (0.0, 3, "variance has an entry of 0: give entries above 0"),
        ([1.0, -2.0], 3, "variance has an entry of -2"),
        ([1.0, np.nan], 3, "variance has a NaN"),
        ([], 3, "variance has shape"),
        (1.0, 0, "dof = 0: give a whole number of at least 1"),
    ],
)
def test_bad_mean_square(variance, dof, message):
    with pytest.raises(ValueError, match=message):
        laws.mean_square(variance, dof)


def with_entry(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


BAD_ARRAYS = [
    ("X", X[:, :2], r"X has shape \(8, 2\): give \(n_samples, 3\)"),
    ("X", with_entry(X, (3, 1), np.nan), r"X has a NaN or infinity, first at \[3, 1\]"),
    ("X", X[:0], r"X has shape \(0, 3\)"),
    ("X", np.vstack([X, X[5]]), "X has 1 repeated rows"),
    ("X", np.vstack([X, X[5] + 1e-12]), "X: the tangent kernel of its rows is singular"),
    ("X", 1e90 * X, r"X: row 0 has a variance of .* in layer 1"),
    ("y", Y[:4], r"y has shape \(4,\): give \(8,\)"),
    ("y", with_entry(Y, 2, np.inf), r"y has a NaN or infinity, first at \[2\]"),
    ("X_test", X_TEST[0], r"X_test has shape \(3,\)"),
    ("X_test", with_entry(X_TEST, (0, 0), np.nan), "X_test has a NaN"),
    ("X_test", 1e90 * X_TEST, "X_test: row 0 has a variance of"),
]


@pytest.mark.parametrize(
    ("name", "argument", "value", "message"),
    [(name, *bad) for name in CALLS for bad in BAD_ARRAYS if bad[0] != "y" or name in ("ensemble", "posterior")],
)
def test_bad_arrays(name, argument, value, message):
    labelled = name in ("ensemble", "posterior")
    arguments = dict(zip(["net", "X", *["y"] * labelled, "X_test"], CALLS[name], strict=True)) | {argument: value}
    if argument == "X" and labelled:
        arguments["y"] = np.zeros(len(value))
    with pytest.raises(ValueError, match=message):
        getattr(laws, name)(**arguments)


@pytest.mark.parametrize("name", ["ensemble", "rnd_error", "bayesian_rnd_error"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": -1.0}, r"time = -1.0: give a number of 0 or more, or math.inf"),
        ({"time": np.nan}, "time = nan"),
        ({"time": 1.0, "learning_rate": 0.0}, r"learning_rate = 0.0: give a number above 0"),
        ({"time": 1.0, "learning_rate": np.inf}, "learning_rate = inf"),
        ({"time": 1.0, "learning_rate": 0.3}, r"time = 1.0 is 3.33333 steps of learning_rate = 0.3: give a whole"),
        ({"time": 0.25, "learning_rate": 0.1}, r"time = 0.25 is 2.5 steps"),
        ({"learning_rate": 0.1}, r"time = inf is not a finite number of steps .* leave learning_rate out"),
        ({"time": 1.0, "learning_rate": 1e-320}, "not a finite number of steps"),
    ],
)
def test_bad_schedules(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(laws, name)(*CALLS[name], **options)


def test_the_learning_rate_is_refused_from_its_limit_on():
    limit = 2 / np.linalg.eigvalsh(theta(X, X))[-1]
    laws.ensemble(NET, X, Y, X_TEST, 3 * 0.999 * limit, learning_rate=0.999 * limit)
    with pytest.raises(ValueError, match=r"less than 2 / lambda_max = [\d.]+ here: lower it"):
        laws.ensemble(NET, X, Y, X_TEST, 3 * 1.001 * limit, learning_rate=1.001 * limit)


@pytest.mark.parametrize("noise_std", [-0.1, np.nan, np.inf, 1e200])
def test_bad_noise(noise_std):
    with pytest.raises(ValueError, match="noise_std = "):
        laws.posterior(NET, X, Y, X_TEST, noise_std)
    with pytest.raises(ValueError, match="noise_std = "):
        laws.bayesian_rnd_error(NET, X, X_TEST, 1.0, noise_std)


@pytest.mark.parametrize("time", [1e13, inf])
def test_singular_kernels_without_repeated_points(time):
    """More points than a linear model has parameters; relu without bias at two points on one ray."""
    with pytest.raises(ValueError, match=r"X: the tangent kernel of its rows is singular .*noise_std of about"):
        laws.ensemble(MLP(3, depth=1), X, Y, X_TEST, time)
    ray = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    with pytest.raises(ValueError, match=r"X: the tangent kernel of its rows is singular"):
        laws.rnd_error(MLP(3, activation="relu", sigma_b=0.0), ray, X_TEST, time)


@pytest.mark.parametrize("activation", ["silu", "tanh", "sin", "erf"])
def test_a_row_of_zeros_among_others_has_no_variance(activation):
    """Without biases the function is 0 there. Kernels by quadrature are accurate to their largest entry alone."""
    net, at = MLP(3, activation=activation, sigma_b=0.0), np.concatenate([X_TEST, np.zeros((1, 3)), 1e-9 * X_TEST[:1]])
    for law in (laws.ensemble(net, X, Y, at), laws.posterior(net, X, Y, at, noise_std=0.1)):
        assert (law.var[-2:] < 1e-8).all()
        assert (law.var[2:-2] > 0).all()  # the first two are training points


def test_a_variance_far_below_zero_is_no_rounding():
    one = np.ones((1, 1))
    np.testing.assert_array_equal(mended(one[0], one[0], -1e-9 * one[0]).var, 0)
    with pytest.raises(ValueError, match="too ill-conditioned for a variance at row 0 of X_test"):
        mended(one[0], one[0], -1e-5 * one[0])


@pytest.mark.parametrize(
    ("net", "X_test", "message"),
    [
        ("silu", X_TEST, "net = 'silu': give an rndlib.MLP, or a function"),
        (lambda a, b: np.eye(6), X_TEST, "returns ndarray: return an object that has nngp and ntk"),
        (lambda a, b: kernels.kernel(NET, a[:-1], b), X_TEST, r"net\(X1, X2\).nngp has shape"),
        (
            lambda a, b: kernels.Kernel(*(k.astype(np.float32) for k in kernels.matrices(NET, a, b))),
            X_TEST,
            "ntk is float32, whose rounding looks like small eigenvalues: compute it in float64",
        ),
        (partial(kernels.kernel, NET), X_TEST[:, :2], "X_test has shape"),
    ],
)
def test_bad_kernels_are_refused(net, X_test, message):
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match=message):
            laws.posterior(net, X, Y, X_test)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
