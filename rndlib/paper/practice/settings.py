"""One setting of the two equalities of the paper, and how far its trained networks are from them.

The first is that half the mean squared RND error is the variance of an ensemble that is trained in the same way
(Corollary 3.2). The second is that the mean square of the Bayesian RND error is the variance of the posterior
(Theorem 4.2). Both are ratios that should be 1.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import datasets
from rndlib.any_network import Network
from rndlib.estimators import RND, BayesianRND, DeepEnsemble
from rndlib.network import MLP
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.evidence.statistics import over_times, to_law
from rndlib.paper.fitted import variances
from rndlib.theory import laws, reference
from rndlib.training.solvers import GradientFlow, Solver

DATA_SEED = 2
POINTS = 32  # test points
PAPER = MLP(3, width=256, depth=2, activation="silu", sigma_w=1.5, sigma_b=0.1)
DATA = datasets.toy(DATA_SEED, n_test=POINTS)


@dataclass(frozen=True)
class Setting:
    """What is trained, on what, and how. The labels are those of the ensemble; RND has none.

    Of each kind, `networks` are trained. RND has as many heads in all, with `heads` on each network. `loop` trains in
    place of the solver. `kernel` and `prior` are those of the theory of the ensemble and of the posterior, if they are
    not those of `net`. The posterior has observation noise `noise_std`, and Bayesian RND is given `told_noise_std`.
    """

    net: Network = PAPER
    X: Float[np.ndarray, "n *shape"] = field(default_factory=lambda: DATA.X)
    y: Float[np.ndarray, " n"] = field(default_factory=lambda: DATA.y)
    X_test: Float[np.ndarray, "t *shape"] = field(default_factory=lambda: DATA.X_test)
    solver: Solver = field(default_factory=partial(GradientFlow, rtol=0.05))
    networks: int = 2048
    heads: int = 1
    loop: Any = None
    kernel: reference.Network | None = None
    prior: reference.Network | None = None
    noise_std: float = 0.0
    told_noise_std: float = 0.0


def measure(setting: Setting, seed: int = 0) -> dict[str, Estimate]:
    """Train all networks of a setting, and compare. Raises DivergenceError.

    What is returned should be 1:

    rnd: half the RND error over the variance of the ensemble.
    bayesian: the Bayesian RND error over the variance of the posterior.
    rnd_to_law, ensemble_to_law: the two sides of `rnd`, over their common theory.
    """
    X, y, points = setting.X, setting.y, setting.X_test
    kernel: Any = setting.kernel or setting.net  # AnyNetwork always comes with a kernel
    prior = setting.prior or kernel
    variance = laws.ensemble(kernel, X, y, points).var
    posterior = laws.posterior(prior, X, y, points, noise_std=setting.noise_std).var
    if setting.loop is not None:
        count = setting.networks
        functions = setting.loop.functions(X, y, points, count, seed)
        halves = setting.loop.errors(X, points, count, seed) ** 2 / 2
        squares = setting.loop.errors(X, points, count, seed, bayesian=True) ** 2
    else:
        options: dict[str, Any] = {"seed": seed, "solver": setting.solver}
        bodies = max(2, setting.networks // setting.heads)
        functions = DeepEnsemble(setting.net, setting.networks, **options).fit(X, y).functions(points)
        halves, squares = (
            variances(model(setting.net, setting.heads, bodies, **options).fit(X), points, bodies)
            for model in (RND, partial(BayesianRND, noise_std=setting.told_noise_std))
        )
    deviations = (functions - functions.mean(axis=0)) ** 2 * len(functions) / (len(functions) - 1)
    logs = {
        "rnd": over_times(np.sqrt(2 * halves)[None], functions[None], variance[None]),  # errors with these halves
        "bayesian": to_law(squares, posterior),
        "rnd_to_law": to_law(halves, variance),
        "ensemble_to_law": to_law(deviations, variance),
    }
    return {name: Estimate(*map(float, np.exp(of.logs[:, 0]))) for name, of in logs.items()}
