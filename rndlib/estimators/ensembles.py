"""Deep ensembles, standard and Bayesian: independent networks of one output, trained on the same labels."""

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.estimators.base import Estimator, Functions, GroupVariances, Network, Prediction, Variances, parts
from rndlib.estimators.protocol import Regressor
from rndlib.training.solvers import Solver
from rndlib.training.weights import Params, Role, draw


class _Ensemble(Regressor, Estimator):
    """Independent networks of one output, trained on the same labels."""

    def __init__(self, net: Network, members: int, seed: int, backend: str, solver: Solver | None, dtype: str):
        super().__init__(net, seed, backend, solver, dtype)
        self.members = members

    def _check(self) -> None:
        super()._check()
        checks.whole("members", self.members, at_least=1)

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T)."""
        raise NotImplementedError

    def variance(self, X: ArrayLike) -> Variances:
        """Sample variance over the members (ddof = 1) at X (T, in_dim): (T,).

        Raises
        ------
        ValueError: fewer than two members.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> model.variance(data.X).max() < 1e-6 < model.variance(data.X_test).min()  # none where the labels are known
        np.True_
        """
        return self.variances(X, 1)[0]

    def variances(self, X: ArrayLike, groups: int) -> GroupVariances:
        """`variance` of each of so many groups of members, as of smaller ensembles of their own: (groups, T).

        Raises
        ------
        ValueError: members do not divide into that many groups of two or more.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> model.variances(data.X_test, groups=2).shape
        (2, 5)
        """
        members = self._at_least_two()
        size = parts("groups", groups, "members", members)
        if size < 2:
            raise ValueError(f"groups = {groups}: a sample variance needs at least 2 of the {members} members each")
        functions = self.functions(X)
        return functions.reshape(groups, size, -1).var(axis=1, ddof=1)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean over the members at X (T, in_dim): (T,); with `return_std` also the sample standard deviation.

        Raises
        ------
        ValueError: X is malformed; or a standard deviation of fewer than two members. NotFittedError: before `fit`.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> abs(model.predict(data.X) - data.y).max() < 1e-6
        np.True_
        """
        if not return_std:
            return self.functions(X).mean(axis=0)
        self._at_least_two()
        functions = self.functions(X)
        return functions.mean(axis=0), functions.std(axis=0, ddof=1)

    def _at_least_two(self) -> int:
        members = (self._as_fitted or self).members
        if members < 2:
            raise ValueError(f"members = {members}: a sample variance needs at least 2")
        return members


class DeepEnsemble(_Ensemble):
    """Networks trained on the same labels from independent initial weights (Theorem 2.1).

    In the limit of width, each is an independent draw from `laws.ensemble`.

    Parameters
    ----------
    net: the network's description; or a function from the number of X's columns to one, as `partial(MLP, width=64)`
        is; None for an `MLP` of its default width 512, depth 2 and silu.
    members: number of networks, >= 1.
    seed: >= 0; the same seed gives the same initial weights on every backend.
    backend: "jax", "torch", or "torch:cuda" for PyTorch on a GPU.
    solver: `GradientFlow` (the default, to convergence), `GradientDescent`, or `StochasticGradient` for more points
        than a few thousand.
    dtype: "float64" or "float32", the precision in which trained functions are evaluated; float32 changes them by a
        few parts in a million. That of training follows from the accuracy that the solver asks for.

    Attributes
    ----------
    net_, n_features_in_: after `fit`, the description of the networks and the number of X's columns.
    feature_names_in_: the names of the columns, where X was a data frame whose columns have some.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.

    >>> from rndlib import MLP, DeepEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
    >>> mean, std = model.predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """

    def __init__(
        self,
        net: Network = None,
        members: int = 8,
        *,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, members, seed, backend, solver, dtype)
        self._check()

    def fit(self, X: ArrayLike, y: ArrayLike) -> "DeepEnsemble":
        """Train every member on X (N, in_dim), y (N,).

        Warns with `rndlib.training.flow.conditioning.ConditionWarning` where the kernel on X is so nearly singular that
        gradient flow may take long.

        Raises
        ------
        ValueError: X or y is malformed, or X has a singular kernel.
        DivergenceError: a network diverged.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0)
        >>> DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y).report.converged
        True
        """
        X = self._begin(X)
        y = self._labels(y, len(X))
        trained = self._train(1, self.members, Role.MEMBER, X, lambda bodies, _: np.tile(y, (len(bodies), 1, 1)))
        return self._end(trained)

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T), in the units of y.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> model.functions(data.X_test).shape
        (4, 5)
        """
        X, fitted = self._points(X), self._fitted
        return fitted._trained.evaluate(lambda _, params: fitted._functions(params, X, fitted.dtype))


class BayesianEnsemble(_Ensemble):
    """An ensemble whose members are draws from the NTK-GP posterior in the limit of width (He et al., 2020).

    Member i is `f(x; theta_t) + J_theta_0 f(x) psi*`, with the last layer's part of psi zero (the construction of
    Proposition 4.1) and this sum trained on the labels. In the limit of width and time each is an
    independent draw from `laws.posterior`.

    Parameters
    ----------
    noise_std: standard deviation of the observation noise, >= 0, in the units of y.
    net, members, seed, backend, solver, dtype: as in `DeepEnsemble`.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.

    >>> from rndlib import MLP, BayesianEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = BayesianEnsemble(MLP(3, width=64), members=4, noise_std=0.1).fit(data.X, data.y)
    >>> model.variance(data.X).max() < 0.1**2 * 4 < model.variance(data.X_test).max()
    np.True_
    """

    def __init__(
        self,
        net: Network = None,
        members: int = 8,
        *,
        noise_std: float = 0.0,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, members, seed, backend, solver, dtype)
        self.noise_std = noise_std
        self._check()

    def _check(self) -> None:
        super()._check()
        checks.non_negative("noise_std", self.noise_std)

    def fit(self, X: ArrayLike, y: ArrayLike) -> "BayesianEnsemble":
        """Train every member on X (N, in_dim), y (N,). Errors as in `DeepEnsemble.fit`.

        >>> from rndlib import MLP, BayesianEnsemble, datasets
        >>> data = datasets.toy(seed=0)
        >>> BayesianEnsemble(MLP(3, width=64), members=4, noise_std=0.1).fit(data.X, data.y).report.converged
        True
        """
        X = self._begin(X)
        y = self._labels(y, len(X))

        def targets(bodies: list[int], start: Params) -> np.ndarray:
            return y - self._tangents(bodies, start, X, "float64", by_head=False)

        return self._end(self._train(1, self.members, Role.MEMBER, X, targets, noise_std=float(self.noise_std)))

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T), in the units of y.

        >>> from rndlib import MLP, BayesianEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = BayesianEnsemble(MLP(3, width=64), members=4, noise_std=0.1).fit(data.X, data.y)
        >>> model.functions(data.X_test).shape
        (4, 5)
        """
        X, fitted = self._points(X), self._fitted

        def values(bodies: list[int], params: Params) -> np.ndarray:
            start = draw(fitted.net_, 1, fitted.seed, Role.MEMBER, bodies)
            return fitted._functions(params, X, fitted.dtype) + fitted._tangents(bodies, start, X, fitted.dtype, False)

        return fitted._trained.evaluate(values)
