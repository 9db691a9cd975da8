"""Deep ensembles and random network distillation, standard and Bayesian, over any backend.

All four follow scikit-learn's GaussianProcessRegressor: `fit`, `predict(X, return_std)` and, where there is a
posterior to draw from, `sample_y(X, n_samples, random_state)`. Arrays are (n_samples, n_features), targets
(n_samples,); functions and errors are in the units of y, variances in their square.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import backends, checks
from rndlib.heads import warn_if_narrow
from rndlib.network import MLP
from rndlib.solvers import GradientDescent, GradientFlow, Report, Solver
from rndlib.training import Trained, train
from rndlib.weights import Params, Role, draw, draw_directions

Functions = Float[np.ndarray, "outputs t"]
Variances = Float[np.ndarray, " t"]
Prediction = Variances | tuple[Variances, Variances]
MeanFunction = Callable[[Float[np.ndarray, "t d"]], Variances]


class NotFittedError(RuntimeError):
    """A method that needs training was called before `fit`."""


class _Estimator:
    """What the four have in common: a description, a seed, a backend, a solver, and the trained bodies."""

    def __init__(self, net: MLP, seed: int, backend: str, solver: Solver | None, dtype: str):
        if not isinstance(net, MLP):
            raise ValueError(f"net = {net!r}: give an rndlib.MLP")
        solver = GradientFlow() if solver is None else solver
        if not isinstance(solver, GradientFlow | GradientDescent):
            raise ValueError(f"solver = {solver!r}: give rndlib.GradientFlow(...) or rndlib.GradientDescent(...)")
        self.net = net
        self.seed = checks.whole("seed", seed, at_least=0)
        self.backend = checks.choice("backend", backend, backends.BACKENDS)
        self.solver = solver
        self.dtype = checks.choice("dtype", dtype, ("float32", "float64"))
        self._trained: Trained | None = None

    @property
    def report(self) -> Report:
        """What training did: time reached, residual, error, evaluations, converged or not."""
        return self._fitted.report

    @property
    def _fitted(self) -> Trained:
        if self._trained is None:
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self._trained

    def _points(self, X: ArrayLike) -> Float[np.ndarray, "t d"]:
        return checks.points("X", X, self.net.in_dim)

    def _train(self, heads: int, bodies: int, role: Role, X: np.ndarray, targets, **noise) -> Trained:
        backend = backends.load(self.backend)
        return train(self.net, heads, bodies, role, self.seed, backend, self.solver, X, targets, **noise)

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> Float[np.ndarray, "bodies heads t"]:
        return backends.load(self.backend).functions(self.net, params, X, dtype)

    def _tangents(
        self, bodies: range, start: Params, X: np.ndarray, dtype: str, by_head: bool
    ) -> Float[np.ndarray, "bodies heads t"]:
        """g~, the function of Proposition rndntkgpinit, of each body's initial parameters."""
        backend = backends.load(self.backend)
        if not by_head:
            return backend.tangents(self.net, start, draw_directions(self.net, self.seed, bodies, None), X, dtype)
        heads = start[-1][0].shape[1]
        # A direction a head: as many heads at a time as keep the directions within about 256 MiB.
        size = max(1, 2**25 // max(1, self.net.hidden_parameters * len(bodies)))
        parts = []
        for first in range(0, heads, size):
            group = range(first, min(first + size, heads))
            last = tuple(a[:, group.start : group.stop] for a in start[-1])
            directions = draw_directions(self.net, self.seed, bodies, group)
            parts.append(backend.tangents(self.net, [*start[:-1], last], directions, X, dtype))
        return np.concatenate(parts, axis=1)


class _Ensemble(_Estimator):
    """Independent networks of one output, trained on the same labels."""

    def __init__(self, net: MLP, members: int, seed: int, backend: str, solver: Solver | None, dtype: str):
        super().__init__(net, seed, backend, solver, dtype)
        self.members = checks.whole("members", members, at_least=1)

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T)."""
        raise NotImplementedError

    def variance(self, X: ArrayLike) -> Variances:
        """Sample variance over the members (ddof = 1) at X (T, in_dim): (T,).

        Raises
        ------
        ValueError: fewer than two members.
        """
        if self.members < 2:
            raise ValueError(f"members = {self.members}: a sample variance needs at least 2")
        return self.functions(X).var(axis=0, ddof=1)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean over the members at X (T, in_dim): (T,); with `return_std` also the sample standard deviation."""
        functions = self.functions(X)
        if not return_std:
            return functions.mean(axis=0)
        return functions.mean(axis=0), np.sqrt(self.variance(X))


