"""The PyTorch backend: Eq. 1, its tangent, and training, on blocks of bodies.

Arrays go in and come out as NumPy arrays with the bodies on the leading axis. They are in float64, and so is
training, but for steps of gradient flow that may be in float32 (`rndlib.training.flow.precision`); functions and
tangents are evaluated in the precision asked for. Everything runs on `device` and nothing here changes, or depends on,
PyTorch's own
settings: its default device is one a thread, and a fit has several.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from rndlib.network import MLP
from rndlib.training.backends.sizes import block_size as block_size
from rndlib.training.backends.torch.descent import gradient_descent
from rndlib.training.backends.torch.exponential import Spectrum
from rndlib.training.backends.torch.flow import gradient_flow
from rndlib.training.backends.torch.linearise import apply, body_tangent, kernel_matrix, linearise
from rndlib.training.backends.torch.stochastic import block
from rndlib.training.minibatches import Draws, descend
from rndlib.training.pilots import Pilot
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, StochasticGradient
from rndlib.training.weights import Directions, Params

CHUNK_BYTES = 2**20
"""Size of one hidden layer's activations on a chunk of points and bodies: they should stay in a core's cache."""


@torch.no_grad()
def functions(
    net: MLP, params: Params, X: Float[np.ndarray, "n d"], dtype: str, device: str = "cpu"
) -> Float[np.ndarray, "bodies heads n"]:
    """f(X; theta) of every body and head (Eq. 1), computed in `dtype`, returned in float64."""

    def one(x: Tensor, params: Any) -> Tensor:
        return apply(net, params, x).mT

    return _in_chunks(net, X, dtype, device, one, params)


@torch.no_grad()
def tangents(
    net: MLP, params: Params, directions: Directions, X: Float[np.ndarray, "n d"], dtype: str, device: str = "cpu"
) -> Float[np.ndarray, "bodies heads n"]:
    """J_theta f(X) psi with the last layer's part of psi zero (Proposition rndntkgpinit), in `dtype`.

    Directions have one leading entry a body, shared by its heads, or one for each body and head, body-major.
    """

    def shared(x: Tensor, params: Any, direction: Any) -> Tensor:
        return body_tangent(net, params, direction, x).mT

    def by_head(x: Tensor, params: Any, directions: Any) -> Tensor:
        def head(last: Any, direction: Any) -> Tensor:
            alone = [*params[:-1], tree_map(lambda a: a[None], last)]
            return body_tangent(net, alone, direction, x)[:, 0]

        return vmap(head)(params[-1], directions)

    bodies, heads = params[-1][0].shape[:2]
    if not directions or directions[0][0].shape[0] == bodies:
        return _in_chunks(net, X, dtype, device, shared, params, directions)
    grouped = [(w.reshape(bodies, heads, *w.shape[1:]), b.reshape(bodies, heads, -1)) for w, b in directions]
    return _in_chunks(net, X, dtype, device, by_head, params, grouped, copies=heads)


@torch.no_grad()
def tangent_kernels(
    net: MLP, params: Params, X: Float[np.ndarray, "n d"], device: str = "cpu"
) -> tuple[Float[np.ndarray, "bodies heads heads n n"], Float[np.ndarray, "bodies heads heads n n"]]:
    """Empirical tangent kernels `nabla f_i(x)' nabla f_j(x')` of every body: the last layer's part, and the rest.

    Entry [b, i, j, p, q] is that of body b, heads i and j, points p and q; the two parts add up to the kernel of all
    parameters. In the limit of width they are kappa and Theta - kappa for i = j, and 0 otherwise (Proposition B.3).
    """
    n, heads = len(X), params[-1][0].shape[1]
    at = linearise(net, _tensors(params, "float64", device), _tensors(X, "float64", device))
    total = kernel_matrix(at).view(-1, n, heads, n, heads).permute(0, 2, 4, 1, 3).cpu().numpy()
    last = np.eye(heads)[:, :, None, None] * at.grams[-1].cpu().numpy()[:, None, None]
    return last, total - last


@torch.no_grad()
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
    device: str = "cpu",
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
    start, xi, points, y = _tensors((params, xi, X, y), "float64", device)
    if isinstance(solver, GradientDescent):
        trained, report = gradient_descent(net, solver, start, xi, points, y, noise_std)
    else:
        basis = Spectrum(*_tensors(spectrum, "float64", device))
        trained, report = gradient_flow(net, solver, start, xi, points, y, noise_std, basis, pilot)
    return tree_map(lambda a: a.cpu().numpy(), trained), report


@torch.no_grad()
def train_in_batches(
    net: MLP,
    params: Params,
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies heads n"],
    solver: StochasticGradient,
    draws: Draws,
    noise_std: float,
    tick: Callable[[], None],
    device: str = "cpu",
) -> tuple[Params, Report]:
    """Parameters of every body after training by minibatches (`rndlib.training.minibatches`), and a report.

    `draws` decides the order of the points; `tick` is called after every epoch.

    Raises
    ------
    DivergenceError: the loss left the finite numbers, or ended above where it began.
    """
    start, points, y = _tensors((params, X, np.swapaxes(targets, 1, 2)), "float64", device)
    evaluate = partial(functions, net, dtype="float64", device=device)
    bodies = block(net, solver, start, points, y, noise_std, evaluate)
    return descend(bodies, solver, draws, X, targets, tick)


def _tensors(arrays: Any, dtype: str, device: str) -> Any:
    """Copies of a tree of NumPy arrays, as training works in place; strides of any sign are welcome."""
    return tree_map(lambda a: torch.tensor(np.ascontiguousarray(a), dtype=getattr(torch, dtype), device=device), arrays)


def _in_chunks(net: MLP, X: np.ndarray, dtype: str, device: str, function, *trees, copies: int = 1) -> np.ndarray:
    """`function` of points and one body's arrays, (heads, n), of every body: few points and bodies at a time.

    copies: how many networks of the description it evaluates for each body.
    """
    points, trees = _tensors((X, trees), dtype, device)
    each = np.dtype(dtype).itemsize * net.width * copies
    size = max(1, min(len(X), CHUNK_BYTES // each))
    batched = vmap(function, in_dims=(None, *([0] * len(trees))), chunk_size=max(1, CHUNK_BYTES // (each * size)))
    values = torch.cat([batched(chunk, *trees) for chunk in points.split(size)], -1)
    return values.double().cpu().numpy()
