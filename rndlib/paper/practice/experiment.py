"""The numerical analysis of the paper: variances of ensembles and of RND at growing width (notebook 05)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib.cores import parallel
from rndlib.datasets import Regression
from rndlib.network import MLP
from rndlib.paper.evidence.control_variates import trained
from rndlib.paper.evidence.statistics import sharp_variance
from rndlib.training.solvers import Solver


class Variances(NamedTuple):
    """Variance estimates at the test points: of the first seed at all of them, and of all seeds at the common ones.

    `sharp` are those of all seeds with control variates.
    """

    first: Float[np.ndarray, "widths points"]
    common: Float[np.ndarray, "widths seeds n_common"]
    sharp: Float[np.ndarray, "widths seeds n_common"] | None


def variances(
    estimator: Callable[..., Any],
    net: MLP,
    data: Regression,
    solver: Solver,
    widths: Sequence[int],
    seeds: Sequence[int],
    n_common: int,
    untrained: int = 0,
) -> Variances:
    """Train one kind of estimator for every width and seed; `untrained` networks are for the control variates."""
    common = data.X_test[:n_common]

    def one(run: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        width, seed = run
        model, sharp = estimator(replace(net, width=width), seed=seed, solver=solver), None
        if untrained:
            rnd = hasattr(model, "errors")
            sample = trained(model, data.X, common, None if rnd else data.y, untrained)
            sharp = getattr(model, "_scale", 1.0) * sharp_variance(sample, mean_zero=rnd)
            if seed != seeds[0]:
                return model._variance_of(sample.values), sharp
        else:
            model.fit(data.X, data.y)
        return model.variance(data.X_test if seed == seeds[0] else common), sharp

    # The widest first, so that no core waits long at the end. Two cores do not begin with the same width, or one would
    # wait for the other to compile it.
    runs = [(width, seed) for seed in seeds for width in sorted(widths, reverse=True)]
    found = dict(zip(runs, parallel(one, runs), strict=True))
    first = np.array([found[width, seeds[0]][0] for width in widths])
    at_common = np.array([[found[width, seed][0][:n_common] for seed in seeds] for width in widths])
    sharp = np.array([[found[width, seed][1] for seed in seeds] for width in widths]) if untrained else None
    return Variances(first, at_common, sharp)
