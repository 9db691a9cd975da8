"""Activations whose kernels are in closed form: signs and ramps smoothed by Gaussian noise.

With Phi the normal distribution function, each of them is a weighted sum over noise variances `a` of
`2 Phi(u / sqrt a) - 1` or of `u Phi(u / sqrt a)`: a sign, or a ramp, smoothed by Gaussian noise of variance `a`. erf
and gelu are one such term and relu is the ramp without noise. tanh and silu are mixtures, as the logistic distribution
is a scale mixture of normal ones.

If S follows Kolmogorov's distribution (the limit law of the Kolmogorov-Smirnov statistic) and Z is standard normal,
2 S Z is logistic (Andrews and Mallows, 1974, "Scale mixtures of normal distributions"). It follows that

    1 / (1 + exp(-u)) = E[Phi(u / (2 S))],    tanh(u) = 2 E[Phi(u / S)] - 1.

Here the expectation over S becomes a Gauss rule in log S. A kernel made from the rule is the exact kernel of
another activation, the finite mixture, so it is positive semidefinite whatever the number of nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal

from rndlib.activations import Activation, named

Terms = tuple[Float[np.ndarray, " terms"], Float[np.ndarray, " terms"]]


@dataclass(frozen=True)
class Mixture:
    """A mixture: `sum_a w_a (2 Phi(u / sqrt a) - 1)` ("sign") or `sum_a w_a u Phi(u / sqrt a)` ("ramp").

    `terms` returns the noise variances `a` and their weights `w_a`, which sum to 1.
    """

    family: Literal["sign", "ramp"]
    terms: Callable[[], Terms]


def closed_form(activation: str | Activation) -> Mixture | None:
    """The mixture of a registered activation, or None."""
    activation = named(activation)
    return MIXTURES.get(activation) if isinstance(activation, str) else None


@cache
def kolmogorov_rule(nodes: int = 10) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Read-only nodes `s` and weights `w` with `sum w f(s)` close to `E[f(S)]` for `f` smooth in `log s`; `sum w = 1`.

    Each node gains about a factor of 8 in the kernels; `rndlib.kernels` states their error with 10. The discretised
    Stieltjes procedure, accurate to rounding up to 20 nodes, gives the recurrence of the polynomials in `log s` that
    are orthogonal under the law of S; nodes and weights come from the eigenvectors of its Jacobi matrix (Gautschi,
    2004, "Orthogonal Polynomials: Computation and Approximation").
    """
    # The law of log S has below 1e-15 of its mass beyond these ends, and is smooth between them: the
    # trapezoidal rule with 200 points sums it to 1 within rounding.
    log_s = np.linspace(np.log(0.12), np.log(4.5), 200)
    mass = _density(np.exp(log_s)) * np.exp(log_s)
    mass /= mass.sum()

    centre, spread = np.empty(nodes), np.empty(nodes)
    previous, current, last_spread = np.zeros_like(log_s), np.ones_like(log_s), 0.0
    for k in range(nodes):
        centre[k] = np.sum(mass * log_s * current**2)
        following = (log_s - centre[k]) * current - last_spread * previous
        last_spread = spread[k] = np.sqrt(np.sum(mass * following**2))
        previous, current = current, following / last_spread
    log_nodes, vectors = eigh_tridiagonal(centre, spread[:-1])
    s, weights = np.exp(log_nodes), vectors[0] ** 2
    s.flags.writeable = weights.flags.writeable = False
    return s, weights


def _density(s: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Kolmogorov's density, below and above 1 by the series that converges fast there."""
    k = np.arange(1, 7)[:, None]
    odd = ((2 * k - 1) * np.pi) ** 2 / 8
    below = np.sqrt(2 * np.pi) * np.sum(np.exp(-odd / s**2) * (2 * odd / s**4 - 1 / s**2), axis=0)
    above = 8 * s * np.sum((-1.0) ** (k - 1) * k**2 * np.exp(-2 * k**2 * s**2), axis=0)
    return np.where(s < 1, below, above)


def _single(noise: float) -> Terms:
    return np.array([noise]), np.ones(1)


def _logistic(scale: float) -> Terms:
    s, weights = kolmogorov_rule()
    return scale * s**2, weights


MIXTURES: dict[str, Mixture] = {
    "silu": Mixture("ramp", lambda: _logistic(4.0)),
    "relu": Mixture("ramp", lambda: _single(0.0)),
    "erf": Mixture("sign", lambda: _single(0.5)),
    "gelu": Mixture("ramp", lambda: _single(1.0)),
    "tanh": Mixture("sign", lambda: _logistic(1.0)),
}
"""By the names of `rndlib.activations.ACTIVATIONS`."""
