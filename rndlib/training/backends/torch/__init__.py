"""The PyTorch backend: Eq. 1, its tangent, and training, on blocks of bodies.

Nothing here changes, or depends on, PyTorch's own settings: its default device is one per thread, and a fit has several
threads.
"""

from collections.abc import Callable
from functools import partial, reduce
from math import nan
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.any_network import Network
from rndlib.cores import slices
from rndlib.network import MLP
from rndlib.training.backends.torch.linearise import apply, linearised
from rndlib.training.backends.torch.settings import hosted
from rndlib.training.backends.torch.stochastic import TorchMinibatches
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
from rndlib.training.trees import mapped
from rndlib.training.weights import Directions, Params, paired, several

CACHE_BYTES = 2**20
"""Size of one layer's activations, or of the parameters, in one operation: small enough for a core's cache, and large
enough for arithmetic to take longer than starting it from Python."""

COLUMNS_BYTES = 2**24
"""The same for one layer's derivatives of several columns, whose matrix products need more points."""


def _while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    while condition(state):
        state = body(state)
    return state


def _inverse_factor(matrix: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(matrix)
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    inverse = torch.linalg.solve_triangular(factor, one, upper=False)
    return torch.where(failed[..., None, None] > 0, nan, inverse)


LIBRARY = Library(
    xp=torch,
    cast=lambda a, dtype: a.to(getattr(torch, dtype)),
    constant=lambda value, like: torch.as_tensor(np.asarray(value), device=like.device),
    cond=lambda predicate, yes, no, value: yes(value) if predicate else no(value),
    while_loop=_while_loop,
    inverse_factor=_inverse_factor,
    kernel_products=lambda tangent, vs: tangent.kernel_product(vs[None])[0],
    pull_backs=lambda tangent, vs: [tangent.pull_back(v) for v in vs],
)


class TorchBackend:
    """`rndlib.training.protocols.Backend` on PyTorch, on one device; an ImportError if there is no such device."""

    def __init__(self, device: str = "cpu"):
        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError(
                "backend 'torch:cuda' finds no CUDA device that this PyTorch can use: give backend='torch'"
            )
        self.device = device

    @hosted
    def functions(self, net: Network, params: Params, X: Points, dtype: str) -> Functions:
        return self._in_chunks(net, X, dtype, lambda x, params: apply(net, params, x), params)

    @hosted
    def tangents(self, net: Network, params: Params, directions: Directions, X: Points, dtype: str) -> Functions:
        def tangent(x: Tensor, params: Any, directions: Any) -> Tensor:
            return linearised(net, params, x)[1].push_forward(directions)

        if (each := several(params, directions)) is not None:
            return self._in_chunks(net, X, dtype, partial(_pushed, net), params, each)
        values = self._in_chunks(net, X, dtype, tangent, *paired(params, directions))
        return values.reshape(len(params[0][0]), -1, len(X))

    @hosted
    def tangent_kernels(self, net: Network, params: Params, X: Points) -> tuple[Kernels, Kernels]:
        n, heads = len(X), params[-1][0].shape[1]
        _, tangent = linearised(net, *self._tensors((params, X)))
        total = _array(tangent.kernel_matrix()).reshape(-1, n, heads, n, heads).transpose(0, 2, 4, 1, 3)
        last = np.eye(heads)[:, :, None, None] * _array(tangent.last_layer_gram())[:, None, None]
        return last, total - last

    @hosted
    def kernel_product(self, net: Network, params: Params, X: Points, v: Residuals) -> Residuals:
        start, points, vectors = self._tensors((params, X, v))
        return _array(linearised(net, start, points)[1].kernel_product(vectors[:, None])[:, 0])

    @hosted
    def pull_back(self, net: Network, params: Params, X: Points, v: Columns) -> Changes:
        start, points, columns = self._tensors((params, X, np.swapaxes(v, 1, 2)[..., None]))
        return mapped(_array, _pulled(net, start, points, columns))

    @hosted
    def push_forward(self, net: Network, params: Params, changes: Changes, X: TestPoints, dtype: str) -> Transferred:
        return self._in_chunks(net, X, dtype, partial(_pushed, net), params, changes)

    @hosted
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
        net, dtype = problem.net, "float32" if single else "float64"
        own = mapped(lambda a: a[going], (*state, problem.by_points[0]))
        params, offsets, y, X = self._tensors((*own, problem.X), dtype)
        r, vectors, values, rows, noise_std = self._tensors(
            (residual[going], spectrum.vectors, spectrum.values, times, problem.noise_std)
        )

        def follow(start: Any, y: Tensor, r: Tensor) -> Any:
            evaluate = flow_evaluation(
                lambda params: linearised(net, params, X),
                *(start, y, noise_std, r, Spectrum(values, vectors), rows, LIBRARY),
            )
            none = mapped(torch.zeros_like, start)
            carry = none, none[0]
            for index in range(len(rows)):
                carry = evaluate(index, carry)
            return carry[0]

        def spread(part: np.ndarray) -> np.ndarray:
            whole = np.zeros((len(going), *part.shape[1:]), part.dtype)
            whole[going] = part
            return whole

        return mapped(spread, _in_groups(follow, len(y), self._group(net, y), (params, offsets), y, r))

    @hosted
    def descend(self, problem: Problem, learning_rate: float, steps: int) -> State:
        start, targets, X = self._tensors((problem.state, problem.by_points[0], problem.X))

        def descended(state: Any, y: Tensor) -> Any:
            for _ in range(steps):
                state = descent_step(
                    lambda params: linearised(problem.net, params, X), state, y, problem.noise_std, learning_rate
                )
            return state

        return _in_groups(descended, len(targets), self._group(problem.net, targets), start, targets)

    @hosted
    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> Minibatches:
        params, X, y = self._tensors((problem.start, problem.X, problem.by_points[0]))
        return TorchMinibatches(problem.net, params, X, y, optimizer, pull)

    def _tensors(self, arrays: Any, dtype: str = "float64") -> Any:
        """Copies of a tree of NumPy arrays, with strides of any sign."""
        options: Any = {"dtype": getattr(torch, dtype), "device": self.device}
        return mapped(lambda a: torch.tensor(np.ascontiguousarray(a).reshape(np.shape(a)), **options), arrays)

    def _group(self, net: Network, targets: Float[Tensor, "bodies n heads"]) -> int:
        """Number of bodies that train fastest together; on devices other than the CPU, all."""
        if not isinstance(net, MLP):
            return 1
        bodies, n, heads = targets.shape
        each = targets.itemsize * max(n * max(net.width, heads), net.parameters(heads))
        return bodies if self.device != "cpu" else max(1, CACHE_BYTES // each)

    def _in_chunks(self, net: Network, X: np.ndarray, dtype: str, function: Any, *trees: Any) -> np.ndarray:
        """`function` of points and bodies, (bodies, n, heads), for a few points and a few bodies at a time."""
        points, trees = self._tensors((X, trees), dtype)
        each = np.dtype(dtype).itemsize * (net.width if isinstance(net, MLP) else net.activations(X[:1]))
        size = max(1, min(len(X), CACHE_BYTES // each))

        def values(*trees: Any) -> Tensor:
            return torch.cat([function(x, *trees) for x in points.split(size)], 1).double()

        group = max(1, CACHE_BYTES // (each * size))
        return np.swapaxes(_in_groups(values, len(trees[0][0][0]), group, *trees), 1, 2)


def _pulled(net: Network, params: Any, X: Tensor, v: Float[Tensor, "bodies vectors n 1"]) -> Any:
    """J' v of several vectors v, (bodies, vectors, ...), by a few points at a time."""
    size = len(X)  # The derivatives of a network of the user's own are taken at a few points at a time in any case.
    if isinstance(net, MLP):
        size = max(1, COLUMNS_BYTES // (v.itemsize * v.shape[0] * v.shape[1] * net.width))
    blocks = zip(X.split(size), v.split(size, 2), strict=True)
    parts = (linearised(net, params, x)[1].pull_back_each(some) for x, some in blocks)
    return reduce(lambda total, part: mapped(torch.add, total, part), parts)


def _pushed(net: Network, x: Tensor, params: Any, changes: Any) -> Tensor:
    return linearised(net, params, x)[1].push_forward_each(changes)[..., 0].mT


def _in_groups(function: Callable[..., Any], bodies: int, size: int, *trees: Any) -> Any:
    """`function` of trees of `size` bodies at a time, as a tree of NumPy arrays of all of them."""
    parts = [function(*mapped(lambda a, some=some: a[some], trees)) for some in slices(bodies, size)]
    return mapped(lambda *parts: _array(torch.cat(parts)), *parts)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
