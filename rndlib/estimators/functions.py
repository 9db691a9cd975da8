"""The networks of an estimator: what its seed decides, and their functions before and after training.

Every estimator trains networks f, to each of which a fixed random function may be added, so that

    e(x) = f(x; theta) + fixed(x)    is trained to    e(X) = y.

For a deep ensemble nothing is added; for a Bayesian ensemble, J psi (Proposition 4.1). For RND (Eq. 2), the fixed
function is minus the target, and y is 0.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib.cores import blockwise
from rndlib.training import backends
from rndlib.training.problem import Drawn, Following, Trained, block_size
from rndlib.training.weights import Params, Role, draw, draw_directions, draw_offsets

PerHead = Float[np.ndarray, "#bodies #heads #t"]
Points = Float[np.ndarray, "t *shape"]


class Networks:
    """The part of an estimator that is about its networks, in which estimators differ by the first attributes."""

    _bayesian = False  # whether errors start with covariance Theta rather than kappa
    _linear = False  # whether networks are linearised
    _role = Role.MEMBER  # or that of predictors, whose fixed functions are targets
    _psi_per_head = False  # or one psi for all heads of a body
    _following: Following | None = None  # of values, which are trained by temporal differences

    net_: Any
    backend: str | None
    _fit: Any
    _labels: Any
    _noise: float
    _seed: int
    _sizes: Any  # heads, and bodies

    def _draw(self, bodies: list[int], n_samples: int = 0, heads: int | None = None) -> Drawn:
        """The random numbers of these bodies, with jitter for `n_samples` points.

        A linearised predictor has one tangent, that of one more head, so that all heads have the same kernel and are
        independent of it: its network has one output. A linearised member has its own.
        """
        net, seed, heads = self.net_, self._seed, int(heads or self._sizes[0])
        one_more = self._linear and self._role is Role.PREDICTOR
        *hidden, head = start = draw(net, heads + one_more, seed, self._role, bodies)
        tangent, target, directions, offsets = start, None, None, None
        if one_more:
            own, common = (tuple(a[:, part] for a in head) for part in (slice(1, None), slice(1)))
            start, tangent = [*hidden, own], [*hidden, common]
        if self._bayesian:
            directions = draw_directions(net, seed, bodies, range(heads) if self._psi_per_head else None)
            offsets = draw_offsets(seed, bodies, n_samples, heads) if self._noise and n_samples else None
        elif self._role is Role.PREDICTOR:
            target = draw(net, heads, seed, Role.TARGET, bodies)
        return Drawn(start, tangent, target, directions, offsets)

    def _target(self, drawn: Drawn, X: Points) -> PerHead:
        """The fixed random function at X: J psi (Proposition 4.1), and networks that are not trained; or 0."""
        target = np.zeros((1, 1, 1)) if drawn.target is None else self._functions(drawn.target, X)
        if drawn.directions is None:
            return target
        return target + self._loaded.tangents(self.net_, drawn.tangent, drawn.directions, X)

    @property
    def _sign(self) -> int:
        """Of the fixed random function in e: it is added to a member, and subtracted where it is a target."""
        return -1 if self._role is Role.PREDICTOR else 1

    def _goal(self, drawn: Drawn) -> PerHead:
        """y, what e is trained to at the training points."""
        return self._labels.T[None] if self._role is Role.MEMBER else np.zeros((1, 1, 1))

    def _start(self, drawn: Drawn, X: Points) -> PerHead:
        """e before training, at X."""
        return self._functions(drawn.start, X) + self._sign * self._target(drawn, X)

    def _residual(self, drawn: Drawn, e: Callable[[Points], PerHead], X: Points) -> Float[np.ndarray, "bodies n heads"]:
        """What training removes from e at the training points X: e(X) - y, with the jitter of noisy targets.

        Of values, the temporal differences e(X) - gamma e(X') - y.
        """
        r = e(X) - self._goal(drawn)
        if self._following is not None:
            r = r - self._following.discount * e(self._following.X)
        r = np.swapaxes(r, 1, 2)
        return r if drawn.offsets is None else r + self._noise * drawn.offsets

    def _targets(self, X: Points, drawn: Drawn) -> PerHead:
        """What networks f are trained to at X, so that e(X) = y; of values, their rewards (`Problem`)."""
        goal = self._goal(drawn) - self._sign * self._target(drawn, X)
        if self._following is not None:
            goal = goal + self._following.discount * self._sign * self._target(drawn, self._following.X)
        return np.broadcast_to(goal, (*drawn.start[-1][0].shape[:2], len(X)))

    def _at_start(self, values: Callable[[Drawn], np.ndarray], X: Points, heads: int | None = None) -> Any:
        """`values` of the random numbers of every body: those of the fit, or new ones without it or for other heads."""
        if self._fit is not None and heads is None:
            return self._trained.per_body(lambda drawn, _: values(drawn))
        own, bodies = self._sizes
        size = block_size(self.net_, heads or own, len(X))
        return blockwise(lambda block: values(self._draw(block, heads=heads)), bodies, size)

    @property
    def _labels_of_mean(self) -> Any:
        """Labels (N, outputs) of the network that estimates the mean of Bayesian RND, or None."""
        return self._labels if self._role is Role.PREDICTOR else None

    @property
    def _trained(self) -> Trained:
        return self._fit.trained

    def _ends(self, X: Points) -> PerHead:
        """e, after training, of all networks at points X in their units."""
        return self._trained.per_body(lambda drawn, params: self._fit.values(self, X, drawn, params))

    @property
    def _loaded(self) -> Any:
        return backends.of(self.net_, self.backend)

    @property
    def _functions(self) -> Callable[[Params, Points], PerHead]:
        """f(X) of networks with parameters and points."""
        return partial(self._loaded.functions, self.net_)
