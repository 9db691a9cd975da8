"""The JAX backend: Eq. 1, its tangent, and training, on blocks of bodies.

Arrays go in and come out as NumPy arrays with the bodies on the leading axis. They are in float64, and so is
training, but for steps of gradient flow that may be in float32 (`rndlib.training.flow.precision`); functions and
tangents are evaluated in the precision asked for. Nothing here changes jax's configuration.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training.backends.jax import linearise
from rndlib.training.backends.jax.descent import descend
from rndlib.training.backends.jax.flow import JaxFlow
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE, program
from rndlib.training.backends.jax.spectrum import largest_eigenvalue
from rndlib.training.backends.sizes import block_size
from rndlib.training.flow.exponential import Spectrum
from rndlib.training.minibatches import MinibatchSteps
from rndlib.training.problem import Problem
from rndlib.training.weights import Directions, Params

CHUNK_BYTES = 2**20
"""Size of one hidden layer's activations on a chunk of points: they should stay in a core's cache."""


class JaxBackend:
    """`rndlib.training.backends.base.Backend` on JAX."""

    block_size = staticmethod(block_size)

    def functions(
        self, net: MLP, params: Params, X: Float[np.ndarray, "n d"], dtype: str
    ) -> Float[np.ndarray, "bodies heads n"]:
        return _in_chunks(net, X, dtype, _functions, params)

    def tangents(
        self, net: MLP, params: Params, directions: Directions, X: Float[np.ndarray, "n d"], dtype: str
    ) -> Float[np.ndarray, "bodies heads n"]:
        bodies, heads = params[-1][0].shape[:2]
        if not directions or directions[0][0].shape[0] == bodies:
            return _in_chunks(net, X, dtype, _tangents, params, directions)
        grouped = [(w.reshape(bodies, heads, *w.shape[1:]), b.reshape(bodies, heads, -1)) for w, b in directions]
        return _in_chunks(net, X, dtype, _tangents_by_head, params, grouped)

    @in_float64
    def tangent_kernels(
        self, net: MLP, params: Params, X: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "bodies heads heads n n"], Float[np.ndarray, "bodies heads heads n n"]]:
        n, heads = len(X), params[-1][0].shape[1]
        grams, total = map(np.asarray, _tangent_kernels(net, X, linearise.transposed(params)))
        total = total.reshape(-1, n, heads, n, heads).transpose(0, 2, 4, 1, 3)
        last = np.eye(heads)[:, :, None, None] * grams[:, None, None]
        return last, total - last

    @in_float64
    def largest_eigenvalue(self, problem: Problem) -> float:
        start = linearise.transposed(problem.start)
        return largest_eigenvalue(problem.net, start, problem.X) + problem.noise_std**2

    def flow(self, problem: Problem, spectrum: Spectrum) -> JaxFlow:
        return JaxFlow(problem, spectrum)

    @in_float64
    def descend(
        self, problem: Problem, learning_rate: float, steps: int
    ) -> tuple[Params, Float[np.ndarray, " bodies"], Float[np.ndarray, " bodies"]]:
        y, offsets = problem.by_points
        settings = map(np.asarray, (problem.noise_std, learning_rate, steps))
        params, first, last = descend(
            problem.net, linearise.transposed(problem.start), offsets, problem.X, y, *settings
        )
        return linearise.in_numpy(params), np.asarray(first), np.asarray(last)

    @in_float64
    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> MinibatchSteps[Any]:
        try:
            from rndlib.training.backends.jax.stochastic import OptaxSteps
        except ModuleNotFoundError as error:  # Nothing else needs optax.
            raise ImportError(f"StochasticGradient on JAX needs {error.name}: pip install 'rndlib[jax]'") from error
        return OptaxSteps(problem, optimizer, pull)


@in_float64
def _in_chunks(net: MLP, X: np.ndarray, dtype: str, function, *trees) -> np.ndarray:
    n = X.shape[0]
    size = max(1, min(n, CHUNK_BYTES // (np.dtype(dtype).itemsize * net.width)))
    count = -(-n // size)
    padded = np.concatenate([X, np.broadcast_to(X[-1:], (count * size - n, X.shape[1]))]).astype(dtype)
    chunks = padded.reshape(count, size, -1)
    values = function(net, chunks, *(linearise.transposed(tree, dtype) for tree in trees))
    bodies, _, _, heads = values.shape  # between them, chunks and their points
    return np.swapaxes(np.asarray(values, np.float64).reshape(bodies, count * size, heads)[:, :n], 1, 2)


@program(**WIDE)
def _functions(net, chunks, params):
    def one(params):
        layers = linearise.scaled(net, params)
        return lax.map(lambda x: linearise.apply(net, layers, x), chunks)

    return lax.map(one, params)


@program()
def _tangent_kernels(net, X, params):
    def one(params):
        _, at = linearise.linearise(net, params, X)
        return at.last_layer_gram(), at.kernel_matrix()

    return lax.map(one, params)


@program(**WIDE)
def _tangents(net, chunks, params, directions):
    def one(body):
        layers, along = (linearise.scaled(net, part) for part in body)
        return lax.map(lambda x: linearise.body_tangent(net, layers, along, x), chunks)

    return lax.map(one, (params, directions))


@program(**WIDE)
def _tangents_by_head(net, chunks, params, directions):
    def one(body):
        params, directions = body
        *hidden, (w, b) = linearise.scaled(net, params)

        def head(own):
            w, b, direction = own
            layers, along = [*hidden, (w[:, None], b[None])], linearise.scaled(net, direction)
            return lax.map(lambda x: linearise.body_tangent(net, layers, along, x)[:, 0], chunks)

        return jnp.moveaxis(lax.map(head, (w.T, b, directions)), 0, -1)

    return lax.map(one, (params, directions))
