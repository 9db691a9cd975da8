"""Partners of trained networks, with which statistics need fewer of them (control variates).

The partner of a network is what training would make of it if it were linear in its parameters. From its own initial
function f_0 this is, by Eq. 24 with the gain G of `rndlib.theory.dynamics` and the kernels of infinite width,

    p(x) = f_0(x) - G^T (f_0(X) - y + noise_std xi).

A wide network and its partner are nearly the same function, and the partner needs no training: it costs less than a
tenth. So n networks are trained and partners are made of them and of m others. With z for a trained function, p for
its partner and p' for that of a network which is not trained, a mean E q(z) is estimated by

    mean over n of q(z) - c q(p), plus mean over m of c q(p'),    c = m / (n + m).

Since p and p' have one law, this is unbiased for any network, depth and width, whether or not the theorems hold. If z
is p, its noise is that of n + m trained networks. (For one hidden layer the mean of q(p) is known: it is that of the
theorem's law. Putting it in place of the mean over m would leave less noise still. But then a mistake that trained
networks share with their partners would cancel, such as a target that is the predictor itself.)
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import clone

from rndlib import checks
from rndlib.estimators import BayesianEnsemble, DeepEnsemble
from rndlib.estimators.rnd import Distillation
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.theory.dynamics import gain
from rndlib.theory.reference import Network
from rndlib.training.solvers import GradientDescent, GradientFlow, Solver
from rndlib.training.weights import draw_offsets


class Partners:
    """Makes the partners of an estimator's networks, and of `more` networks that are not trained.

    Parameters
    ----------
    model: An ensemble, or (Bayesian) RND with one head. It need not be fitted; its seed, its network and its number of
        members or bodies count.
    X, X_test: Training points (N, *shape) and test points (T, *shape).
    more: Number of further networks, those with the next indices; >= 0.
    kernel: Infinite kernels of the network, as a function of two arrays of points like those that `laws` takes. Those
        of an `MLP` are known.

    >>> from rndlib import MLP, RND, datasets
    >>> from rndlib.evidence.partners import Partners
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = RND(MLP(3, width=512), heads=1, bodies=4)
    >>> partners = Partners(model, data.X, data.X_test, more=32).trained()
    >>> errors = model.fit(data.X).errors(data.X_test)
    >>> partners.shape, bool(abs(partners[:4] - errors).max() < 0.2 * abs(errors).max())
    ((36, 5), True)
    """

    def __init__(self, model: Any, X: ArrayLike, X_test: ArrayLike, more: int = 0, kernel: Network | None = None):
        if not isinstance(model, Distillation | DeepEnsemble | BayesianEnsemble):
            raise ValueError(f"model = {model!r}: give an ensemble or RND")
        if kernel is None:
            if not isinstance(model.net, MLP):
                raise ValueError(f"kernel = None for net = {model.net!r}: give its infinite kernels, or an rndlib.MLP")
            kernel = model.net
        if isinstance(model, Distillation) and (model.heads > 1 or model.linearised):
            raise ValueError(f"model = {model!r}: give a model with heads=1 and linearised=False")
        self.kernel, self.seed = kernel, model.seed
        self.X, self.tests = reference.points(kernel, X, X_test)
        size = "bodies" if isinstance(model, Distillation) else "members"
        self.networks = getattr(model, size) + checks.whole("more", more, 0)
        larger: Any = clone(model)
        start = larger.set_params(**{size: self.networks}).initial(np.concatenate([self.X, self.tests]))
        # The functions of an ensemble, or the errors of RND.
        self._start = np.subtract(*start) if isinstance(start, tuple) else start
        self._labelled = not isinstance(start, tuple)

    def trained(
        self, y: ArrayLike | None = None, solver: Solver | None = None, noise_std: float = 0.0
    ) -> Float[np.ndarray, "networks T"]:
        """Every partner after training on `y` (N,), which ensembles need, at the test points.

        Of RND these are the errors. `solver` is gradient flow to convergence by default. Raises as `laws.ensemble`.
        """
        solver = GradientFlow() if solver is None else solver
        if not isinstance(solver, GradientFlow | GradientDescent):
            raise ValueError(f"solver = {solver!r}: give GradientFlow(...) or GradientDescent(...)")
        if (y is not None) != self._labelled:
            raise ValueError("y: give the labels of an ensemble, and none for RND")
        noise_std = checks.non_negative("noise_std", noise_std)
        points = len(self.X)
        residual = self._start[:, :points].copy()
        if y is not None:
            residual -= checks.labels("y", y, points)
        if noise_std:
            residual += noise_std * draw_offsets(self.seed, range(self.networks), points, 1)[:, :, 0]
        A, C = (reference.between(self.kernel, self.X, other).ntk for other in (self.X, self.tests))
        A = A + noise_std**2 * np.eye(points)
        rate = solver.learning_rate if isinstance(solver, GradientDescent) else None
        return self._start[:, points:] - residual @ gain(A, C, solver.time, rate)
