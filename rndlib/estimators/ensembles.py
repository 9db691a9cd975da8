"""Deep ensembles, standard and Bayesian: independent networks of one output, trained on the same labels."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from rndlib import checks
from rndlib.cores import blockwise
from rndlib.estimators.base import Estimator, Functions, GroupVariances, PerHead, Prediction, equal_parts
from rndlib.theory import laws, reference
from rndlib.training.problem import block_size
from rndlib.training.weights import Params, Role, draw

Members = TypeVar("Members", bound="_Ensemble")


@dataclass(eq=False, repr=False)
class _Ensemble(RegressorMixin, Estimator):
    members: int = 8

    def _check(self) -> None:
        super()._check()
        checks.whole("members", self.members, at_least=1)

    def fit(self: Members, X: ArrayLike, y: ArrayLike) -> Members:
        """Train every member on X (N, in_dim), y (N,).

        Warns with `ConditionWarning` if the kernel on X is so close to singular that gradient flow may take long.

        Raises
        ------
        ValueError: X has a singular kernel.
        DivergenceError: A network diverged.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0)
        >>> DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y).report.converged
        True
        """
        points, labels = self._begin(X, y)

        def targets(bodies: list[int], start: Params) -> np.ndarray:
            added = self._added(bodies, start, points, "float64")
            return np.broadcast_to(labels - added, (len(bodies), 1, len(points)))

        return self._end(self._train(1, self.members, Role.MEMBER, points, targets), points)

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T), in the units of y.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> model.functions(data.X_test).shape
        (4, 5)
        """
        fitted, points = self._fitted, self._points(X)

        def values(bodies: list[int], params: Params) -> np.ndarray:
            return fitted._functions(params, points, fitted.dtype) + fitted._added(bodies, None, points, fitted.dtype)

        return fitted._trained.evaluate(values)

    def initial(self, X: ArrayLike, heads: int = 1) -> Functions:
        """Every member's function before training at X (T, in_dim): (members, T). Needs no `fit`.

        With more `heads`, each member has that many outputs, which share its hidden layers: (members * heads, T), one
        member after the other.

        >>> from rndlib import MLP, DeepEnsemble
        >>> DeepEnsemble(MLP(2, width=64), members=4).initial([[1.0, 0.0]]).shape
        (4, 1)
        """
        model, points = self._before(X)
        heads = checks.whole("heads", heads, at_least=1)

        def values(bodies: list[int]) -> np.ndarray:
            start = draw(model.net_, heads, model.seed, Role.MEMBER, bodies)
            return model._functions(start, points, model.dtype) + model._added(bodies, start, points, model.dtype)

        return blockwise(values, model.members, block_size(model.net_, heads, len(points))).reshape(-1, len(points))

    def _added(
        self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str
    ) -> Float[np.ndarray, "#bodies #heads #t"]:
        """The untrained function that is added to each member's network; for `start` None it is drawn again."""
        return np.zeros((1, 1, 1))

    def _values(self, X: ArrayLike) -> Functions:
        return self.functions(X)

    def _group_variances(self, values: Functions, groups: int) -> GroupVariances:
        size = equal_parts("groups", groups, "members", len(values))
        if size < 2:
            raise ValueError(
                f"members = {len(values)}: a sample variance needs at least 2 for each of groups = {groups}"
            )
        return values.reshape(groups, size, -1).var(axis=1, ddof=1)

    def _at_start(self, X: np.ndarray) -> Float[np.ndarray, "members 1 t"]:
        return self.initial(X)[:, None]

    def predict(self, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean over the members at X (T, in_dim): (T,); with `return_std` also the sample standard deviation.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> abs(model.predict(data.X) - data.y).max() < 1e-6
        np.True_
        """
        functions = self.functions(X)
        mean = functions.mean(axis=0)
        return (mean, np.sqrt(self._group_variances(functions, 1)[0])) if return_std else mean


@dataclass(eq=False, repr=False)
class DeepEnsemble(_Ensemble):
    """Networks trained on the same labels from independent initial weights (Theorem 2.1).

    In the limit of width, each is an independent draw from `laws.ensemble`. After `fit`, `net_` is the network, and
    `n_features_in_` and `feature_names_in_` (for data frames) describe the columns of X.

    Parameters
    ----------
    net: An `MLP`, or a function that makes one from the number of columns, such as `partial(MLP, width=64)`. None is
        `MLP` with its defaults (width 512, depth 2, silu). Or a network of your own, an `rndlib.torch.Module` or an
        `rndlib.jax.Function`; X is then of shape (n_samples, *shape), as the network takes it.
    members: Number of networks, >= 1.
    seed: >= 0; the same seed gives the same initial weights on every backend.
    backend: "jax", "torch", or "torch:cuda" for PyTorch on a GPU. None is the library of a network of your own, and
        "jax" for an `MLP`.
    solver: `GradientFlow` (the default, to convergence), `GradientDescent`, or `StochasticGradient` for more than a few
        thousand points.
    dtype: "float64" or "float32", the precision in which trained functions are evaluated. float32 changes them by a few
        parts in a million. The precision of training depends on the solver's `rtol`.

    >>> from rndlib import MLP, DeepEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
    >>> mean, std = model.predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """

    def _law(self, net: reference.Network, X: np.ndarray, X_test: np.ndarray, **options: Any) -> laws.Gaussian:
        return laws.ensemble(net, X, np.zeros(len(X)), X_test, **options)


@dataclass(eq=False, repr=False)
class BayesianEnsemble(_Ensemble):
    """An ensemble whose members are draws from the NTK-GP posterior in the limit of width (He et al., 2020).

    Each member is the sum of a network and the random function of Proposition 4.1, `f(x; theta_t) + J f(x) psi*`. The
    sum is trained on the labels. In the limit of width and time each is an independent draw from `laws.posterior`.

    Parameters
    ----------
    noise_std: Standard deviation of the observation noise, >= 0, in the units of y.
    net, members, seed, backend, solver, dtype: As in `DeepEnsemble`.

    >>> from rndlib import MLP, BayesianEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = BayesianEnsemble(MLP(3, width=64), members=4, noise_std=0.1).fit(data.X, data.y)
    >>> model.variance(data.X).max() < 0.1**2 * 4 < model.variance(data.X_test).max()
    np.True_
    """

    noise_std: float = field(default=0.0, kw_only=True)

    def _added(self, bodies: list[int], start: Params | None, X: np.ndarray, dtype: str) -> PerHead:
        start = start or draw(self.net_, 1, self.seed, Role.MEMBER, bodies)
        return self._tangents(bodies, start, X, dtype, by_head=False)

    def _law(self, net: reference.Network, X: np.ndarray, X_test: np.ndarray, **options: Any) -> laws.Gaussian:
        return laws.bayesian_rnd_error(net, X, X_test, noise_std=float(self.noise_std), **options)
