"""Laws of kernels that are given as a function, in place of an `MLP`."""

from functools import partial

import jaxtyping
import numpy as np
import pytest

from rndlib import MLP, kernels, laws

NET = MLP(3)
RNG = np.random.default_rng(0)
X, Y, X_TEST = RNG.normal(size=(6, 3)), RNG.normal(size=6), RNG.normal(size=(150, 3))
LAWS = {
    "ensemble": partial(laws.ensemble, X=X, y=Y, X_test=X_TEST, time=2.0),
    "rnd_error": partial(laws.rnd_error, X=X, X_test=X_TEST),
    "posterior": partial(laws.posterior, X=X, y=Y, X_test=X_TEST, noise_std=0.1),
    "bayesian_rnd_error": partial(laws.bayesian_rnd_error, X=X, X_test=X_TEST, noise_std=0.1),
}


@pytest.mark.parametrize("full_cov", [False, True])
@pytest.mark.parametrize("law", LAWS)
def test_the_kernels_of_an_mlp_as_a_function_give_its_laws(law, full_cov):
    ours, theirs = (LAWS[law](net, full_cov=full_cov) for net in (NET, partial(kernels.kernel, NET)))
    assert np.allclose(theirs.mean, ours.mean, rtol=1e-9)
    assert np.allclose(theirs.var, ours.var, rtol=1e-7)
    if not full_cov:
        assert theirs.cov is None
    else:
        assert theirs.cov is not None
        assert ours.cov is not None
        assert np.allclose(theirs.cov, ours.cov, rtol=1e-7, atol=1e-9)


def test_points_have_any_shape_and_the_given_kernels_are_left_alone():
    gram = RNG.normal(size=(9, 9))
    gram = gram @ gram.T + 9 * np.eye(9)
    images = np.arange(36.0).reshape(9, 2, 2)

    def given(X1, X2):
        rows, cols = (np.asarray(at[:, 0, 0] // 4, int) for at in (X1, X2))
        part = gram[np.ix_(rows, cols)]
        part.flags.writeable = False
        return kernels.Kernel(part, part, 0 * part)

    law = laws.posterior(given, images[:5], np.arange(5.0), images[5:], noise_std=1.0, full_cov=True)
    A, C = gram[:5, :5] + np.eye(5), gram[:5, 5:]
    assert np.allclose(law.mean, C.T @ np.linalg.solve(A, np.arange(5.0)))
    assert law.cov is not None
    assert np.allclose(law.cov, gram[5:, 5:] - C.T @ np.linalg.solve(A, C))


@pytest.mark.parametrize(
    ("net", "X_test", "message"),
    [
        ("silu", X_TEST, "net = 'silu': give an rndlib.MLP, or a function"),
        (lambda a, b: np.eye(6), X_TEST, "returns ndarray: return an object that has nngp and ntk"),
        (lambda a, b: kernels.kernel(NET, a[:-1], b), X_TEST, r"net\(X1, X2\).nngp has shape"),
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
