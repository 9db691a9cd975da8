"""Priors by target engineering: which parameters train, and at which rate, sets the prior, and the target matches it.

Training maps the initial error, of covariance K_0, by the tangent kernel of the trained parameters. The result is a
posterior for all data if and only if K_0 is a multiple of that kernel (notebook 10). With theta = theta_0 + S delta and
training of delta it is J S^2 J', or Theta_S in the limit. This is gradient flow on the parameters omega of another
network,

    c (s_L f(x; R omega) + phi(x)' w),    R omega_0 = theta_0,    R = S / s_L below the head,    w_0 ~ N(0, 1),

with s_L the scale of the head's weights, which multiplies all of f. At the start this is c (s_L f(x; theta_0) +
phi(x)' w_0), whose covariance is again the head's part of the kernel. So Proposition 4.1 applies as it stands: psi of
variance 1, and 0 in the head, gives errors of covariance c^2 (Theta_S + phi phi'), at any width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.initial_scales import Weights
from rndlib.network import MLP
from rndlib.theory import reference
from rndlib.theory.kernels import Kernel
from rndlib.training.backends import Backend, load
from rndlib.training.backends.linearised import turned
from rndlib.training.trees import mapped
from rndlib.training.weights import Role, draw

Points = Float[np.ndarray, "n *shape"]
Scales = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Prior:
    """A Gaussian process `mean + output_scale * (network + phi' w)`, for `BayesianRND` and `laws.posterior`.

    Its covariance is `output_scale^2 (Theta_S + phi phi')`, where Theta_S is the sum over layers of their parts of the
    NTK, each times the square of its scale.

    Parameters
    ----------
    scales: Standard deviation of the parameters of each layer of an `MLP`, > 0, or pairs for its weights and biases;
        None is 1. A network of your own has its `scales` below the head, and `output_scale` for it.
    features: Function phi that returns numbers (N, p) for X (N, *shape), row by row: a trend, a period, or the random
        features of any kernel. Their weights w are N(0, 1).
    mean: Function that returns the prior mean (N,) for X (N, *shape), or (N, outputs) for labels of several outputs;
        None for zero.
    output_scale: Factor of network and features, > 0.

    >>> from rndlib import MLP, BayesianRND, Prior
    >>> model = BayesianRND(MLP(1, width=64), prior=Prior(scales=[3.0, 1.0], features=lambda X: 2 * X))
    >>> model.fit([[0.0], [1.0]], [0.0, 1.0]).variance([[9.0]]).shape
    (1,)
    """

    scales: Sequence[float | tuple[float, float]] | None = None
    features: Callable[[Points], ArrayLike] | None = None
    mean: Callable[[Points], ArrayLike] | None = None
    output_scale: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "output_scale", checks.positive("output_scale", self.output_scale))
        for name, given in (("features", self.features), ("mean", self.mean)):
            checks.require(given is None or callable(given), f"{name} = {given!r}: give a function of X, or None")

    def sample(
        self, net: reference.Network, X: ArrayLike, n: int = 1, random_state: int | np.random.Generator | None = 0
    ) -> Float[np.ndarray, "N n"]:
        """Functions drawn from the prior, jointly over X (N, *shape), in the limit of width: (N, n).

        >>> from rndlib import MLP, Prior
        >>> Prior(output_scale=2.0).sample(MLP(1), [[0.0], [1.0]], n=3).shape
        (2, 3)
        """
        points, _ = reference.points(net, X, X)
        values, vectors = np.linalg.eigh(self.kernel(net)(points, points).ntk)
        numbers = np.random.default_rng(random_state).standard_normal((len(points), checks.whole("n", n, at_least=1)))
        return self._mean(points)[:, None] + vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * numbers)

    def kernel(self, net: reference.Network) -> Callable[[np.ndarray, np.ndarray], Kernel]:
        """The kernels of a network, as `laws` take it, with this prior: the covariance is their `ntk`.

        >>> import numpy as np
        >>> from rndlib import MLP, Prior
        >>> Prior().kernel(MLP(1))(np.zeros((2, 1)), np.ones((3, 1))).ntk.shape
        (2, 3)
        """
        pairs = self._pairs(net)
        return lambda X1, X2: _kernel(net, pairs, self.output_scale, (X1, self._phi(X1)), (X2, self._phi(X2)))

    def _network(self, net: MLP | AnyNetwork, X: Points, backend: str | None) -> "_WithPrior":
        """The network that trains, for points of the shape of X; it reads rows x, phi(x)."""
        library = net.library if isinstance(net, AnyNetwork) else (backend or "jax").partition(":")[0]
        return _WithPrior(net, self._pairs(net), self.output_scale, X.shape[1:], self._phi(X).shape[1], library)

    def _phi(self, X: Points) -> Float[np.ndarray, "n p"]:
        if self.features is None:
            return np.empty((len(X), 0))
        values = checks.array("features(X)", self.features(X), len(X), None)
        return checks.row_by_row("features", self.features, X, values)

    def _mean(self, X: Points) -> Float[np.ndarray, " n"]:
        if self.mean is None:
            return np.zeros(len(X))
        return checks.row_by_row("mean", self.mean, X, checks.labels("mean(X)", self.mean(X), len(X)))

    def _pairs(self, net: Any) -> Scales | None:
        """S of the weights and biases of each layer; None is 1."""
        if self.scales is None:
            return None
        checks.require(isinstance(net, MLP), f"scales = {self.scales!r} is for an MLP: give scales to your network")
        given: Any = self.scales if np.iterable(self.scales) else []
        pairs = [(s, s) if np.ndim(s) == 0 else tuple(s) for s in given]
        wanted = f"scales = {self.scales!r}: give a number, or a pair for weights and biases, for each layer of {net}"
        checks.require(len(pairs) == net.depth and all(len(pair) == 2 for pair in pairs), wanted)
        return tuple((checks.positive("scales", w), checks.positive("scales", b)) for w, b in pairs)


def _kernel(net: Any, pairs: Scales | None, output_scale: float, one: Any, other: Any) -> Kernel:
    """The kernels in the limit of width between points, each side a pair of x (N, *shape) and phi(x) (N, p)."""
    scaled = _ScaledMLP(**vars(net), pairs=pairs) if pairs else net
    found = reference.between(scaled, one[0], other[0])
    nngp = output_scale**2 * (found.nngp + one[1] @ other[1].T)
    return Kernel(nngp, nngp + output_scale**2 * found.body)


@dataclass(frozen=True)
class _ScaledMLP(MLP):
    """An `MLP` whose weights and biases have these scales, layer by layer, for its kernels in the limit of width."""

    pairs: Scales | None = None

    def _trained(self, layer: int, kappa: np.ndarray) -> np.ndarray:
        weights, biases = self.pairs[layer] if self.pairs else (1.0, 1.0)
        return weights**2 * (kappa - self.sigma_b**2) + (biases * self.sigma_b) ** 2


@dataclass(unsafe_hash=True, repr=False)
class _WithPrior(AnyNetwork):
    """The network of the module's docstring. It reads rows x, phi(x). Equal ones share their compiled programs."""

    base: MLP | AnyNetwork
    pairs: Scales | None
    output_scale: float
    shape: tuple[int, ...]
    features: int
    library: str

    differentiable = ""  # `base` is examined in place of it

    def __post_init__(self):
        super().__init__(1.0, self.output_scale)
        self._top = self.pairs[-1][0] if self.pairs else 1.0

    def __repr__(self) -> str:
        return repr(self.base)

    @property
    def backend(self) -> Backend:
        return load(self.library)

    def examine(self, X: Float[np.ndarray, "n columns"]) -> None:
        self.base.examine(self._split(X)[0])

    def arrays(self, outputs: int, seed: int) -> tuple[Weights, Weights]:
        *body, head = mapped(lambda a: a[0], draw(self.base, outputs, seed, Role.PREDICTOR, [0]))
        w = np.random.default_rng(seed).standard_normal((outputs, self.features))
        tensors = [a for layer in [*self._rescaled(body, -1), head, (w,)] for a in layer]
        return {str(i): a for i, a in enumerate(tensors)}, {}

    def of_omega(self, omega: Any, X: Any) -> Any:
        x, phi = self._split(X)
        *body, (*head, w) = omega
        if isinstance(self.base, MLP):  # whose weights and biases are layers of their own here
            body = [(*weights, *biases) for weights, biases in zip(body[::2], body[1::2], strict=True)]
        layers = self._rescaled([*body, tuple(head)], 1)
        f = self.backend.values(self.base, turned(layers) if isinstance(self.base, MLP) else layers, x)
        return self.output_scale * (self._top * f + phi @ w.mT)

    def __call__(self, X1: np.ndarray, X2: np.ndarray) -> Kernel:
        """Kernels in the limit of width, as `laws` take a network's, where `base` is an `MLP`."""
        one = self._split(X1)
        return _kernel(self.base, self.pairs, self.output_scale, one, one if X2 is X1 else self._split(X2))

    def _rescaled(self, layers: list[Any], power: int) -> list[Any]:
        """Layers, from the first on, times R to this power."""
        pairs = self.pairs or [[1.0] * len(layer) for layer in layers]
        both = zip(layers, pairs, strict=False)
        return [tuple(a * (s / self._top) ** power for a, s in zip(*one, strict=True)) for one in both]

    def _split(self, X: Any) -> tuple[Any, Any]:
        """x (N, *shape) and phi(x) (N, features), in arrays of any library."""
        size = prod(self.shape)
        return X[:, :size].reshape(len(X), *self.shape), X[:, size:]

    def _largest(self, x: Float[np.ndarray, "1 columns"]) -> int:
        return self.base.width if isinstance(self.base, MLP) else self.base.activations(self._split(x)[0])
