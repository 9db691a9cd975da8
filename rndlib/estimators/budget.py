"""The distance between an estimated variance and that of the theorems, as a sum of parts with a cause each.

Beside its trained networks, an estimator has their partners: what training would make of the same initial functions if
networks were linear in their parameters, with the kernels of infinite width (`paper.evidence.partners`). With V for
the variance that the trained networks give, P for that of the partners, and L for that of the law,

    V - L = (V - P)            width: networks are not linear, and their kernels are not the infinite ones
          + (P - L_t,eta)      sampling: heads or members are finitely many
          + (L_t,eta - L_t)    step: the learning rate of gradient descent
          + (L_t - L)          time: training has ended before convergence.

With many heads on a body, the first part contains what they do to each other. To tell the two apart, networks of the
same width with one head each are trained. (The law of many heads in `rndlib.theory.many_heads` does not serve here: it
is that of linearised training, and trained networks with many heads leave it.)
"""

from dataclasses import dataclass, fields
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from rndlib import checks
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.theory.dynamics import gain
from rndlib.training.linear import partners
from rndlib.training.solvers import GradientDescent, GradientFlow

PerPoint = Float[np.ndarray, " T"]


@dataclass(frozen=True)
class ErrorBudget:
    """Parts of `variance - law` at T test points, in the squared units of y; they add up to it.

    variance, law: The estimate, and what the theorem has in its place: (T,) each.
    sampling: From a finite number of heads or members. Its mean over seeds is 0.
    width: From the finite width of the networks, and from the tolerance of the solver.
    heads: From the heads that share a body.
    time: From training that ends before convergence.
    step: From the learning rate of gradient descent.

    >>> from rndlib import MLP, RND, GradientFlow, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = RND(MLP(3, width=512), heads=1, bodies=64, solver=GradientFlow(time=1.0)).fit(data.X)
    >>> budget = model.error_budget(data.X_test)
    >>> bool(abs(budget.time).sum() > abs(budget.width).sum()), budget.heads.tolist()
    (True, [0.0, 0.0, 0.0, 0.0, 0.0])
    """

    variance: PerPoint
    law: PerPoint
    sampling: PerPoint
    width: PerPoint
    heads: PerPoint
    time: PerPoint
    step: PerPoint

    def __str__(self) -> str:
        def share(part: PerPoint) -> str:
            return f"{100 * float(part.sum() / self.law.sum()):+.1f} %"

        parts = ", ".join(f"{field.name} {share(getattr(self, field.name))}" for field in fields(self)[2:])
        return f"variance off by {share(self.variance - self.law)} of the law: {parts}"


def error_budget(
    model: Any, variance: PerPoint, X_test: Any, single: int, kernel: reference.Network | None
) -> ErrorBudget:
    """The budget of a fitted model and its variance at X_test (`Estimator.error_budget`)."""
    single = checks.whole("single", single, at_least=1)
    solver = model.solver or GradientFlow()
    if not isinstance(solver, GradientFlow | GradientDescent):
        raise ValueError(f"solver = {solver!r}: there is no law to compare with; train by gradient flow or descent")
    if kernel is None:
        if not isinstance(model.net_, MLP):
            raise ValueError(f"kernel = None for net = {model.net_!r}: give its infinite kernels, or an rndlib.MLP")
        kernel = model.net_
    X, X_test = reference.points(kernel, model._X, X_test)
    rate = solver.learning_rate if isinstance(solver, GradientDescent) else None
    A, C = (reference.between(kernel, X, other).ntk for other in (X, X_test))
    G = gain(A + model._noise**2 * np.eye(len(X)), C, solver.time, rate)
    start = model._at_start(np.concatenate([X, X_test]))
    linear = partners(start, np.zeros(len(X)), G, model._noise, model._seed)  # labels do not change a variance
    sampled = model._group_variances(linear.reshape(-1, len(X_test)), 1)[0]
    law, at_time, at_rate = (
        model._scale * model._law(kernel, X, X_test, time=time, learning_rate=eta).var
        for time, eta in ((inf, None), (solver.time, None), (solver.time, rate))
    )
    width, heads = variance - sampled, np.zeros_like(law)
    if model._crowded:
        (seed,) = np.random.SeedSequence(model._seed).generate_state(1)
        alone: Any = clone(model)
        alone.set_params(heads=1, bodies=single, seed=int(seed)).fit(X)
        both, width = width, alone.error_budget(X_test, kernel=kernel).width
        heads = both - width
    return ErrorBudget(variance, law, sampled - at_rate, width, heads, at_time - law, at_rate - at_time)
