"""The law of many heads on one body, against linearised networks whose heads share their hidden parameters."""

import numpy as np
import pytest

from rndlib import MLP, datasets, kernels, laws
from rndlib.paper import many_heads

NET, DATA = MLP(3), datasets.toy(2, n_test=8)
N = len(DATA.X)
WIDTH, NETWORKS, WATCHED = 64, 24, 4


def linearised(heads, start, seed):
    """Variance at the test points of a head, a mean over some heads of one network, by the joint kernel of all."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([DATA.X, DATA.X_test])
    slopes = np.hstack([NET.sigma_w / np.sqrt(3) * points, np.full((len(points), 1), NET.sigma_b)])
    value, slope = NET.phi.value_and_slope(rng.normal(size=(WIDTH, 4)) @ slopes.T)
    out = rng.normal(size=(heads, WIDTH))
    last = NET.sigma_w**2 * value.T @ value / WIDTH + NET.sigma_b**2
    hidden = NET.sigma_w / np.sqrt(WIDTH) * out[:, :, None] * slope  # (heads, units, points)
    by_unit = hidden.transpose(1, 0, 2)[..., None] * slopes  # (units, heads, points, parameters)
    J = by_unit.transpose(1, 2, 0, 3).reshape(heads, len(points), -1)
    train = J[:, :N].reshape(heads * N, -1)
    A = train @ train.T + np.kron(np.eye(heads), last[:N, :N])
    found = []
    for i in range(min(heads, WATCHED)):
        cross = J[i, N:] @ train.T
        cross[:, i * N : (i + 1) * N] += last[N:, :N]
        gains = np.linalg.solve(A, cross.T).T
        if start == "shared":
            found.append(np.sum(J[i, N:] ** 2, axis=1) + np.diag(last)[N:] - np.sum(gains * cross, axis=1))
            continue
        # Errors of different heads start independently, each from twice the kernel of the last layer.
        gains = gains.reshape(-1, heads, N)
        own = np.diag(last)[N:] - 2 * np.sum(gains[:, i] * last[N:, :N], axis=1)
        found.append(2 * (own + np.einsum("tka,ab,tkb->t", gains, last[:N, :N], gains, optimize=True)))
    return np.mean(found, axis=0)


@pytest.mark.parametrize(("start", "heads"), [("shared", WIDTH // 4), ("standard", WIDTH // 4), ("standard", WIDTH)])
def test_linearised_networks_have_the_law(start, heads):
    """What many heads change is what the law says, and not nothing.

    The number is the log of the variance with many heads on a body over that with one, less that of the laws, a mean
    over test points. One head on the same body cancels most of the scatter between networks. The margin is four
    standard errors over networks and a correction of 8 / width: measured, 7 / width at 64 and at 128 units.
    """

    def law(heads):
        return many_heads.head_variance(NET, DATA.X, DATA.X_test, heads / WIDTH, start)

    many, one = (np.stack([linearised(count, start, seed) for seed in range(NETWORKS)]) for count in (heads, 1))
    change = np.log(many / one).mean(axis=1)
    margin = 4 * change.std(ddof=1) / np.sqrt(NETWORKS) + 8 / WIDTH
    assert abs(change.mean() - np.log(law(heads) / law(1)).mean()) < margin < abs(change.mean())


@pytest.mark.parametrize(("start", "law"), [("standard", laws.rnd_error), ("shared", laws.bayesian_rnd_error)])
def test_a_law_of_a_few_heads_is_the_limit(start, law):
    """Where c goes to zero: to within the mean over units, whose error is 0.2 % of a variance (here: at most 1 %)."""
    few = many_heads.head_variance(NET, DATA.X, DATA.X_test, 1e-9, start)
    np.testing.assert_allclose(few, law(NET, DATA.X, DATA.X_test).var, rtol=0.01)


@pytest.mark.parametrize("n", [2, 7])
def test_a_law_is_what_the_matrices_of_each_unit_say(n):
    """By the formulas with k_u and W_u, (n, n) per unit, with fewer and with more points than its four parameters."""
    X, c = DATA.X[:n], 0.5
    points = np.concatenate([X, DATA.X_test])
    U, _, _ = many_heads._units(NET, points, DATA.X_test)  # of more points than parameters, so that nothing is left out
    k, kappa = U @ U.mT, kernels.kernel(NET, points).nngp
    XX, Xx = k[:, :n, :n], k[:, :n, n:]
    A = kappa[:n, :n] + XX.mean(axis=0)
    for _ in range(50):
        A = kappa[:n, :n] + np.mean(XX - c * XX @ np.linalg.solve(A + c * XX, XX), axis=0)
    W = np.linalg.inv(A + c * XX)
    G = np.linalg.solve(A, kappa[:n, n:] + np.mean(Xx - c * XX @ W @ Xx, axis=0))
    v = Xx - XX @ G
    left = np.concatenate([-G, np.eye(len(DATA.X_test))])
    expected = left.T @ (kappa + k.mean(axis=0)) @ left - c * np.mean(v.transpose(0, 2, 1) @ W @ v, 0)
    found = many_heads.head_variance(NET, X, DATA.X_test, c, "shared")
    np.testing.assert_allclose(found, expected.diagonal(), atol=1e-8 * expected.diagonal().max())


BAD = {
    r"heads_per_width = -0\.5": {"heads_per_width": -0.5},
    "net = .*depth=3.*give an MLP of depth 2": {"net": MLP(3, depth=3)},
    "start = 'own': choose one of 'standard', 'shared'": {"start": "own"},
    "X has 1 repeated rows": {"X": DATA.X[[0, 0]]},
    "X: the theory of many heads meets a singular matrix: drop points that nearly repeat": {
        "X": DATA.X[[0, 0]] + [[0], [1e-9]]
    },
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    arguments = {"net": NET, "X": DATA.X, "X_test": DATA.X_test, "heads_per_width": 0.5, "start": "shared"}
    with pytest.raises(ValueError, match=message):
        many_heads.head_variance(**{**arguments, **BAD[message]})


def test_a_law_that_does_not_settle_is_refused(monkeypatch):
    monkeypatch.setattr(many_heads, "_ITERATIONS", 2)
    with pytest.raises(ValueError, match="X: the theory of many heads did not converge in 2 steps"):
        many_heads.head_variance(NET, DATA.X, DATA.X_test, 0.5, "standard")