class DeepEnsemble(_Ensemble):
    """Networks trained on the same labels from independent initial weights (theorem rndwidenndistribution).

    In the limit of width, each is an independent draw from `laws.ensemble`.

    Parameters
    ----------
    net: the network's description.
    members: number of networks, >= 1.
    seed: >= 0; the same seed gives the same initial weights on every backend.
    backend: "jax".
    solver: `GradientFlow` (the default, to convergence) or `GradientDescent`.
    dtype: "float64" or "float32", the precision in which trained functions are evaluated. Training is in float64;
        float32 changes a function by a few parts in a million.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.
    """

    def __init__(
        self,
        net: MLP,
        members: int = 8,
        *,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, members, seed, backend, solver, dtype)

    def fit(self, X: ArrayLike, y: ArrayLike) -> "DeepEnsemble":
        """Train every member on X (N, in_dim), y (N,).

        Raises
        ------
        ValueError: X or y is malformed, or X has a singular kernel.
        DivergenceError: a network diverged.
        """
        X = self._points(X)
        y = checks.labels("y", y, len(X))
        self._trained = self._train(1, self.members, Role.MEMBER, X, lambda bodies, _: np.tile(y, (len(bodies), 1, 1)))
        return self

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T)."""
        X = self._points(X)
        return self._fitted.evaluate(lambda _, params: self._functions(params, X, self.dtype))


class BayesianEnsemble(_Ensemble):
    """An ensemble whose members are draws from the NTK-GP posterior in the limit of width (He et al., 2020).

    Member i is `f(x; theta_t) + J_theta_0 f(x) psi*`, with the last layer's part of psi zero (the construction of
    Proposition rndntkgpinit) and this sum trained on the labels. In the limit of width and time each is an
    independent draw from `laws.posterior`.

    Parameters
    ----------
    noise_std: standard deviation of the observation noise, >= 0, in the units of y.
    net, members, seed, backend, solver, dtype: as in `DeepEnsemble`.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.
    """

    def __init__(
        self,
        net: MLP,
        members: int = 8,
        *,
        noise_std: float = 0.0,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, members, seed, backend, solver, dtype)
        self.noise_std = checks.non_negative("noise_std", noise_std)

    def fit(self, X: ArrayLike, y: ArrayLike) -> "BayesianEnsemble":
        """Train every member on X (N, in_dim), y (N,). Errors as in `DeepEnsemble.fit`."""
        X = self._points(X)
        y = checks.labels("y", y, len(X))

        def targets(bodies: range, start: Params) -> np.ndarray:
            return y - self._tangents(bodies, start, X, "float64", by_head=False)

        self._trained = self._train(1, self.members, Role.MEMBER, X, targets, noise_std=self.noise_std)
        return self

    def functions(self, X: ArrayLike) -> Functions:
        """Every member's trained function at X (T, in_dim): (members, T)."""
        X = self._points(X)

        def values(bodies: range, params: Params) -> np.ndarray:
            start = draw(self.net, 1, self.seed, Role.MEMBER, bodies)
            return self._functions(params, X, self.dtype) + self._tangents(bodies, start, X, self.dtype, False)

        return self._fitted.evaluate(values)


class _Distillation(_Estimator):
    """Predictors of `heads` outputs on `bodies` independent bodies, each trained to match a random target."""

    def __init__(self, net: MLP, heads: int, bodies: int, seed: int, backend: str, solver: Solver | None, dtype: str):
        super().__init__(net, seed, backend, solver, dtype)
        self.heads = checks.whole("heads", heads, at_least=1)
        self.bodies = checks.whole("bodies", bodies, at_least=1)

    def errors(self, X: ArrayLike) -> Functions:
        """Errors of every head, predictor less target, at X (T, in_dim): (bodies * heads, T), body-major."""
        raise NotImplementedError


