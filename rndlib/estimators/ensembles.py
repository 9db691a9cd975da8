"""Deep ensembles, standard and Bayesian: independent networks of one output, trained on the same labels."""

from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.estimators.automatic import MeanFunction
from rndlib.estimators.base import Estimator, Functions, Variances
from rndlib.estimators.outputs import stacked
from rndlib.estimators.regressor import Regressor


@dataclass(eq=False, repr=False)
class _Ensemble(Regressor, Estimator):
    members: int = 8
    _: KW_ONLY
    prior_mean: MeanFunction | None = None

    def _check(self) -> None:
        super()._check()
        checks.whole("members", self.members, at_least=1)

    def _examine(self) -> None:
        outputs = self._labels.shape[1]
        checks.require(
            outputs == 1 or not self._linear,
            f"y has {outputs} outputs: a linearised ensemble has one: fit one for each",
        )

    @stacked
    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T), in the units of y.

        >>> from rndlib import MLP, DeepEnsemble, datasets
        >>> data = datasets.toy(seed=0, n_test=5)
        >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
        >>> model.functions(data.X_test).shape
        (4, 5)
        """
        fitted, (points, inputs) = self._fitted, self._points(X)
        return fitted._functions_of(fitted._ends(inputs), points)

    @stacked
    def initial(self, X: ArrayLike, heads: int = 1) -> Functions:
        """Every member's function before training at X (T, in_dim): (members, T), as `functions`. Needs no `fit`.

        With more `heads`, each member has so many outputs, which share its hidden layers: (members * heads, T), one
        member after the other.

        >>> from rndlib import MLP, DeepEnsemble
        >>> DeepEnsemble(MLP(2, width=64), members=4).initial([[1.0, 0.0]]).shape
        (4, 1)
        """
        model, inputs = self._before(X)
        heads, outputs = checks.whole("heads", heads, at_least=1), model._sizes[0]
        checks.require(heads == 1 or outputs == 1, f"heads = {heads} with {outputs} outputs: leave heads out")
        each = model._at_start(lambda drawn: model._start(drawn, inputs), inputs, None if heads == 1 else heads)
        points = inputs if self._as_fitted is None else self._points(X)[0]
        return model._functions_of(each.reshape(-1, outputs, len(points)), points)

    @property
    def _sizes(self) -> tuple[int, int]:
        return int(np.prod(self._outputs, dtype=int)), int(self.members)

    @property
    def _freedom(self) -> int:
        return int(self.members) - 1

    def _values(self, X: ArrayLike) -> Functions:
        return self.functions(X)

    def _mean(self, X: ArrayLike, values: Functions | None) -> Variances:
        return (self.functions(X) if values is None else values).mean(axis=0)

    def _variance_of(self, values: Functions) -> Variances:
        if len(values) < 2:
            raise ValueError(f"members = {len(values)}: a sample variance needs at least 2")
        return values.var(axis=0, ddof=1)


@dataclass(eq=False, repr=False)
class DeepEnsemble(_Ensemble):
    """Networks trained on the same labels from independent initial weights (Theorem 2.1).

    In the limit of width, each is an independent draw from `laws.ensemble`. After `fit`, `net_` is the network, and
    `n_features_in_` and `feature_names_in_` (for data frames) describe the columns of X. In automatic mode each of
    several outputs has a fit of its own, and `net_`, `input_scales_` and `prior_` are lists.

    Parameters
    ----------
    net: An `MLP`, or a function that makes one from the number of columns, such as `partial(MLP, width=64)`. Or a
        network of your own, an `rndlib.torch.Module` or an `rndlib.jax.Function`; X then has the shape (n_samples, ...)
        of the network's input. With a network, nothing is scaled. None is automatic: columns and labels are
        standardised; the evidence of the NTK-GP chooses network, scales and noise; and members are trained exactly, at
        infinite width, with L2 regularisation towards initialisation.
    members: Number of networks, >= 1.
    prior_mean: Function that returns the prior mean (T,) for X (T, in_dim); None for zero.
    linearised: Whether each member is linearised at initialisation, and trained exactly with its own tangent kernel.
    gamma: Discount factor of value functions, 0 or more: y are rewards, and training is by temporal differences on
        transitions to `X_next`. Members are draws from `laws.value_ensemble`. Values as in `RND`.
    seed: >= 0; the same seed gives the same initial weights on every backend.
    random_state: Replaces `seed` if given, for scikit-learn: None, a number or a RandomState.
    input_scales: Length scale of each column of X, in its units, for the automatic estimator; None chooses them by
        evidence.
    backend: "jax", "torch", or "torch:cuda" for PyTorch on a GPU. None is the library of a network of your own, and
        "jax" for an `MLP`.
    solver: `GradientFlow` (the default, to convergence), `GradientDescent`, or `StochasticGradient` for more than a few
        thousand points.

    >>> from rndlib import MLP, DeepEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = DeepEnsemble(MLP(3, width=64), members=4).fit(data.X, data.y)
    >>> mean, std = model.predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """

    _: KW_ONLY
    linearised: bool = False
    gamma: float | None = None

    @property
    def _linear(self) -> bool:
        return self.linearised and self.net is not None


@dataclass(eq=False, repr=False)
class BayesianEnsemble(_Ensemble):
    """An ensemble whose members are draws from the NTK-GP posterior in the limit of width (He et al., 2020).

    Each member is the sum of a network and the random function of Proposition 4.1, `f(x; theta_t) + J f(x) psi*`. Their
    sum is trained on the labels. In the limit of infinite width and training time, each member is an independent draw
    from `laws.posterior`.

    Parameters
    ----------
    noise_std: Standard deviation of the observation noise, >= 0, in the units of y. None is 0 for a network that is
        given, and chosen by evidence otherwise.
    net, members, prior_mean, seed, random_state, backend, solver, input_scales: As in `DeepEnsemble`.

    >>> from rndlib import MLP, BayesianEnsemble, datasets
    >>> data = datasets.toy(seed=0, n_test=5)
    >>> model = BayesianEnsemble(MLP(3, width=64), members=4, noise_std=0.1).fit(data.X, data.y)
    >>> model.variance(data.X).max() < 0.1**2 * 4 < model.variance(data.X_test).max()
    np.True_
    """

    noise_std: float | None = field(default=None, kw_only=True)

    _bayesian = True
