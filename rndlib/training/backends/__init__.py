"""Backends: networks, their tangents and training programs on one array library each.

A `Backend` is the few operations in which array libraries differ. What is computed with them is written once: the
functions of networks here, the products of a linearised network in `rndlib.training.backends.linearised`, and training
in the solvers. Arrays go in and come out as NumPy's, bodies first; between the steps of a solver they stay with the
library.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import AnyNetwork, Network
from rndlib.network import MLP
from rndlib.training.backends.linearised import FORMED, Linearised, LinearMLP, apply, chunked
from rndlib.training.trees import mapped
from rndlib.training.weights import Directions, Params

BACKENDS = ("jax", "torch", "torch:cuda")

CHUNK_BYTES = 2**20
"""Size of one layer's activations on the points, or bodies, of one operation: they should stay in a core's cache."""

COLUMNS_BYTES = 2**24
"""The same for what is computed of a network that is linearised once for several columns."""

Points = Float[np.ndarray, "n *shape"]
Functions = Float[np.ndarray, "bodies heads n"]
Kernels = Float[np.ndarray, "bodies heads heads n n"]
Columns = Float[np.ndarray, "bodies n columns"]
Changes = list[tuple[Float[np.ndarray, "bodies columns ..."], ...]]
Transferred = Float[np.ndarray, "bodies columns t"]

Program = Callable[["Backend", Network, Any, Any], Any]
"""`program(lib, net, shared, own)`: what training computes of one body, from arrays that bodies share and from its own.
With a leading axis of bodies in `own` it computes that of several at once, where the library asks for it. Of an `MLP`,
weights come in and go out as `rndlib.training.backends.linearised.turned` has them."""


class Backend(ABC):
    """An array library and a device.

    Attributes
    ----------
    xp: The library's namespace, of which names are used that all libraries have.
    cast: `cast(array, dtype)`, in another precision by its NumPy name.
    constant: `constant(value, like)`, numbers as an array on the device of another one.
    map: `map(function, tree)`, the function of each entry of the leading axes, one after the other, stacked.
    while_loop: `while_loop(condition, step, state)`, that is `state = step(state)` while the condition holds.
    cond: `cond(predicate, yes, no, given)`, that is `yes(given)` or `no(given)`.
    dense_many: Largest number of points times heads, of three heads or more, for which a step of gradient flow forms
        the kernel matrix, in place of products with it.
    """

    xp: Any
    cast: Callable[..., Any]
    constant: Callable[..., Any]
    map: Callable[..., Any]
    while_loop: Callable[..., Any]
    cond: Callable[..., Any]
    dense_many: int

    @abstractmethod
    def settings(self) -> AbstractContextManager[Any]:
        """The library's settings in the backend's own calls, whatever those of the user's thread are."""

    @abstractmethod
    def each(self, program: Program, net: Network, shared: Any, own: Any, together: int = 0) -> Any:
        """`program` of every body, from trees of arrays of NumPy or the library.

        `together` is the size in bytes of what one body computes at a time, by which a library that starts each
        operation from Python takes bodies together; 0 for one body at a time, without a leading axis.
        """

    @abstractmethod
    def tensors(self, tree: Any, dtype: str = "float64") -> Any:
        """A tree of arrays as `each` takes them, numbers with a point in this precision."""

    @abstractmethod
    def arrays(self, tree: Any) -> Any:
        """A tree of the library's arrays as NumPy's."""

    @abstractmethod
    def differentiated(self, net: Any, params: Any, X: Any) -> Linearised:
        """A network of the user's own, linearised at `params`."""

    @abstractmethod
    def phi(self, activation: Any, z: Any) -> Any:
        """phi(z)."""

    @abstractmethod
    def value_and_slope(self, activation: Any, z: Any) -> tuple[Any, Any]:
        """phi(z) and phi'(z)."""

    def linearise(self, net: Network, params: Any, X: Any) -> Linearised:
        """The network linearised at `params`."""
        return LinearMLP(self, net, params, X) if isinstance(net, MLP) else self.differentiated(net, params, X)

    def values(self, net: Network, params: Any, X: Any) -> Any:
        """f(X), (..., N, K)."""
        return apply(self, net, params, X) if isinstance(net, MLP) else net.of_omega(params, X)

    def loop(self, count: Any, step: Callable[[Any, Any], Any], state: Any) -> Any:
        """`state = step(i, state)` for i = 0..count - 1."""
        return self.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, step(*s)), (0, state))[1]

    def norm(self, a: Any) -> Any:
        """The norm over points and heads, (...)."""
        return self.xp.sqrt((a**2).sum(-1).sum(-1))

    def product(self, x: Any, w: Any) -> Any:
        """x w."""
        return x @ w

    def gram(self, a: Any) -> Any:
        """a a'."""
        return a @ a.mT

    def over_points(self, function: Callable[[Any], Any], chunks: Any) -> Any:
        """`function` of each chunk, (..., size, columns), one after the other, joined on the axis of points."""
        values = self.xp.moveaxis(self.map(function, chunks), 0, -3)
        return values.reshape(*values.shape[:-3], -1, values.shape[-1])

    def functions(self, net: Network, params: Params, X: Points) -> Functions:
        """f(X; theta) of every body and head (Eq. 1)."""
        return self._at_points(_functions, net, X, params)

    def tangents(self, net: Network, params: Params, directions: Directions, X: Points) -> Functions:
        """J_theta f(X) psi with zeros for the last layer's part of psi (Proposition 4.1).

        Directions have one leading entry per body, shared by its heads, or one per body and head, one body after the
        other. Bodies of one output may have several, which count as heads.
        """
        bodies, heads = params[-1][0].shape[:2]
        if directions and len(directions[0][0]) > bodies:
            if heads == 1:
                changes = mapped(lambda a: a.reshape(bodies, -1, *a.shape[1:]), directions)
                return self.push_forward(net, params, changes, X)
            # Every head becomes a network of its own.
            *hidden, head = params
            repeated = mapped(lambda a: np.repeat(a, heads, axis=0), hidden)
            params = [*repeated, tuple(a.reshape(bodies * heads, 1, *a.shape[2:]) for a in head)]
        return self._at_points(_tangents, net, X, params, directions).reshape(bodies, -1, len(X))

    def tangent_kernels(self, net: Network, params: Params, X: Points) -> tuple[Kernels, Kernels]:
        """Empirical tangent kernels of every body, in two parts: the last layer, and the layers below.

        Entry [b, i, j, p, q] is `nabla f_i(x_p)' nabla f_j(x_q)` of body b.
        """
        with self.settings():
            together = 8 * (len(X) * params[-1][0].shape[1]) ** 2
            below, last = self.arrays(self.each(_kernels, net, (X,), (params,), together))
        return last.transpose(0, 2, 4, 1, 3), below.transpose(0, 2, 4, 1, 3)

    def kernel_between(
        self, net: Network, params: Params, X: Points, Z: Float[np.ndarray, "m *shape"]
    ) -> Float[np.ndarray, "bodies n m"]:
        """Theta between points X and Z of networks of one output."""
        if isinstance(net, MLP):
            size = self.chunk(net, X, COLUMNS_BYTES)
        else:
            size = max(1, min(self.chunk(net, X), FORMED // net.parameters(1)))
        with self.settings():
            return self.arrays(self.each(_between, net, (chunked(np, X, size), Z), (params,)))[:, : len(X)]

    def pull_back(self, net: Network, params: Params, X: Points, v: Columns) -> Changes:
        """J' v of networks of one output, for every column of v (bodies, N, columns): (bodies, columns, *tensor)."""
        # The derivatives of a network of the user's own are taken one column after the other.
        size = self.chunk(net, X, COLUMNS_BYTES // (v.shape[2] if isinstance(net, MLP) else 1))
        with self.settings():
            own = params, np.stack([chunked(np, columns, size, last=0.0) for columns in v])
            return self.arrays(self.each(_pulled, net, (chunked(np, X, size),), own))

    def push_forward(self, net: Network, params: Params, changes: Changes, X: Points) -> Transferred:
        """J times changes of the parameters of networks of one output, (bodies, columns, *tensor).

        Last layers that they leave out do not change.
        """
        return self._at_points(_pushed, net, X, params, changes)

    def chunk(self, net: Network, X: Points, size: int | None = None) -> int:
        """Number of points whose activations in one layer have at most this size."""
        return max(1, (size or CHUNK_BYTES) // (8 * (net.width if isinstance(net, MLP) else net.activations(X[:1]))))

    def _at_points(self, program: Program, net: Network, X: Points, *own: Any) -> Functions:
        chunks = chunked(np, X, self.chunk(net, X))
        with self.settings():
            shared, own = self.tensors(((chunks,), own))
            together = 0 if program is _pushed else 8 * chunks.shape[1] * net.width
            values = self.arrays(self.each(program, net, shared, own, together))
        return np.swapaxes(values[:, : len(X)], 1, 2).copy()  # JAX's arrays are read-only


@cache
def load(name: str) -> Backend:
    """The backend of that name, one of BACKENDS; its array library is imported here and not before.

    Raises ImportError if its array library is not installed, or finds no GPU for "torch:cuda".

    >>> from rndlib.training import backends
    >>> type(backends.load("jax")).__name__
    'JaxBackend'
    """
    library, _, device = name.partition(":")
    try:
        module = import_module(f"rndlib.training.backends.{library}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rndlib":
            raise
        raise ImportError(f"backend {name!r} needs {error.name}: pip install 'rndlib[{library}]'") from error
    return module.JaxBackend() if library == "jax" else module.TorchBackend(device or "cpu")


def of(net: Network, name: str | None) -> Backend:
    """The backend of that name for a network; None is the library of a network of the user's own, and JAX for an `MLP`.

    Raises as `load`, and ValueError if the network is written for another library.

    >>> from rndlib import MLP
    >>> from rndlib.training import backends
    >>> type(backends.of(MLP(3), None)).__name__
    'JaxBackend'
    """
    library = net.library if isinstance(net, AnyNetwork) else None
    if name is not None:
        checks.choice("backend", name, BACKENDS)
    if library and name and name.partition(":")[0] != library:
        raise ValueError(f"backend = {name!r}: a {type(net).__name__} is trained on {library!r}: leave backend out")
    return load(name or library or "jax")


def _functions(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    return lib.over_points(lambda x: lib.values(net, own[0], x), shared[0])


def _tangents(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    params, directions = own
    return lib.over_points(lambda x: lib.linearise(net, params, x).jvp(directions), shared[0])


def _kernels(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    return lib.linearise(net, own[0], shared[0]).kernels()


def _between(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    chunks, Z = shared
    at = lib.linearise(net, own[0], Z)
    return lib.over_points(lambda x: lib.linearise(net, own[0], x).between(at), chunks)


def _pushed(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    params, changes = own
    return lib.over_points(lambda x: lib.linearise(net, params, x).jvp_each(changes), shared[0])


def _pulled(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    chunks, (params, v) = shared[0], own  # (chunks, size, *shape) and (chunks, size, columns)
    none = mapped(lambda a: lib.xp.zeros_like(lib.xp.broadcast_to(a, (v.shape[2], *a.shape))), params)

    def add(i: Any, total: Any) -> Any:
        return mapped(lambda a, b: a + b, total, lib.linearise(net, params, chunks[i]).vjp_each(v[i]))

    return lib.loop(len(chunks), add, none)
