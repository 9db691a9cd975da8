"""What notebook 00 compares kernels with: the recursion as it is printed, and neural-tangents, which shares no code."""

import sys
import warnings
from dataclasses import replace
from functools import partial
from math import inf
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.paper.evidence.tables import aligned
from rndlib.theory import expectations, kernels, laws

EXPERIMENTAL = "neural_tangents.experimental"


def neural_tangents() -> Any:
    """The package without its experimental part, which imports TensorFlow: that takes seconds, and prints.

    Raises ImportError if it is not installed, or does not work with the JAX that is.
    """
    given = EXPERIMENTAL in sys.modules
    if not given:
        sys.modules[EXPERIMENTAL] = ModuleType(EXPERIMENTAL)
    try:
        with warnings.catch_warnings():  # of its own dependencies
            warnings.simplefilter("ignore")
            import neural_tangents as package
    finally:
        if not given:
            del sys.modules[EXPERIMENTAL]
    if not given and hasattr(package, "experimental"):
        delattr(package, "experimental")  # so that it can still be imported
    return package


def printed_ntk(net: MLP, points: Float[np.ndarray, "t d"]) -> Float[np.ndarray, "t t"]:
    """The NTK of Proposition B.3 as printed: Eq. 52 has the kappa-dot of the layer below; the proof is right."""
    below, lower = (kernels.kernel(replace(net, depth=net.depth - k), points) for k in (1, 2))
    variance = lower.nngp.diagonal()
    _, slopes = expectations.between(net.phi, variance, variance)(lower.nngp, slice(None), slice(None))
    return below.ntk * net.sigma_w**2 * slopes + kernels.kernel(net, points).nngp


def agreement(
    net: MLP, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], X_test: Float[np.ndarray, "t d"]
) -> str:
    """A table: whether kernels and limiting distributions are those of neural-tangents, for four networks.

    "agrees" is a largest deviation below 1e-10 of the largest entry. One line says so where it cannot be imported.
    """
    try:
        package = neural_tangents()
    except ImportError as error:
        return f"neural-tangents cannot be imported here ({error})"
    rows = []
    for name, depth, time in (("erf", 2, inf), ("relu", 3, 1.0), ("gelu", 3, inf), ("gelu", 2, 1.0)):
        own = replace(net, activation=name, depth=depth)
        found = ["agrees" if error < 1e-10 else "DIFFERS" for error in _deviations(package, own, X, y, X_test, time)]
        rows.append([name, str(depth), f"{time:g}", *found])
    return aligned(["nonlinearity", "L", "t", "NNGP kernel", "NTK", "mean", "covariance"], rows)


def _deviations(package: Any, net: MLP, X: Any, y: Any, X_test: Any, time: float) -> list[float]:
    """Largest relative deviations of the NNGP kernel, the NTK, and the mean and covariance of an ensemble."""
    from rndlib.training.backends.jax import in_float64

    stax, nonlinearity = package.stax, str(net.activation).capitalize()

    @in_float64
    def theirs() -> list[Any]:
        dense = partial(stax.Dense, 1, W_std=net.sigma_w, b_std=net.sigma_b, parameterization="ntk")
        hidden = [layer() for _ in range(net.depth - 1) for layer in (dense, getattr(stax, nonlinearity))]
        kernel = stax.serial(*hidden, dense())[2]
        both = kernel(X, X_test, ("nngp", "ntk"))
        predict = package.predict.gradient_descent_mse_ensemble(kernel, X, y[:, None], learning_rate=1.0, diag_reg=0.0)
        # Its loss is the mean over points, and its time N times as long for the same training.
        t = None if time == inf else len(X) * time
        mean, cov = predict(t=t, x_test=X_test, get="ntk", compute_cov=True)
        return [both.nngp, both.ntk, mean[:, 0], cov]

    ours, law = kernels.kernel(net, X, X_test), laws.ensemble(net, X, y, X_test, time=time, full_cov=True)
    assert law.cov is not None
    pairs = zip(theirs(), (ours.nngp, ours.ntk, law.mean, law.cov), strict=True)
    return [float(np.abs(np.asarray(a) - b).max() / np.abs(b).max()) for a, b in pairs]
