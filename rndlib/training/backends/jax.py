"""The JAX backend: programs of one body after the other, each compiled once. JAX's configuration stays unchanged."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import factorial, inf, log
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rndlib.activations import NUMPY, Functions
from rndlib.any_network import Network
from rndlib.network import MLP
from rndlib.training.backends import Backend, Program
from rndlib.training.backends.linearised import Linearised, turned

try:
    from jax import enable_x64  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:  # its place before jax 0.8
    from jax.experimental import enable_x64

_checking_leaks: Any = jax.checking_leaks
_SETTINGS: list[Callable[[], Any]] = [
    lambda: enable_x64(True),
    lambda: jax.numpy_rank_promotion("allow"),
    lambda: jax.numpy_dtype_promotion("standard"),
    lambda: jax.threefry_partitionable(True),  # the same seed, the same weights
    lambda: jax.disable_jit(False),
    lambda: jax.debug_nans(False),  # a kernel that is not positive definite shows in a NaN
    lambda: jax.debug_infs(False),
    lambda: _checking_leaks.func(False),
    lambda: jax.transfer_guard("allow"),
    lambda: jax.default_matmul_precision("highest"),
]
if jax.__version_info__ < (0, 10):
    # A program that jaxlib 0.5.3 reads back from JAX's cache on disk can give other numbers than the one it compiled;
    # with 0.10.2 it is right. So none is written, and none is found.
    from jax._src.config import persistent_cache_min_compile_time_secs

    _SETTINGS.append(lambda: persistent_cache_min_compile_time_secs(inf))

WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Compiler option for vectors of more than 256 bits, for elementwise arithmetic on large arrays."""


FEW = 32
"""Most rows of a matrix whose products with one row at a time take half the time of its product with itself."""

INPUTS = 16
"""Most inputs of a layer that are summed one after the other. XLA joins such a sum with the nonlinearity that follows
into one vectorised loop; after a product of matrices, on one core and at width 2048, it does not vectorise that loop,
which then takes four times as long."""


@contextmanager
def settings() -> Iterator[None]:
    """JAX with 64-bit types, and with other settings as the backend and its users take them.

    Those of the process may be any: stricter promotion, checks of NaN and of leaks, programs that are not compiled.
    """
    with ExitStack() as stack:
        for setting in _SETTINGS:
            stack.enter_context(setting())
        yield


in_float64 = settings()
"""A decorator of functions that run within `settings`."""


# ln 2 in two parts, the first with zeros at its end: a whole number of up to 11 bits times it is exact.
_LN2 = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_EXPONENT = 1.5 * 2.0**52 + 1023
"""Added to a whole number k, it puts the exponent that a float64 has for 2^k into the last bits of the sum."""


@jax.custom_jvp
def exp(z: Any) -> Any:
    """e^z. In float64 on a CPU, XLA calls the C library's scalar function for each number: this is six times faster."""
    if z.dtype != jnp.float64:
        return jnp.exp(z)
    z = jnp.clip(z, -708.0, 709.0)
    k = jnp.rint(z * (1 / log(2)))
    r = (z - k * _LN2[0]) - k * _LN2[1]
    series = jnp.full_like(r, 1 / factorial(13))  # of e^r, whose remainder is below 1e-17
    for power in range(12, -1, -1):
        series = series * r + 1 / factorial(power)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(k + _EXPONENT, jnp.int64) << 52, jnp.float64) * series


@jax.custom_jvp
def sigmoid(z: Any) -> Any:
    """1 / (1 + e^-z). In float32 tanh is cheaper than e^z, and as accurate."""
    return 1 / (1 + exp(-z)) if z.dtype == jnp.float64 else 0.5 + 0.5 * jnp.tanh(0.5 * z)


@jax.custom_jvp
def tanh(z: Any) -> Any:
    """tanh(z), up to rounding of 1."""
    return 2 * sigmoid(2 * z) - 1


exp.defjvps(lambda moved, value, z: moved * value)
sigmoid.defjvps(lambda moved, value, z: moved * value * (1 - value))
tanh.defjvps(lambda moved, value, z: moved * (1 - value**2))