class RND(_Distillation):
    """Random network distillation (Eq. 2): predictors u trained to match fixed random networks g.

    In the limit of width the errors of the heads are independent draws from `laws.rnd_error` (theorem
    rnderrordist), and half their mean square has the law of the sample variance of an ensemble of
    `bodies * heads + 1` networks (theorem rndequivalence).

    Parameters
    ----------
    net: the description of predictor and target, which the theorems need to be the same.
    heads: outputs of one body, >= 1.
    bodies: independent networks, >= 1: 1 is the usual multi-head RND, heads=1 an ensemble of RND models.
    seed, backend, solver, dtype: as in `DeepEnsemble`. Predictor, target and the ensembles of one seed are
        independent of each other.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.
    """

    def __init__(
        self,
        net: MLP,
        heads: int = 64,
        bodies: int = 1,
        *,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, heads, bodies, seed, backend, solver, dtype)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "RND":
        """Train the predictors on X (N, in_dim). Labels play no part; y is there for pipelines.

        Warns with `HeadsWarning` where the heads are too many for the width. Errors as in `DeepEnsemble.fit`.
        """
        X = self._points(X)
        warn_if_narrow(self.net, self.heads, len(X), "standard")

        def targets(bodies: range, _: Params) -> np.ndarray:
            return self._target(bodies, X, "float64")

        self._trained = self._train(self.heads, self.bodies, Role.PREDICTOR, X, targets)
        return self

    def errors(self, X: ArrayLike) -> Functions:
        """u_i(x) - g_i(x) of every head at X (T, in_dim): (bodies * heads, T), body-major."""
        X = self._points(X)

        def values(bodies: range, params: Params) -> np.ndarray:
            return self._functions(params, X, self.dtype) - self._target(bodies, X, self.dtype)

        return self._fitted.evaluate(values)

    def variance(self, X: ArrayLike) -> Variances:
        """One half of the mean squared error over the heads (Eq. 2), in the units of an ensemble's variance: (T,)."""
        return 0.5 * np.mean(self.errors(X) ** 2, axis=0)

    def _target(self, bodies: range, X: np.ndarray, dtype: str) -> np.ndarray:
        return self._functions(draw(self.net, self.heads, self.seed, Role.TARGET, bodies), X, dtype)


