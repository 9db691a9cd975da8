"""The JAX backend: Eq. 1, its tangent, and training, on blocks of bodies. It leaves jax's configuration unchanged."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib.any_network import Network
from rndlib.network import MLP
from rndlib.training.backends.jax.linearise import linearised, to_jax, to_numpy
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE, program
from rndlib.training.flow.integration import MOST_STEPS
from rndlib.training.flow.library import Library
from rndlib.training.problem import Problem, Spectrum, State
from rndlib.training.protocols import (
    Changes,
    Columns,
    Functions,
    Kernels,
    Marks,
    Minibatches,
    Points,
    Residuals,
    TestPoints,
    Times,
    Transferred,
)
from rndlib.training.steps import descent_step, flow_evaluation
from rndlib.training.weights import Directions, Params, paired, several

CHUNK_BYTES = 2**20
"""Size of one hidden layer's activations on a chunk of points: they should stay in a core's cache."""


def _pull_backs(tangent: Any, vs: Array) -> list[Any]:
    each = tangent.pull_back_each(vs)
    return [jax.tree.map(lambda a, k=k: a[k], each) for k in range(len(vs))]


def _inverse_factor(matrix: Array) -> Array:
    one = jnp.eye(len(matrix), dtype=matrix.dtype)
    return lax.linalg.triangular_solve(jnp.linalg.cholesky(matrix), one, left_side=True, lower=True)


LIBRARY = Library(
    xp=jnp,
    cast=lambda a, dtype: jnp.asarray(a, dtype),
    constant=lambda value, like: jnp.asarray(value),
    cond=lax.cond,
    while_loop=lax.while_loop,
    inverse_factor=_inverse_factor,
    kernel_products=lambda tangent, vs: jax.vmap(tangent.kernel_product)(vs),
    pull_backs=_pull_backs,
)


class JaxBackend:
    """`rndlib.training.protocols.Backend` on JAX."""

    def functions(self, net: Network, params: Params, X: Points, dtype: str) -> Functions:
        return _in_chunks(net, X, dtype, _functions, params)

    def tangents(self, net: Network, params: Params, directions: Directions, X: Points, dtype: str) -> Functions:
        if (each := several(params, directions)) is not None:
            return _in_chunks(net, X, dtype, _pushed, params, each)
        values = _in_chunks(net, X, dtype, _tangents, *paired(params, directions))
        return values.reshape(len(params[0][0]), -1, len(X))

    @in_float64
    def tangent_kernels(self, net: Network, params: Params, X: Points) -> tuple[Kernels, Kernels]:
        n, heads = len(X), params[-1][0].shape[1]
        grams, total = map(np.asarray, _tangent_kernels(net, X, to_jax(net, params)))
        total = total.reshape(-1, n, heads, n, heads).transpose(0, 2, 4, 1, 3)
        last = np.eye(heads)[:, :, None, None] * grams[:, None, None]
        return last, total - last

    @in_float64
    def kernel_product(self, net: Network, params: Params, X: Points, v: Residuals) -> Residuals:
        return np.asarray(_kernel_product(net, X, to_jax(net, params), v))

    @in_float64
    def pull_back(self, net: Network, params: Params, X: Points, v: Columns) -> Changes:
        # The derivatives of a network of the user's own are taken at a few points at a time in any case.
        size = _chunk_size(net, X, "float64") if isinstance(net, MLP) else len(X)
        columns = _chunks(v.swapaxes(0, 1), size, 0.0).transpose(2, 0, 3, 1)
        changes = _pulled(net, _chunks(X, size, X[-1]), to_jax(net, params), np.ascontiguousarray(columns))
        return to_numpy(net, changes)

    def push_forward(self, net: Network, params: Params, changes: Changes, X: TestPoints, dtype: str) -> Transferred:
        return _in_chunks(net, X, dtype, _pushed, params, changes)

    @in_float64
    def integrate(
        self,
        problem: Problem,
        state: State,
        residual: Residuals,
        spectrum: Spectrum,
        times: Times,
        going: Marks,
        single: bool,
    ) -> State:
        params, offsets = state
        with np.errstate(over="ignore"):  # A number beyond float32 becomes NaN in training.
            given = (problem.X, problem.by_points[0], problem.noise_std)
            X, y, noise_std = (np.asarray(a, np.float32 if single else float) for a in given)
        rows, counts = _padded(times.tobytes()), np.where(going, len(times), 0)
        start = to_jax(problem.net, params), offsets
        shift, xi = _integrate(problem.net, start, X, y, noise_std, residual, spectrum, rows, counts)
        return to_numpy(problem.net, shift), np.asarray(xi)

    @in_float64
    def descend(self, problem: Problem, learning_rate: float, steps: int) -> State:
        y, offsets = problem.by_points
        noise_std, rate, count = map(np.asarray, (problem.noise_std, learning_rate, steps))
        params, xi = _descend(
            problem.net, (to_jax(problem.net, problem.start), offsets), problem.X, y, noise_std, rate, count
        )
        return to_numpy(problem.net, params), np.asarray(xi)

    @in_float64
    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> Minibatches:
        try:
            from rndlib.training.backends.jax.stochastic import OptaxMinibatches
        except ModuleNotFoundError as error:  # Nothing else needs optax.
            raise ImportError(f"StochasticGradient on JAX needs {error.name}: pip install 'rndlib[jax]'") from error
        return OptaxMinibatches(problem, optimizer, pull)


@in_float64
def _in_chunks(net: Network, X: np.ndarray, dtype: str, function, *trees) -> np.ndarray:
    chunks = _chunks(X, _chunk_size(net, X, dtype), X[-1]).astype(dtype)
    values = function(net, chunks, *(to_jax(net, tree, dtype) for tree in trees))
    bodies, count, size, heads = values.shape
    return np.swapaxes(np.asarray(values, np.float64).reshape(bodies, count * size, heads)[:, : len(X)], 1, 2)


def _chunk_size(net: Network, X: np.ndarray, dtype: str) -> int:
    each = net.width if isinstance(net, MLP) else net.activations(X[:1])
    return max(1, min(len(X), CHUNK_BYTES // (np.dtype(dtype).itemsize * each)))


def _chunks(rows: np.ndarray, size: int, last: np.ndarray | float) -> np.ndarray:
    """Rows in chunks of this size, (chunks, size, ...). Copies of a last row fill them."""
    count = -(-len(rows) // size)
    more = np.broadcast_to(np.asarray(last, rows.dtype), (count * size - len(rows), *rows.shape[1:]))
    return np.concatenate([rows, more]).reshape(count, size, *rows.shape[1:])


@program(**WIDE)
def _functions(net, chunks, params):
    return lax.map(lambda one: lax.map(lambda x: linearised(net, one, x)[0], chunks), params)


@program(**WIDE)
def _tangents(net, chunks, params, directions):
    def one(body):
        params, directions = body
        return lax.map(lambda x: linearised(net, params, x)[1].push_forward(directions), chunks)

    return lax.map(one, (params, directions))


@program()
def _pulled(net, chunks, params, columns):
    def one(body):
        params, columns = body

        def added(total, chunk):
            x, v = chunk
            return jax.tree.map(jnp.add, total, linearised(net, params, x)[1].pull_back_columns(v)), None

        none = jax.tree.map(lambda a: jnp.zeros((columns.shape[1], *a.shape), a.dtype), params)
        return lax.scan(added, none, (chunks, columns))[0]

    return lax.map(one, (params, columns))


@program(**WIDE)
def _pushed(net, chunks, params, changes):
    def one(body):
        params, changes = body
        return lax.map(lambda x: linearised(net, params, x)[1].push_forward_columns(changes), chunks)

    return lax.map(one, (params, changes))


@program()
def _tangent_kernels(net, X, params):
    def one(params):
        _, tangent = linearised(net, params, X)
        return tangent.last_layer_gram(), tangent.kernel_matrix()

    return lax.map(one, params)


@program()
def _kernel_product(net, X, params, v):
    return lax.map(lambda body: linearised(net, body[0], X)[1].kernel_product(body[1]), (params, v))


@program()
def _descend(net, state, X, targets, noise_std, rate, steps):
    def one(body):
        state, y = body

        def step(_, state):
            return descent_step(lambda params: linearised(net, params, X), state, y, noise_std, rate)

        return lax.fori_loop(0, steps, step, state)

    return lax.map(one, (state, targets))


@program(**WIDE)
def _integrate(net, start, X, targets, noise_std, residuals, spectrum, times, counts):
    def one(body):
        start, y, residual, count = body
        start = jax.tree.map(lambda a: a.astype(X.dtype), start)
        evaluate = flow_evaluation(
            lambda params: linearised(net, params, X), start, y, noise_std, residual, spectrum, times, LIBRARY
        )
        none = jax.tree.map(jnp.zeros_like, start)
        return lax.fori_loop(0, count, evaluate, (none, none[0]))[0]

    # One body after the other: its arrays stay in the cache, and none waits for another's solves. Batched eigenproblems
    # can deadlock: jaxlib 0.10 gives them to the threads that run the programs waiting for them.
    return lax.map(one, (start, targets, residuals, counts))


@lru_cache(maxsize=8)
def _padded(times: bytes) -> Float[Array, "rows 2"]:
    """Rows of times, padded to one shape, so that all numbers of steps share a program."""
    padded = np.zeros((2 * MOST_STEPS, 2))
    padded.ravel()[: len(times) // padded.itemsize] = np.frombuffer(times)
    return jnp.asarray(padded)
