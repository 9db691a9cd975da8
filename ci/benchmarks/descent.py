"""How many steps descent takes until the test function is near the converged flow's.

The times are scaled to the steps of the linear model of an infinitely wide network, at the rate that the networks' own
tangent kernels allow. At a small size the networks themselves are trained, to show how many steps they take.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from benchmarks.momentum import fewest
from benchmarks.peers import Peer
from rndlib import MLP, kernels
from rndlib.training import backends
from rndlib.training import problem as training
from rndlib.training.lanczos import largest_eigenvalue
from rndlib.training.weights import Params

ACCURACY = 1e-2
"""Relative distance of the test function from the converged flow's, in the norm over test points, at which descent is
done, for half of the networks."""

RATE = 0.95
"""The rate as a share of the largest stable one, 2 / lambda_max, at which the fastest mode would not come to rest."""


@dataclass(frozen=True)
class Problem:
    """Networks before training, and what they are trained towards.

    start: parameters, bodies on the leading axis. targets: (bodies, heads, N). limit: the functions of the converged
    flow at X_test, (bodies, heads, T).
    """

    net: MLP
    X: Float[np.ndarray, "n d"]
    X_test: Float[np.ndarray, "t d"]
    start: Params
    targets: Float[np.ndarray, "bodies heads n"]
    limit: Float[np.ndarray, "bodies heads t"]

    def distance(self, params: Params) -> float:
        """Relative distance of the functions at X_test from the limit: the median over the bodies."""
        found = backends.load("jax").functions(self.net, params, self.X_test, "float64")
        return float(np.median(_norm(found - self.limit) / _norm(self.limit)))

    def rate(self) -> float:
        """The rate of descent: `RATE` of what the networks' own tangent kernels at the start allow."""
        problem = training.Problem(self.net, self.start, self.X, self.targets)
        return RATE * 2 / largest_eigenvalue(problem, backends.load("jax"))

    def linear_steps(self) -> int:
        """Steps at `rate` until the linear model of half of the bodies is within `ACCURACY` of its limit.

        f_k - f_inf = Theta_xX Theta^-1 (I - rate Theta)^k (f_0(X) - y), with Theta the infinite-width kernel.

        Raises
        ------
        ValueError: as `fewest`.
        """
        values, vectors = np.linalg.eigh(kernels.kernel(self.net, self.X).ntk)
        across = kernels.kernel(self.net, self.X_test, self.X).ntk @ vectors / values
        residual = (backends.load("jax").functions(self.net, self.start, self.X, "float64") - self.targets) @ vectors
        size = _norm(self.limit)
        left = 1 - min(self.rate(), RATE * 2 / values[-1]) * values

        def done(steps: int) -> bool:
            return float(np.median(_norm((residual * left**steps) @ across.T) / size)) <= ACCURACY

        return fewest(done)


@dataclass(frozen=True)
class Found:
    """Training of networks themselves: steps to the accuracy, None if it was not reached, and the least distance."""

    steps: int | None
    nearest: float


def trained(problem: Problem, peer: Peer, every: int, most: int) -> Found:
    """Train until the accuracy is reached, looking after `every` steps, or for `most` steps."""
    nearest = np.inf
    for steps in range(every, most + 1, every):
        peer.run(every)
        distance = problem.distance(peer.params())
        nearest = min(nearest, distance) if np.isfinite(distance) else nearest
        if distance <= ACCURACY:
            return Found(steps, nearest)
    return Found(None, float(nearest))


def _norm(functions: Float[np.ndarray, "bodies heads points"]) -> Float[np.ndarray, " bodies"]:
    return np.linalg.norm(functions, axis=(1, 2))