def _maximum(a: Any, b: Any) -> Any:
    """With the slope of b where they are equal, where JAX has the mean of both."""
    return jnp.where(a > b, a, b)


_OWN = {"erf": jax.scipy.special.erf, "exp": exp, "sigmoid": sigmoid, "tanh": tanh, "maximum": _maximum}
FUNCTIONS = Functions(
    library="JAX", **{name: _OWN.get(name) or getattr(jnp, name) for name in vars(NUMPY) if name != "library"}
)


class JaxBackend(Backend):
    """`rndlib.training.backends.Backend` on JAX."""

    xp = jnp
    cast = staticmethod(lambda a, dtype: a.astype(dtype))
    constant = staticmethod(lambda value, like: jnp.asarray(value))
    dense_many = 40
    map, while_loop, cond = staticmethod(lax.map), staticmethod(lax.while_loop), staticmethod(lax.cond)

    def __init__(self):
        self._compiling, self._compiled = Lock(), set()

    def settings(self) -> Any:
        return settings()

    def each(self, program: Program, net: Network, shared: Any, own: Any, together: int = 0) -> Any:
        leaves, tree = jax.tree.flatten((shared, own))
        key = program, net, tree, tuple((np.shape(a), str(a.dtype)) for a in leaves)
        if key in self._compiled:
            return _each(program, self, net, shared, own)
        with self._compiling:  # or every thread that needs a new program would compile it for itself
            result = jax.block_until_ready(_each(program, self, net, shared, own))
            self._compiled.add(key)
        return result

    def tensors(self, tree: Any, dtype: str = "float64") -> Any:
        # NumPy's stay so: a compiled program converts them ten times as fast as `jnp.asarray`.
        return jax.tree.map(lambda a: a.astype(dtype) if np.issubdtype(a.dtype, np.floating) else a, tree)

    def arrays(self, tree: Any) -> Any:
        return jax.tree.map(np.asarray, tree)

    def differentiated(self, net: Any, params: Any, X: Any) -> Linearised:
        return LinearFunction(self, net.of_omega, params, X)

    def product(self, x: Any, w: Any) -> Any:
        if x.shape[-1] > INPUTS or x.dtype == jnp.float32:  # whose rounding must not depend on what is joined
            return x @ w
        return sum(x[..., i, None] * w[..., i, None, :] for i in range(x.shape[-1]))

    def gram(self, a: Any) -> Any:
        return lax.map(lambda row: a @ row, a) if len(a) <= FEW else a @ a.mT

    def phi(self, activation: Any, z: Any) -> Any:
        return MLP(1, activation=activation).phi(z, FUNCTIONS)

    def value_and_slope(self, activation: Any, z: Any) -> tuple[Any, Any]:
        return jax.jvp(lambda u: self.phi(activation, u), (z,), (jnp.ones_like(z),))


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=WIDE)
def _each(program: Program, lib: JaxBackend, net: Network, shared: Any, own: Any) -> Any:
    # One body after the other: its arrays stay in the cache, and none waits for another's solves. Batched eigenproblems
    # can deadlock: jaxlib 0.10 gives them to the threads that run the programs waiting for them.
    if not isinstance(net, MLP):
        return lax.map(lambda one: program(lib, net, shared, one), own)
    return turned(lax.map(lambda one: program(lib, net, shared, one), turned(own)))


class LinearFunction(Linearised):
    """A function of parameters, linearised on N points by JAX's differentiation.

    function : `function(params, X)` returns (N, heads); the outputs at a point depend on that point alone.
    """

    def __init__(self, lib: JaxBackend, function: Callable[[Any, Any], Any], params: Any, X: Any):
        self.lib, self.function, self.params, self.X = lib, function, params, X
        self.value, self._pushed = jax.linearize(lambda params: function(params, X), params)
        self._transposed = jax.linear_transpose(self._pushed, params)

    def jvp(self, change: Any) -> Any:
        return self._pushed([*change, *jax.tree.map(jnp.zeros_like, self.params[len(change) :])])

    def vjp(self, v: Any) -> Any:
        return self._transposed(v)[0]

    def rows(self, X: Any) -> Any:
        return jax.vmap(lambda x: jax.jacrev(lambda params: self.function(params, x[None])[0])(self.params))(X)
