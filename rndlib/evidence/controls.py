"""Bayesian RND built wrongly on purpose: the negative controls of the claims about it.

Each variant is trained and evaluated by the library's own code, and differs from `BayesianRND` only in the one respect
that its name says.
"""

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.estimators import BayesianRND
from rndlib.network import MLP
from rndlib.training.solvers import Solver
from rndlib.training.weights import Params, Role, draw, draw_offsets


class MisbuiltTarget(BayesianRND):
    """Bayesian RND with a target `J_theta f(x) psi` for another theta or psi than those of Proposition 4.1.

    theta is the draw of role `at`, PREDICTOR in the proposition; DIRECTION takes the target at psi itself. psi is the
    draw of role `along`, DIRECTION in the proposition; PREDICTOR takes the target along the predictor's initial
    parameters. `keep_last` keeps the last layer's part of psi, which the proposition sets to zero. There is one head
    per body.
    """

    def __init__(
        self,
        net: MLP,
        bodies: int,
        *,
        at: Role = Role.PREDICTOR,
        along: Role = Role.DIRECTION,
        keep_last: bool = False,
        seed: int = 0,
        solver: Solver | None = None,
    ):
        super().__init__(net, 1, bodies, seed=seed, solver=solver)
        self.at, self.along, self.keep_last = at, along, keep_last

    def _target(self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str) -> np.ndarray:
        net = self.net_
        theta, psi = (draw(net, self.heads, self.seed, role, bodies) for role in (self.at, self.along))
        target = self._loaded.tangents(net, theta, psi[:-1], X, dtype)
        # The network is linear in its last layer: its derivative along that layer's part of psi is its value there.
        return target + self._functions([*theta[:-1], psi[-1]], X, dtype) if self.keep_last else target


class NoiseWithoutPull(BayesianRND):
    """Bayesian RND trained on jittered targets, without the penalty that pulls the parameters to their start.

    It fits the jittered targets exactly. With G = Theta_XX^-1 Theta_Xx, its error in the limit has the covariance of
    the noise-free posterior plus `jitter^2 G^T G`. One head per body.
    """

    def __init__(self, net: MLP, bodies: int, *, jitter: float, seed: int = 0, solver: Solver | None = None):
        super().__init__(net, 1, bodies, seed=seed, solver=solver)
        self.jitter = checks.non_negative("jitter", jitter)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "NoiseWithoutPull":
        """Train the predictors on X (N, in_dim); y is ignored."""
        points, _ = self._begin(X)

        def targets(bodies: list[int], start: Params) -> np.ndarray:
            xi = draw_offsets(self.seed, bodies, len(points), self.heads)
            return self._target(bodies, start, points, "float64") - self.jitter * np.swapaxes(xi, 1, 2)

        return self._end(self._train(self.heads, self.bodies, Role.PREDICTOR, points, targets), points)
