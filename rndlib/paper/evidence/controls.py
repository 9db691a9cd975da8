"""Bayesian RND built wrongly on purpose: the wrong variants of the claims about it.

Each variant is trained and evaluated by the library's own code, and differs from `BayesianRND` only in the one respect
that its name says.
"""

import numpy as np

from rndlib import checks
from rndlib.estimators import BayesianRND
from rndlib.network import MLP
from rndlib.training.problem import Drawn
from rndlib.training.solvers import Solver
from rndlib.training.weights import Role, draw, draw_offsets


class MisbuiltTarget(BayesianRND):
    """Bayesian RND with a target `J_theta f(x) psi` for another theta or psi than those of Proposition 4.1.

    theta is the draw of role `at`, PREDICTOR in the proposition; DIRECTION takes the target at psi itself. `keep_last`
    keeps the last layer's part of psi, which the proposition sets to zero. There is one head per network.
    """

    _covered = False

    def __init__(
        self,
        net: MLP,
        bodies: int,
        *,
        at: Role = Role.PREDICTOR,
        keep_last: bool = False,
        seed: int = 0,
        solver: Solver | None = None,
    ):
        super().__init__(net, 1, bodies, seed=seed, solver=solver)
        self.at, self.keep_last = at, keep_last

    def _draw(self, bodies: list[int], n_samples: int = 0, heads: int | None = None) -> Drawn:
        theta, psi = (draw(self.net_, self.heads, self._seed, role, bodies) for role in (self.at, Role.DIRECTION))
        # The weights of theta below the head, and psi's of the head, make the function that `keep_last` adds: a network
        # is linear in its last layer, so its derivative along that layer's part of psi is its value there.
        added = [*theta[:-1], psi[-1]] if self.keep_last else None
        return super()._draw(bodies, n_samples)._replace(target=added, directions=psi[:-1], tangent=theta)


class NoiseWithoutPull(BayesianRND):
    """Bayesian RND trained on jittered targets, without L2 regularisation of the parameters towards initialisation.

    It fits the jittered targets exactly. With G = Theta_XX^-1 Theta_Xx, its error in the limit has the covariance of
    the noise-free posterior plus `jitter^2 G^T G`. One head per network.
    """

    _covered = False

    def __init__(self, net: MLP, bodies: int, *, jitter: float, seed: int = 0, solver: Solver | None = None):
        super().__init__(net, 1, bodies, seed=seed, solver=solver)
        self.jitter = checks.non_negative("jitter", jitter)

    def _draw(self, bodies: list[int], n_samples: int = 0, heads: int | None = None) -> Drawn:
        jitter = draw_offsets(self._seed, bodies, n_samples, self.heads) if n_samples else None
        return super()._draw(bodies)._replace(offsets=jitter)

    def _goal(self, drawn: Drawn) -> np.ndarray:
        """The errors are trained to minus the jitter, and not to 0."""
        assert drawn.offsets is not None
        return -self.jitter * np.swapaxes(drawn.offsets, 1, 2)
