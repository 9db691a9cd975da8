"""A JAX function as a network: Flax, Equinox, stax, or plain JAX."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from rndlib.any_network import AnyNetwork
from rndlib.examination import faults
from rndlib.initial_scales import Weights
from rndlib.training.backends import Backend, load
from rndlib.training.backends.jax import in_float64

_TRACED = "give X in the shape that it reads, and let jax.numpy.where, lax.cond or lax.scan do what depends on values"


class Function(AnyNetwork):
    """A network that is a function of its parameters, for the estimators, `kernels.empirical` and `initial`.

    It is trained in the parametrisation of the theorems: each array of weights relative to the scale of its initial
    values (`rndlib.any_network`). The head is the last layer. Only its arrays depend on the number of outputs.
    Everything is computed in float64. Convolutions by `conv` are many times faster on a CPU than XLA's own.

    Parameters
    ----------
    init: `init(key, outputs)` returns new parameters, a pytree; leaves that are not real arrays stay as they are.
    apply: `apply(params, x)` maps x (N, *shape) to (N, outputs).
    scales: standard deviations of the initial weights, by path in the pytree or one for all; None measures them. Arrays
        that start the same in every draw, such as biases of zero, are not trained: `untrained` names them.
    output_scale: number by which the outputs are multiplied, > 0; None lets a fit choose it, and is 1 until then.

    Raises
    ------
    ValueError: The functions are not of that form, or the theorems do not cover them; the message says why.

    >>> import jax
    >>> import numpy as np
    >>> from rndlib import RND
    >>> from rndlib.jax import Function
    >>> def init(key, outputs):
    ...     first, last = jax.random.split(key)
    ...     return [jax.random.normal(first, (3, 64)) / 3**0.5, jax.random.normal(last, (64, outputs)) / 8]
    >>> net = Function(init, lambda params, x: jax.nn.silu(x @ params[0]) @ params[1])
    >>> RND(net, heads=4, bodies=2).fit(np.eye(3)).errors(np.ones((1, 3))).shape
    (8, 1)
    """

    library: str = "jax"
    differentiable: ClassVar[str] = "replace loops of unknown length by lax.scan, and custom_vjp by custom_jvp"

    def __init__(
        self,
        init: Callable[[Any, int], Any],
        apply: Callable[[Any, Any], Any],
        *,
        scales: float | Mapping[str, float] | None = None,
        output_scale: float | None = 1.0,
    ):
        super().__init__(scales, output_scale)
        self.init = init
        self.apply = apply

    @property
    def backend(self) -> Backend:
        return load("jax")

    @in_float64
    def arrays(self, outputs: int, seed: int) -> tuple[Weights, Weights]:
        leaves, _ = _leaves(self.init, outputs, seed)
        weights = {name: np.asarray(leaf, np.float64) for name, leaf in leaves if _of(leaf, jnp.floating)}
        others = {name: np.asarray(leaf) for name, leaf in leaves if _of(leaf, jnp.number) and name not in weights}
        return weights, others

    @in_float64
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        steps = jax.make_jaxpr(self._of_weights)(self.initial(1, 0), x).eqns
        return max(prod(out.aval.shape) for step in steps for out in step.outvars)

    def of_omega(self, omega: Any, X: Any) -> Any:
        return self._of_weights(self.weights(omega, jnp.moveaxis), X).astype(omega[-1][0].dtype)

    def _of_weights(self, weights: Any, X: Any) -> Any:
        """The outputs at X, a function of all weights by name."""
        leaves, tree = _structure(self.init)
        params = jax.tree.unflatten(tree, [weights.get(name, leaf) for name, leaf in leaves])
        with faults(f"the network fails on points of shape {X.shape[1:]}", _TRACED):
            values = self.apply(params, X)
        if not hasattr(values, "shape"):
            raise ValueError(f"apply returns {type(values).__name__}: return one array (N, outputs)")
        return values if self.output_scale is None else self.output_scale * values


def conv(x: Any, w: Any, strides: Sequence[int] | None = None, padding: str = "SAME") -> Any:
    """A convolution as a product of patches, for `apply`.

    XLA has no fast path on a CPU for float64, nor for the derivatives of single points: training and kernels take many
    times as long with `jax.lax.conv`.

    Parameters
    ----------
    x: Images (N, *places, channels).
    w: Weights (*window, channels, outputs).
    strides: Steps of the window along each axis; None for 1.
    padding: "SAME" or "VALID".

    >>> import jax.numpy as jnp
    >>> from rndlib.jax import conv
    >>> conv(jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 16)), (2, 2)).shape
    (2, 4, 4, 16)
    """
    window = w.shape[:-2]
    strides = strides or [1] * len(window)
    edges = jax.lax.padtype_to_pads(x.shape[1:-1], window, strides, padding)
    x = jnp.pad(x, [(0, 0), *edges, (0, 0)])
    # One axis after the other, and a slice for each pixel: their transpose is fast, unlike that of a gather.
    for axis, (size, stride) in enumerate(zip(window, strides, strict=True), start=1):
        last = x.shape[axis] - size + 1
        x = jnp.stack([jax.lax.slice_in_dim(x, at, at + last, stride, axis) for at in range(size)], -2)
    return x.reshape(*x.shape[: len(window) + 1], -1) @ w.reshape(-1, w.shape[-1])


@lru_cache(maxsize=8)
def _structure(init: Callable[[Any, int], Any]) -> tuple[list[tuple[str, Any]], Any]:
    """Leaves and tree of new parameters, for the leaves that are not weights."""
    return _leaves(init, 1, 0)


def _leaves(init: Callable[[Any, int], Any], outputs: int, seed: int) -> tuple[list[tuple[str, Any]], Any]:
    """The leaves of new parameters by their paths, and the tree. They are drawn at once even while JAX traces."""
    with jax.ensure_compile_time_eval():
        key = jax.random.key(seed, impl="threefry2x32")
        leaves, tree = jax.tree_util.tree_flatten_with_path(init(key, outputs))
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves], tree


def _of(leaf: Any, kind: Any) -> bool:
    """Whether it is an array of numbers of this kind."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, kind)
