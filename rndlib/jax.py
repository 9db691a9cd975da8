"""A JAX function of the user's own as a network of rndlib: Flax, Equinox, stax, or plain JAX."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from rndlib.any_network import AnyNetwork, Points, Weights
from rndlib.training.backends.jax.precision import in_float64


class Function(AnyNetwork):
    """A network that is a function of its parameters, for `kernels.empirical`. The estimators do not train it yet.

    Its kernels are those of training in the parametrisation of the theorems: each array of weights relative to the
    scale of its initial values (`rndlib.any_network`). The head is the last layer, whose arrays alone depend on the
    number of outputs.
    Everything is computed in float64.

    Parameters
    ----------
    init : `init(key, outputs)` returns new parameters, a pytree; leaves that are not real arrays stay as they are.
    apply : `apply(params, x)` maps x (N, *shape) to (N, outputs).
    scales : standard deviations of the initial weights, by path in the pytree or one for all; None measures them.

    Raises
    ------
    ValueError
        The functions are not of that form, or are not what the theorems are about: the message says why.

    Examples
    --------
    >>> import jax
    >>> from rndlib.jax import Function
    >>> def init(key, outputs):
    ...     first, last = jax.random.split(key)
    ...     return [jax.random.normal(first, (3, 64)) / 3**0.5, jax.random.normal(last, (64, outputs)) / 8]
    >>> net = Function(init, lambda params, x: jax.nn.silu(x @ params[0]) @ params[1])
    >>> {name: tensor.outputs_axis for name, tensor in net.tensors(1).items()}
    {'[0]': None, '[1]': 1}
    """

    def __init__(
        self,
        init: Callable[[Any, int], Any],
        apply: Callable[[Any, Any], Any],
        *,
        scales: float | Mapping[str, float] | None = None,
    ):
        super().__init__(scales)
        self.init = init
        self.apply = apply
        self._values = jax.jit(self._of_all)
        self._derivatives = jax.jit(jax.vmap(jax.grad(self._of_first), (None, 0)))

    @in_float64
    def initial(self, outputs: int, seed: int) -> Weights:
        leaves, _ = self._leaves(outputs, seed)
        return {name: np.asarray(leaf, np.float64) for name, leaf in leaves if _trained(leaf)}

    @in_float64
    def functions(self, weights: Weights, X: Points) -> Float[np.ndarray, "n outputs"]:
        return np.asarray(self._values(weights, X), np.float64)

    @in_float64
    def jacobian(self, weights: Weights, X: Points) -> Weights:
        return {name: np.asarray(value) for name, value in self._derivatives(weights, X).items()}

    def _of_all(self, weights: Any, X: Any) -> Any:
        values = self.apply(self._params(weights), X)
        if not hasattr(values, "shape"):
            raise ValueError(f"apply returns {type(values).__name__}: return one array (N, outputs)")
        return values

    def _of_first(self, weights: Any, x: Any) -> Any:
        return self._of_all(weights, x[None])[0, 0]

    def _params(self, weights: Any) -> Any:
        """The pytree of the user's own that holds these weights."""
        leaves, tree = self._leaves(1, 0)
        return jax.tree.unflatten(tree, [weights.get(name, leaf) for name, leaf in leaves])

    def _leaves(self, outputs: int, seed: int) -> tuple[list[tuple[str, Any]], Any]:
        """The leaves of new parameters by their paths, and the tree."""
        leaves, tree = jax.tree_util.tree_flatten_with_path(self.init(jax.random.key(seed), outputs))
        return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves], tree


def _trained(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
