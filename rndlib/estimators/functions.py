"""The networks of an estimator: what its seed decides, and their functions before and after training.

Every estimator trains networks f, to each of which a fixed random function may be added, so that

    e(x) = f(x; theta) + fixed(x)    is trained to    e(X) = y.

For a deep ensemble nothing is added; for a Bayesian ensemble, J psi (Proposition 4.1). For RND (Eq. 2), the fixed
function is minus the target, and y is 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib.cores import blockwise
from rndlib.estimators.networks import tangents
from rndlib.training import backends
from rndlib.training.problem import Drawn, Trained, block_size
from rndlib.training.weights import Params, Role, draw, draw_directions, draw_offsets

PerHead = Float[np.ndarray, "bodies heads t"]


class Networks:
    """The part of an estimator that is about its networks, in which estimators differ by the first attributes."""

    _bayesian = False  # whether errors start with covariance Theta rather than kappa
    _linear = False  # whether networks are linearised
    _role = Role.MEMBER  # or that of predictors, whose fixed functions are targets
    _psi_per_head = False  # or one psi for all heads of a body

    net_: Any
    backend: str | None
    dtype: Any
    _fit: Any
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

    def _target(self, drawn: Drawn, X: np.ndarray, dtype: str) -> Float[np.ndarray, "#bodies #heads #t"]:
        """The fixed random function at X: J psi (Proposition 4.1), a network that is not trained, or 0."""
        parts = [np.zeros((1, 1, 1))]
        if drawn.directions is not None:
            parts.append(tangents(self._loaded, self.net_, drawn, X, dtype))
        if drawn.target is not None:
            parts.append(self._functions(drawn.target, X, dtype))
        return sum(parts[1:], parts[0])

    def _fixed(self, drawn: Drawn, X: np.ndarray, dtype: str) -> Float[np.ndarray, "#bodies #heads #t"]:
        """What is added to the networks at X: the fixed function, or minus it where it is a target."""
        target = self._target(drawn, X, dtype)
        return -target if self._role is Role.PREDICTOR else target

    def _goal(self, drawn: Drawn) -> Float[np.ndarray, "#bodies #heads #n"]:
        """y, what e is trained to at the training points."""
        return np.zeros((1, 1, 1))

    def _at_start(self, values: Callable[[Drawn], np.ndarray], X: np.ndarray, heads: int | None = None) -> Any:
        """`values` of the random numbers of every body: those of the fit, or new ones without it or for other heads."""
        if self._fit is not None and heads is None:
            return self._trained.per_body(lambda drawn, _: values(drawn))
        own, bodies = self._sizes
        size = block_size(self.net_, heads or own, len(X))
        return blockwise(lambda block: values(self._draw(block, heads=heads)), bodies, size)

    @property
    def _trained(self) -> Trained:
        return self._fit.trained

    def _ends(self, X: np.ndarray) -> PerHead:
        """e, after training, of all networks at points X in their units."""
        return self._trained.per_body(lambda drawn, params: self._fit.values(self, X, drawn, params))

    @property
    def _loaded(self) -> Any:
        return backends.of(self.net_, self.backend)

    @property
    def _precision(self) -> str:
        """The name of `dtype`, or what it is called wrongly."""
        try:
            return np.dtype(self.dtype).name
        except TypeError:
            return self.dtype

    def _functions(self, params: Params, X: np.ndarray, dtype: str) -> PerHead:
        return self._loaded.functions(self.net_, params, X, dtype)
