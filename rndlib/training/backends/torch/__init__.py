"""The PyTorch backend: Eq. 1, its tangent, and training, on blocks of bodies.

Arrays go in and come out as NumPy arrays with the bodies on the leading axis. They are in float64, and so is
training, but for steps of gradient flow that may be in float32 (`rndlib.training.flow.precision`); functions and
tangents are evaluated in the precision asked for. Everything runs on `device` and nothing here changes, or depends on,
PyTorch's own
settings: its default device is one a thread, and a fit has several.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from rndlib.network import MLP
from rndlib.training.backends.sizes import block_size
from rndlib.training.backends.torch.descent import descend
from rndlib.training.backends.torch.flow import TorchFlow
from rndlib.training.backends.torch.linearise import apply, body_tangent, linearise
from rndlib.training.backends.torch.spectrum import largest_eigenvalue
from rndlib.training.backends.torch.stochastic import TorchSteps
from rndlib.training.flow.exponential import Spectrum
from rndlib.training.minibatches import MinibatchSteps
from rndlib.training.problem import Problem
from rndlib.training.weights import Directions, Params

CHUNK_BYTES = 2**20
"""Size of one hidden layer's activations on a chunk of points and bodies: they should stay in a core's cache."""


class TorchBackend:
    """`rndlib.training.backends.base.Backend` on PyTorch, on one device.

    Raises
    ------
    ImportError: there is no such device.
    """

    block_size = staticmethod(block_size)

    def __init__(self, device: str = "cpu"):
        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError(
                "backend 'torch:cuda' finds no CUDA device that this PyTorch can use: give backend='torch'"
            )
        self.device = device

    @torch.no_grad()
    def functions(
        self, net: MLP, params: Params, X: Float[np.ndarray, "n d"], dtype: str
    ) -> Float[np.ndarray, "bodies heads n"]:
        def one(x: Tensor, params: Any) -> Tensor:
            return apply(net, params, x).mT

        return _in_chunks(net, X, dtype, self.device, one, params)

    @torch.no_grad()
    def tangents(
        self, net: MLP, params: Params, directions: Directions, X: Float[np.ndarray, "n d"], dtype: str
    ) -> Float[np.ndarray, "bodies heads n"]:
        def shared(x: Tensor, params: Any, direction: Any) -> Tensor:
            return body_tangent(net, params, direction, x).mT

        def by_head(x: Tensor, params: Any, directions: Any) -> Tensor:
            def head(last: Any, direction: Any) -> Tensor:
                alone = [*params[:-1], tree_map(lambda a: a[None], last)]
                return body_tangent(net, alone, direction, x)[:, 0]

            return vmap(head)(params[-1], directions)

        bodies, heads = params[-1][0].shape[:2]
        if not directions or directions[0][0].shape[0] == bodies:
            return _in_chunks(net, X, dtype, self.device, shared, params, directions)
        grouped = [(w.reshape(bodies, heads, *w.shape[1:]), b.reshape(bodies, heads, -1)) for w, b in directions]
        return _in_chunks(net, X, dtype, self.device, by_head, params, grouped, copies=heads)

    @torch.no_grad()
    def tangent_kernels(
        self, net: MLP, params: Params, X: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "bodies heads heads n n"], Float[np.ndarray, "bodies heads heads n n"]]:
        n, heads = len(X), params[-1][0].shape[1]
        at = linearise(net, self._tensors(params), self._tensors(X))
        total = at.kernel_matrix().view(-1, n, heads, n, heads).permute(0, 2, 4, 1, 3).cpu().numpy()
        last = np.eye(heads)[:, :, None, None] * at.last_layer_gram().cpu().numpy()[:, None, None]
        return last, total - last

    @torch.no_grad()
    def largest_eigenvalue(self, problem: Problem) -> float:
        start, X = self._tensors((problem.start, problem.X))
        return largest_eigenvalue(problem.net, start, X) + problem.noise_std**2

    def flow(self, problem: Problem, spectrum: Spectrum) -> TorchFlow:
        y, offsets = problem.by_points
        start, X, y, basis = self._tensors(((problem.start, offsets), problem.X, y, tuple(spectrum)))
        return TorchFlow(problem.net, start, X, y, problem.noise_std, Spectrum(*basis))

    @torch.no_grad()
    def descend(
        self, problem: Problem, learning_rate: float, steps: int
    ) -> tuple[Params, Float[np.ndarray, " bodies"], Float[np.ndarray, " bodies"]]:
        y, offsets = problem.by_points
        params, offsets, X, y = self._tensors((problem.start, offsets, problem.X, y))
        norms = descend(problem.net, params, offsets, X, y, problem.noise_std, learning_rate, steps)
        first, last = (norm.cpu().numpy() for norm in norms)
        return tree_map(lambda a: a.cpu().numpy(), params), first, last

    @torch.no_grad()
    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> MinibatchSteps[Any]:
        params, X, y = self._tensors((problem.start, problem.X, problem.by_points[0]))
        return TorchSteps(problem.net, params, X, y, optimizer, pull)

    def _tensors(self, arrays: Any) -> Any:
        return _tensors(arrays, "float64", self.device)


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