class BayesianRND(_Distillation):
    """RND whose errors are draws from the centred NTK-GP posterior (Proposition rndntkgpinit, theorem
    rndbayesrnderrordist).

    The target is `g~(x) = J_theta_0 u(x) psi*`, at the predictor's own initial parameters, with the last layer's
    part of psi zero. In the limit of width and time the errors are independent draws from
    `laws.bayesian_rnd_error`, and mean + error is a draw from `laws.posterior` (corollary crl:bayes_rnd_sampling).

    Parameters
    ----------
    net: the description of the predictor.
    heads, bodies: as in `RND`.
    directions: "shared", one psi for all heads of a body (the paper's JVP footnote), or "independent", one a head.
    noise_std: standard deviation of the observation noise, >= 0, in the units of y: targets are jittered and
        parameters drawn back to their start, so that the error has the noisy posterior's covariance.
    mean: a function from X (T, in_dim) to the mean estimate (T,); by default a network trained on y with its
        initial function subtracted.
    seed, backend, solver, dtype: as in `DeepEnsemble`.

    Raises
    ------
    ValueError: an argument is of the wrong type or out of range.
    """

    def __init__(
        self,
        net: MLP,
        heads: int = 64,
        bodies: int = 1,
        *,
        directions: str = "shared",
        noise_std: float = 0.0,
        mean: MeanFunction | None = None,
        seed: int = 0,
        backend: str = "jax",
        solver: Solver | None = None,
        dtype: str = "float64",
    ):
        super().__init__(net, heads, bodies, seed, backend, solver, dtype)
        self.directions = checks.choice("directions", directions, ("shared", "independent"))
        self.noise_std = checks.non_negative("noise_std", noise_std)
        if mean is not None and not callable(mean):
            raise ValueError(f"mean = {mean!r}: give a function of X, or None for a network trained on y")
        self.mean = mean
        self._mean_network: Trained | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "BayesianRND":
        """Train the predictors on X (N, in_dim) and, where y (N,) is given and `mean` is not, the mean network on y.

        Warns with `HeadsWarning` where the heads are too many for the width. Errors as in `DeepEnsemble.fit`.
        """
        X = self._points(X)
        y = None if y is None else checks.labels("y", y, len(X))
        warn_if_narrow(self.net, self.heads, len(X), self.directions)

        def targets(bodies: range, start: Params) -> np.ndarray:
            return self._target(bodies, start, X, "float64")

        self._trained = self._train(self.heads, self.bodies, Role.PREDICTOR, X, targets, noise_std=self.noise_std)
        self._mean_network = None
        if y is not None and self.mean is None:
            self._mean_network = self._train(
                1,
                1,
                Role.MEAN,
                X,
                lambda _, start: y + self._functions(start, X, "float64"),
                noise_std=self.noise_std,
                jitter=False,
            )
        return self

    def errors(self, X: ArrayLike) -> Functions:
        """u_i(x) - g~_i(x) of every head at X (T, in_dim): (bodies * heads, T), body-major."""
        X = self._points(X)

        def values(bodies: range, params: Params) -> np.ndarray:
            start = draw(self.net, self.heads, self.seed, Role.PREDICTOR, bodies)
            return self._functions(params, X, self.dtype) - self._target(bodies, start, X, self.dtype)

        return self._fitted.evaluate(values)

    def variance(self, X: ArrayLike) -> Variances:
        """Mean squared error over the heads (no half), an estimate of the posterior variance: (T,)."""
        return np.mean(self.errors(X) ** 2, axis=0)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Prediction:
        """Mean estimate at X (T, in_dim): (T,); with `return_std` also the posterior standard deviation.

        Raises
        ------
        NotFittedError: fit was called without y, and no `mean` was given.
        """
        X = self._points(X)
        mean = self._mean(X)
        return (mean, np.sqrt(self.variance(X))) if return_std else mean

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: int | np.random.Generator | None = 0
    ) -> Float[np.ndarray, "t samples"]:
        """Functions drawn from the posterior, jointly over X (T, in_dim): (T, n_samples).

        Sample i is the mean estimate plus the error of one head. Heads are drawn without replacement: the paper's
        draw from U[1, K] can repeat a head, and repeated samples are not independent.

        Raises
        ------
        ValueError: more samples than heads.
        NotFittedError: as in `predict`.
        """
        X = self._points(X)
        n_samples = checks.whole("n_samples", n_samples, at_least=1)
        available = self.bodies * self.heads
        if n_samples > available:
            raise ValueError(
                f"n_samples = {n_samples}: the {available} heads give as many independent samples and no more: draw "
                "fewer, or fit more heads or bodies"
            )
        chosen = np.random.default_rng(random_state).permutation(available)[:n_samples]
        return self._mean(X)[:, None] + self.errors(X)[chosen].T

    def _mean(self, X: np.ndarray) -> Variances:
        if self.mean is not None:
            return checks.labels("mean(X)", self.mean(X), len(X))
        self._fitted  # noqa: B018 - not fitted at all is the more helpful thing to say first
        if self._mean_network is None:
            raise NotFittedError("fit had no y to train a mean on: call fit(X, y), or give mean= a function of X")

        def centred(_: range, params: Params) -> np.ndarray:
            start = draw(self.net, 1, self.seed, Role.MEAN, range(1))
            return self._functions(params, X, self.dtype) - self._functions(start, X, self.dtype)

        return self._mean_network.evaluate(centred)[0]

    def _target(self, bodies: range, start: Params, X: np.ndarray, dtype: str) -> np.ndarray:
        return self._tangents(bodies, start, X, dtype, by_head=self.directions == "independent")
