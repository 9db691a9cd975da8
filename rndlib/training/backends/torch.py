"""The PyTorch backend: several bodies of an `MLP` in one operation, as PyTorch starts each operation from Python.

Nothing here changes, or depends on, PyTorch's own settings: its default device is one per thread, and a fit has several
threads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import jacrev, vmap
from torch.nn.functional import gelu, silu

from rndlib.activations import NUMPY, Functions
from rndlib.any_network import Network
from rndlib.cores import slices
from rndlib.examination import faults
from rndlib.network import MLP
from rndlib.training import backends
from rndlib.training.backends import Backend, Program
from rndlib.training.backends.linearised import Linearised, turned
from rndlib.training.trees import mapped

_PLAIN = "keep to PyTorch's differentiable operations, on tensors and not in place"
_ONE_BY_ONE = (
    "train with StochasticGradient, which needs no such derivatives, or write it in what torch.func.vmap allows: "
    "torch.where for a condition or a mask; for an nn.GRU or nn.LSTM a loop over time, or lax.scan in a "
    "rndlib.jax.Function"
)


@contextmanager
def settings() -> Iterator[None]:
    """PyTorch without gradients, but able to enable them, and in the precision of what it is given."""
    with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
        yield


hosted = settings()
"""A decorator of functions that run within `settings`."""


def _of_tensors(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """A function of two tensors, for a tensor and a number as well."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        return function(*(torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in (a, b)))

    return call


_OWN: dict[str, Callable[..., Tensor]] = {
    "logaddexp": _of_tensors(torch.logaddexp),
    "minimum": _of_tensors(torch.minimum),
    # With the slope of the second where they are equal, where PyTorch has the mean of both.
    "maximum": _of_tensors(lambda a, b: torch.where(a > b, a, b)),
}
FUNCTIONS = Functions(
    library="PyTorch", **{name: _OWN.get(name) or getattr(torch, name) for name in vars(NUMPY) if name != "library"}
)
VALUE: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "relu": torch.relu, "gelu": gelu}
"""PyTorch's own nonlinearities, by registered name, whose backward pass is one operation."""


def value(activation: Any) -> Callable[[Tensor], Tensor]:
    """phi, differentiable by autograd."""
    if activation in VALUE:
        return VALUE[activation]
    phi = MLP(1, activation=activation).phi
    return lambda z: phi(z, FUNCTIONS)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _map(function: Callable[[Any], Any], own: Any) -> Any:
    parts = [function(mapped(lambda a, i=i: a[i], own)) for i in range(len(next(_leaves(own))))]
    return mapped(lambda *each: torch.stack(each), *parts)


def _while_loop(condition: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    while condition(state):
        state = step(state)
    return state


class TorchBackend(Backend):
    """`rndlib.training.backends.Backend` on PyTorch, on one device."""

    xp = torch
    cast = staticmethod(lambda a, dtype: a.to(getattr(torch, dtype)))
    constant = staticmethod(lambda value, like: torch.as_tensor(np.asarray(value), device=like.device))
    cond = staticmethod(lambda predicate, yes, no, given: yes(given) if predicate else no(given))
    map, while_loop = staticmethod(_map), staticmethod(_while_loop)
    dense_many = 400  # each product with the kernel starts dozens of operations from Python

    def __init__(self, device: str = "cpu"):
        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError(
                "backend 'torch:cuda' finds no CUDA device that this PyTorch can use: give backend='torch'"
            )
        if device == "cuda":  # PyTorch loads its solvers for GPUs at their first call, and fails if two threads make it
            torch.linalg.inv(torch.eye(1, device=device))
        self.device = device

    def settings(self) -> Any:
        return settings()

    def each(self, program: Program, net: Network, shared: Any, own: Any, together: int = 0) -> Any:
        shared, own = self.tensors((shared, own))
        if not isinstance(net, MLP):
            return self.map(lambda one: program(self, net, shared, one), own)
        own = turned(own)
        if not together:
            return turned(self.map(lambda one: program(self, net, shared, one), own))
        bodies = len(next(_leaves(own)))
        size = bodies if self.device != "cpu" else max(1, backends.CHUNK_BYTES // together)
        parts = [program(self, net, shared, mapped(lambda a, some=some: a[some], own)) for some in slices(bodies, size)]
        return turned(mapped(lambda *each: torch.cat(each), *parts))

    def tensors(self, tree: Any, dtype: str = "float64") -> Any:
        def tensor(a: Any) -> Tensor:
            if isinstance(a, Tensor):
                return a
            a = np.asarray(a)
            kind = dtype if np.issubdtype(a.dtype, np.floating) else a.dtype
            # A copy, with strides of any sign, because a module may write into what it is given.
            return torch.tensor(np.array(a, kind, order="C"), device=self.device)

        return mapped(tensor, tree)

    def arrays(self, tree: Any) -> Any:
        return mapped(lambda a: a.cpu().numpy(), tree)

    def differentiated(self, net: Any, params: Any, X: Tensor) -> Linearised:
        return LinearModule(self, net.of_omega, params, X)

    def phi(self, activation: Any, z: Tensor) -> Tensor:
        return value(activation)(z)

    def value_and_slope(self, activation: Any, z: Tensor) -> tuple[Tensor, Tensor]:
        # Backward differentiation is correct because phi is elementwise.
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            out = value(activation)(z)
            return out.detach(), torch.autograd.grad(out, z, torch.ones_like(z))[0]


class LinearModule(Linearised):
    """One network, linearised on N points by PyTorch's differentiation.

    J v comes from differentiating the product J' v, a linear function of v, once more: that takes one pass through a
    graph that is there already, where forward differentiation would evaluate the network anew.

    function : `function(params, X)` returns (N, heads); the outputs at a point depend on that point alone.
    """

    def __init__(self, lib: TorchBackend, function: Callable[[Any, Tensor], Tensor], params: Any, X: Tensor):
        self.lib, self.function, self.X = lib, function, X
        self.params = mapped(lambda a: a.detach().requires_grad_(), params)
        with torch.enable_grad(), faults("the network cannot be differentiated", _PLAIN):
            self.graph = function(self.params, X)
        self.value = self.graph.detach()

    @cached_property
    def pulled(self) -> tuple[Tensor, list[Tensor]]:
        """v = 0, and J' v as a function of it."""
        v = torch.zeros_like(self.graph, requires_grad=True)
        leaves = list(_leaves(self.params))
        with torch.enable_grad(), faults("the network cannot be differentiated twice", _PLAIN):
            return v, list(torch.autograd.grad(self.graph, leaves, v, create_graph=True, materialize_grads=True))

    def jvp(self, change: Any) -> Tensor:
        v, pulled = self.pulled
        used = [(p, a) for p, a in zip(pulled, _leaves(change), strict=False) if p.requires_grad]
        if not used:
            return torch.zeros_like(v)
        with faults("the network cannot be differentiated twice", _PLAIN):
            return torch.autograd.grad([p for p, _ in used], v, [a for _, a in used], retain_graph=True)[0]

    def vjp(self, v: Tensor) -> Any:
        leaves = list(_leaves(self.params))
        with faults("the network cannot be differentiated", _PLAIN):
            flat = iter(torch.autograd.grad(self.graph, leaves, v, retain_graph=True, materialize_grads=True))
        return mapped(lambda _: next(flat), self.params)

    def rows(self, X: Tensor) -> Any:
        at = vmap(jacrev(lambda params, x: self.function(params, x[None])[0]), (None, 0))
        with faults("the network cannot be differentiated point by point", _ONE_BY_ONE):
            return at(mapped(Tensor.detach, self.params), X)
