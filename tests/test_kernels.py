"""Activations, Gaussian expectations and kernels, against references that share no code with them."""

import numpy as np
import pytest
import quadrature
from hypothesis import given, settings
from hypothesis import strategies as st

from rndlib import MLP, kernels
from rndlib.activations import ACTIVATIONS, NUMPY
from rndlib.theory.expectations import between

EPS = np.finfo(float).eps
# What the docstring of rndlib.theory.kernels promises, relative to the largest entry.
PROMISED = {"erf": 1e-11, "gelu": 1e-11, "relu": 3e-8, "leaky_relu": 3e-8, "elu": 1e-9}
PROMISED |= dict.fromkeys(["silu", "tanh", "softplus", "sin"], 1e-10)
NAMES = sorted(PROMISED)
KINKS, SMOOTH = ("relu", "leaky_relu"), ("erf", "gelu")  # closed forms; the others are interpolated

few = settings(max_examples=25, deadline=None, derandomize=True)
# Fields, not networks: the checker of annotations draws random numbers, which a strategy may not.
networks = st.fixed_dictionaries(
    {
        "in_dim": st.integers(1, 4),
        "depth": st.integers(1, 4),
        "activation": st.sampled_from(NAMES),
        "sigma_w": st.floats(0.3, 2),
        "sigma_b": st.sampled_from([0.0, 0.1, 1.0]),
    }
)
seeds = st.integers(0, 2**32 - 1)


def parts(k):
    return np.array([k.nngp, k.ntk, k.body])


def rounding(net, X1, X2):
    """Error of an entry when scalar products of the inputs change by rounding.

    Then kdot of relu is off by at most sqrt(32 eps) / 2 pi, 2e-8 of its largest value 1/2, in each layer. The others
    are smooth on the scale 1, and the variances here are below 1e3, so a few hundred eps a layer; 1e-12 is that with
    room. What is interpolated, for other points at other nodes, is as exact as promised each time.
    """
    largest = max(kernels.diagonal(net, X).ntk.max() for X in (X1, X2))
    if net.activation in KINKS:
        return largest * 2e-8 * net.depth
    return largest * (1e-12 if net.activation in SMOOTH else 2 * PROMISED[net.activation])


# ---------------------------------------------------------------------------------------------- activations


@pytest.mark.parametrize("name", NAMES)
def test_activation_at_extreme_arguments(name):
    u = np.concatenate([-np.logspace(308, -300, 500), [0.0], np.logspace(-300, 308, 500)])
    a = ACTIVATIONS[name]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value = a(u, NUMPY)
    assert np.isfinite(value).all()
    low, high = {"erf": (-1, 1), "tanh": (-1, 1), "elu": (-1, u[-1]), "leaky_relu": (0.01 * u[0], u[-1])}.get(
        name, (0, u[-1])
    )
    if name != "sin":
        assert (value[0], value[-1]) == (low, high)


# ---------------------------------------------------------------------------------------------- expectations


@pytest.mark.parametrize("name", ["silu", "tanh", "softplus", "sin", "elu"])
@pytest.mark.parametrize("largest", [1.0, 8.0, 30.0])
def test_interpolated_expectations_are_those_of_a_rule_in_the_plane(name, largest):
    """40 deviations, so that none is a node, from next to nothing to `largest`, at angles from 0 to pi."""
    if (name, largest) == ("sin", 30.0):
        pytest.skip("30 radians at a time are refused")
    s = np.linspace(0.01, largest, 40)
    here = between(ACTIVATIONS[name], s**2, s**2)
    for angle in (0, 1e-4, 0.05, 0.7, 2.0, 3.1, np.pi):
        found = here(np.outer(s, s) * np.cos(angle), slice(None), slice(None))
        cos1, cos2, r, weight = quadrature.rule(angle, 200)
        for i, j in ((0, 0), (3, 39), (25, 20), (39, 38), (39, 39)):
            for part, f in zip(found, (quadrature.FUNCTIONS[name], quadrature.DERIVATIVES[name]), strict=True):
                exact = np.sum(weight * f(s[i] * r * cos1) * f(s[j] * r * cos2))
                # Points on the circle grow with the deviation, and their rounding.
                assert abs(part[i, j] - exact) < PROMISED[name] * max(1, largest / 3) * np.abs(part).max()


@pytest.mark.parametrize("name", ["erf", "gelu", "relu"])
def test_closed_forms_grow_as_the_activation_does(name):
    """Far from the origin erf is a sign and gelu relu, whose kernels are homogeneous; nothing overflows."""
    X = np.array([[1.0, 0.3], [-1.0, 2.0], [1.0, 0.3], [-1.0, -0.3]])
    large = [kernels.kernel(MLP(2, activation=name, sigma_b=0.0), size * X) for size in (1e5, 1e9)]
    for part, power in {"nngp": 0}.items() if name == "erf" else {"nngp": 8, "ntk": 8}.items():
        one, other = (getattr(k, part) for k in large)
        np.testing.assert_allclose(other / 10.0**power, one, rtol=0, atol=1e-4 * np.abs(one).max())
    assert np.isfinite(large[1].ntk).all()


