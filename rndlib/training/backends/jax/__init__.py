"""The JAX backend: Eq. 1, its tangent, and training, on blocks of bodies.

Arrays go in and come out as NumPy arrays with the bodies on the leading axis. They are in float64, and so is
training, but for steps of gradient flow that may be in float32 (`rndlib.training.flow.precision`); functions and
tangents are evaluated in the precision asked for. Nothing here changes jax's configuration.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training.backends.jax import linearise
from rndlib.training.backends.jax.descent import gradient_descent
from rndlib.training.backends.jax.exponential import Spectrum
from rndlib.training.backends.jax.flow import gradient_flow
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE, program
from rndlib.training.backends.sizes import block_size as block_size
from rndlib.training.minibatches import Draws, descend
from rndlib.training.pilots import Pilot
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, StochasticGradient
from rndlib.training.weights import Directions, Params

CHUNK_BYTES = 2**20
"""Size of one hidden layer's activations on a chunk of points: they should stay in a core's cache."""


def functions(net: MLP, params: Params, X: Float[np.ndarray, "n d"], dtype: str) -> Float[np.ndarray, "bodies heads n"]:
    """f(X; theta) of every body and head (Eq. 1), computed in `dtype`, returned in float64."""
    return _in_chunks(net, X, dtype, _functions, params)


def tangents(
    net: MLP, params: Params, directions: Directions, X: Float[np.ndarray, "n d"], dtype: str
) -> Float[np.ndarray, "bodies heads n"]:
    """J_theta f(X) psi with the last layer's part of psi zero (Proposition rndntkgpinit), in `dtype`.

    Directions have one leading entry a body, shared by its heads, or one for each body and head, body-major.
    """
    bodies, heads = params[-1][0].shape[:2]
    if not directions or directions[0][0].shape[0] == bodies:
        return _in_chunks(net, X, dtype, _tangents, params, directions)
    grouped = [(w.reshape(bodies, heads, *w.shape[1:]), b.reshape(bodies, heads, -1)) for w, b in directions]
    return _in_chunks(net, X, dtype, _tangents_by_head, params, grouped)


@in_float64
def tangent_kernels(
    net: MLP, params: Params, X: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "bodies heads heads n n"], Float[np.ndarray, "bodies heads heads n n"]]:
    """Empirical tangent kernels `nabla f_i(x)' nabla f_j(x')` of every body: the last layer's part, and the rest.

    Entry [b, i, j, p, q] is that of body b, heads i and j, points p and q; the two parts add up to the kernel of all
    parameters. In the limit of width they are kappa and Theta - kappa for i = j, and 0 otherwise (Proposition B.3).
    """
    n, heads = len(X), params[-1][0].shape[1]
    grams, total = map(np.asarray, _tangent_kernels(net, X, linearise.transposed(params)))
    total = total.reshape(-1, n, heads, n, heads).transpose(0, 2, 4, 1, 3)
    last = np.eye(heads)[:, :, None, None] * grams[:, None, None]
    return last, total - last


@in_float64
def train(
    net: MLP,
    params: Params,
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies heads n"],
    solver: GradientFlow | GradientDescent,
    spectrum: tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]],
    noise_std: float = 0.0,
    offsets: Float[np.ndarray, "bodies n heads"] | None = None,
    pilot: Pilot | None = None,
) -> tuple[Params, Report]:
    """Parameters of every body after training on 1/2 ||f(X) + noise_std xi - y||^2, and a report.

    xi are extra trainable offsets, one a training point and head, starting at `offsets` (zero if None). They add
    noise_std^2 to the diagonal of the tangent kernel and are present on the training set only. `spectrum` holds the
    eigenvalues and eigenvectors of the infinite-width kernel on X, noise included. `pilot` is from the report on other
    bodies of the same description, if some have been trained.

    Raises
    ------
    ValueError: gradient descent at 2 / lambda_max or more.
    DivergenceError: training diverged or missed its accuracy.
    """
    y = np.swapaxes(targets, 1, 2)
    xi = np.zeros_like(y) if offsets is None else offsets
    start = linearise.transposed(params)
    if isinstance(solver, GradientDescent):
        trained, report = gradient_descent(net, solver, start, xi, X, y, noise_std)
    else:
        trained, report = gradient_flow(net, solver, start, xi, X, y, noise_std, Spectrum(*spectrum), pilot)
    return linearise.in_numpy(trained), report


@in_float64
def train_in_batches(
    net: MLP,
    params: Params,
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies heads n"],
    solver: StochasticGradient,
    draws: Draws,
    noise_std: float,
    tick: Callable[[], None],
) -> tuple[Params, Report]:
    """Parameters of every body after training by minibatches (`rndlib.training.minibatches`), and a report.

    `draws` decides the order of the points; `tick` is called after every epoch.

    Raises
    ------
    ImportError: optax is not installed.
    DivergenceError: the loss left the finite numbers, or ended above where it began.
    """
    try:
        from rndlib.training.backends.jax.stochastic import block
    except ModuleNotFoundError as error:  # optax is needed for nothing else
        raise ImportError(f"StochasticGradient on JAX needs {error.name}: pip install 'rndlib[jax]'") from error

    start, y = linearise.transposed(params), np.swapaxes(targets, 1, 2)
    bodies = block(net, solver, start, X, y, noise_std, partial(functions, net, dtype="float64"))
    return descend(bodies, solver, draws, X, targets, tick)


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
        return at.grams[-1], linearise.kernel_matrix(at)

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