# ---------------------------------------------------------------------------------------------- against quadrature

CASES = [(2.0, 0.0, 4), (2.0, 1.0, 4), (0.5, 0.0, 2)]  # the ends of what is promised


def awkward_points():
    """Two points, and these again repeated, nearly repeated, opposite, collinear, small, large, with a general one."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3, 3))
    step = rng.normal(size=3)
    near = [X[0] + h * step for h in (0, 1e-2, 1e-4, 1e-6, 1e-7, 3e-8, 1e-8)]
    return X[:2], np.array([*near, X[0] * (1 + 1e-8), -X[0], -X[0] + 1e-7 * step, 3 * X[0], 1e-3 * X[1], 9 * X[2]])


def correlation(net, X1, X2):
    A1, A2 = (np.c_[net.sigma_w / np.sqrt(net.in_dim) * X, np.full(len(X), net.sigma_b)] for X in (X1, X2))
    return A1 @ A2.T / np.outer(np.linalg.norm(A1, axis=1), np.linalg.norm(A2, axis=1))


@pytest.mark.parametrize(("sigma_w", "sigma_b", "depth"), CASES)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_matches_quadrature(name, sigma_w, sigma_b, depth):
    net = MLP(3, depth=depth, activation=name, sigma_w=sigma_w, sigma_b=sigma_b)
    X1, X2 = awkward_points()
    reference = quadrature.kernel(net, X1, X2, 120)
    largest = np.abs(reference).max((1, 2))[:, None, None]
    # The reference must itself be good to a tenth of what is promised: fewer nodes tell.
    assert (np.abs(quadrature.kernel(net, X1[:1], X2[-3:], 96) - reference[:, :1, -3:]) / largest).max() < 1e-12
    error = np.abs(parts(kernels.kernel(net, X1, X2)) - reference) / largest
    assert error.max() < PROMISED[name]
    if name in KINKS:
        # Their one delicate quantity is the angle of two points, off by a few eps over the angle (over its supplement
        # for opposite points) in each layer.
        sine = np.sqrt(1 - np.clip(correlation(net, X1, X2), -1, 1) ** 2)
        assert error[:, sine > 1e-3].max() < 1e-12


# ---------------------------------------------------------------------------------------------- properties


@few
@given(networks, seeds, st.integers(1, 12))
def test_kernel_of_points_with_themselves(fields, seed, n):
    net = MLP(**fields)
    X = np.random.default_rng(seed).normal(size=(n, net.in_dim))
    k, d, among = kernels.kernel(net, X), kernels.diagonal(net, X), kernels.kernel(net, X, X)
    # Of repeated points: exact but for rounding, also for relu; but for what is interpolated at other nodes.
    rtol = 1e-12 if net.activation in KINKS + SMOOTH else 2 * PROMISED[fields["activation"]]
    for matrix, vector, again in zip(parts(k), parts(d), parts(among), strict=True):
        assert matrix.dtype == vector.dtype == np.float64
        np.testing.assert_allclose(again.diagonal(), vector, rtol=rtol)
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(matrix.diagonal(), vector)
        # An entry is off by at most `rounding`, an eigenvalue by at most n times that.
        assert np.linalg.eigvalsh(matrix)[0] >= -n * rounding(net, X, X)
    if net.depth == 1:
        np.testing.assert_array_equal(k.body, 0)


@few
@given(networks, seeds, st.integers(1, 9), st.integers(1, 9))
def test_kernel_between_two_sets(fields, seed, n1, n2):
    net = MLP(**fields)
    rng = np.random.default_rng(seed)
    X1, X2 = rng.normal(size=(n1, net.in_dim)), rng.normal(size=(n2, net.in_dim))
    k = parts(kernels.kernel(net, X1, X2))
    atol = rounding(net, X1, X2)
    joint = parts(kernels.kernel(net, np.vstack([X1, X2])))
    np.testing.assert_allclose(k, joint[:, :n1, n1:], rtol=0, atol=atol)
    np.testing.assert_allclose(k, parts(kernels.kernel(net, X2, X1)).transpose(0, 2, 1), rtol=0, atol=atol)
    order1, order2 = rng.permutation(n1), rng.permutation(n2)
    permuted = parts(kernels.kernel(net, X1[order1], X2[order2]))
    np.testing.assert_allclose(permuted, k[:, order1][:, :, order2], rtol=0, atol=atol)
    rotation = np.linalg.qr(rng.normal(size=(net.in_dim, net.in_dim)))[0]
    np.testing.assert_allclose(parts(kernels.kernel(net, X1 @ rotation, X2 @ rotation)), k, rtol=0, atol=atol)


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (70, 1100)])
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_tiles_join_up(name, shape):
    """Sizes across several tiles, against rows and columns picked out one by one; zero and huge points among them."""
    net = MLP(2, depth=3, activation=name, sigma_b=0.0)
    rng = np.random.default_rng(0)
    X1, X2 = rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 2))
    X1[-1] *= 5
    X2[-1] = 0
    k = parts(kernels.kernel(net, X1, X2))
    assert k.shape == (3, *shape)
    rows, cols = rng.integers(shape[0], size=20), rng.integers(shape[1], size=20)
    single = np.array([parts(kernels.kernel(net, X1[[i]], X2[[j]]))[:, 0, 0] for i, j in zip(rows, cols, strict=True)])
    np.testing.assert_allclose(k[:, rows, cols].T, single, rtol=0, atol=rounding(net, X1, X2))


@pytest.mark.parametrize("n", [63, 600])
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_symmetric_tiles_join_up(name, n):
    net = MLP(2, depth=3, activation=name)
    X = np.random.default_rng(0).normal(size=(n, 2))
    X[:5] = X[5]
    X[6] = -X[5]
    k, both = kernels.kernel(net, X), parts(kernels.kernel(net, X, X))
    np.testing.assert_allclose(parts(k), both, rtol=0, atol=rounding(net, X, X))
    np.testing.assert_array_equal(parts(k), parts(k).transpose(0, 2, 1))
    np.testing.assert_array_equal(k.ntk.diagonal(), kernels.diagonal(net, X).ntk)
    # Equal points make a singular matrix: what is interpolated must not differ on the diagonal.
    np.testing.assert_allclose(k.ntk[:6, :6], k.ntk[0, 0], rtol=100 * EPS)
    assert np.linalg.eigvalsh(k.ntk)[0] >= -n * rounding(net, X, X)


# ---------------------------------------------------------------------------------------------- arguments


def test_lists_and_float32_are_taken_as_float64_and_inputs_are_left_alone():
    net = MLP(2)
    X = np.array([[0.5, 1], [-2, 0.25]])
    before = X.copy()
    for given_as in (X.tolist(), X.astype(np.float32)):
        k = kernels.kernel(net, given_as)
        assert k.ntk.dtype == np.float64
        np.testing.assert_array_equal(k.ntk, kernels.kernel(net, X).ntk)
    kernels.kernel(net, X, X)
    np.testing.assert_array_equal(X, before)


def test_the_kernels_of_one_layer_are_two_arrays():
    k = kernels.diagonal(MLP(3, depth=1), np.ones((2, 3)))
    assert not np.shares_memory(k.nngp, k.ntk)


@pytest.mark.parametrize("name", NAMES)
def test_a_zero_input_without_bias(name):
    """kappa = 0 there: no division by it."""
    net = MLP(2, depth=3, activation=name, sigma_w=1.5, sigma_b=0.0)
    k = parts(kernels.kernel(net, np.array([[0.0, 0], [1, 2]])))
    if name != "softplus":  # the one that is not 0 at 0
        np.testing.assert_allclose(k[:, 0], 0, atol=1e-15)
    assert (k[:, 1, 1] > 0).all()
    assert np.isfinite(k).all()


@pytest.mark.parametrize(
    ("X1", "X2", "message"),
    [
        ([[1.0, np.nan]], None, "X1 has a NaN"),
        ([[1.0, 2]], [[np.inf, 0.0]], "X2 has a NaN or infinity"),
        ([[1.0, 2, 3]], None, r"X1 has shape \(1, 3\): give \(n_samples, 2\)"),
        ([1.0, 2.0], None, r"X1 has shape \(2,\)"),
        ([[1.0, 2]], np.zeros((0, 2)), r"X2 has shape \(0, 2\)"),
        ([["a", "b"]], None, "X1 is list: give an array of numbers"),
        ([[1e90, 0.0]], None, "X1: row 0 has a variance of .* in layer 1, .*rescale X1"),
        ([[1.0, 0]], [[1.0, 0], [1e200, 0.0]], "X2: row 1 has a variance of inf"),
    ],
)
def test_bad_points(X1, X2, message):
    with pytest.raises(ValueError, match=message):
        kernels.kernel(MLP(2), X1, X2)


@pytest.mark.parametrize(("sigma_w", "x"), [(1e60, 1.0), (1e-60, 1.0), (1e200, 1.0), (1e200, 0.0), (1e150, 1e-100)])
def test_scales_that_leave_float64(sigma_w, x):
    with pytest.raises(ValueError, match=r"X1: row 0 has a variance of .*sigma_w"):
        kernels.kernel(MLP(2, depth=4, activation="relu", sigma_w=sigma_w, sigma_b=0.0), [[x, 2 * x]])
