"""What training needs of a network and of an array library: the seam for other networks and other libraries."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from rndlib.any_network import Network
from rndlib.training.problem import Problem, Spectrum, State
from rndlib.training.weights import Directions, Params

Points = Float[np.ndarray, "n *shape"]
Functions = Float[np.ndarray, "bodies heads n"]
Residuals = Float[np.ndarray, "bodies n heads"]
Kernels = Float[np.ndarray, "bodies heads heads n n"]

TestPoints = Float[np.ndarray, "t *shape"]
Columns = Float[np.ndarray, "bodies n columns"]
Changes = list[tuple[Float[np.ndarray, "bodies columns ..."], ...]]
Transferred = Float[np.ndarray, "bodies columns t"]

Times = Float[np.ndarray, "evaluations 2"]
Marks = Bool[np.ndarray, " bodies"]


@runtime_checkable
class Linearised(Protocol):
    """A network linearised at its parameters: besides its values on N points, all that training needs of a network.

    J is the Jacobian of the N K outputs with respect to the parameters, and Theta = J J' the empirical tangent kernel
    over N points and K heads. If a backend works on several bodies at once, arrays have a leading axis of bodies, and a
    method `bodies` lists the kernels of single ones. `MLP` has these products written out layer by layer, which is
    fast; `jax.linearize` gives them for any function.
    """

    def push_forward(self, change: Any) -> Any:
        """J times a change of the parameters: (N, K). Last layers that it leaves out do not change."""
        ...

    def pull_back(self, v: Any) -> Any:
        """J' v, in the shape of the parameters, for v (N, K)."""
        ...

    def kernel_product(self, v: Any) -> Any:
        """Theta v, for v (N, K)."""
        ...

    def kernel_matrix(self) -> Any:
        """Theta over (point, head) pairs, all heads of a point together: (N K, N K)."""
        ...

    def in_float32(self) -> "Linearised":
        """The same for products in float32, which is enough for solves of many heads."""
        ...


@runtime_checkable
class Minibatches(Protocol):
    """A block of bodies in minibatch training, as an array library holds it."""

    def epoch(self, batches: np.ndarray, rates: Float[np.ndarray, " batches"]) -> None:
        """Take one step per batch, rows of X (bodies, batches, batch), at these learning rates."""
        ...

    def params(self) -> Params:
        """The current parameters, as copies in NumPy."""
        ...


@runtime_checkable
class Backend(Protocol):
    """The same functions on one array library. Arrays go in and come out as NumPy arrays, bodies first."""

    def functions(self, net: Network, params: Params, X: Points, dtype: str) -> Functions:
        """f(X; theta) of every body and head (Eq. 1), computed in `dtype`, returned in float64."""
        ...

    def tangents(self, net: Network, params: Params, directions: Directions, X: Points, dtype: str) -> Functions:
        """J_theta f(X) psi with zeros for the last layer's part of psi (Proposition 4.1), in `dtype`.

        Directions have one leading entry per body, shared by its heads, or one per body and head, one body after the
        other. Bodies of one output may have several, which count as heads.
        """
        ...

    def tangent_kernels(self, net: Network, params: Params, X: Points) -> tuple[Kernels, Kernels]:
        """Empirical tangent kernels of every body, in two parts: the last layer, and the layers below.

        Entry [b, i, j, p, q] is `nabla f_i(x_p)' nabla f_j(x_q)` of body b.
        """
        ...

    def kernel_product(self, net: Network, params: Params, X: Points, v: Residuals) -> Residuals:
        """Theta v of every body, with Theta its tangent kernel over points and heads."""
        ...

    def pull_back(self, net: Network, params: Params, X: Points, v: Columns) -> Changes:
        """J' v of networks of one output, for every column of v (bodies, N, columns): (bodies, columns, *tensor)."""
        ...

    def push_forward(self, net: Network, params: Params, changes: Changes, X: TestPoints, dtype: str) -> Transferred:
        """J times changes of the parameters of networks of one output, (bodies, columns, *tensor), in `dtype`.

        Last layers that they leave out do not change.
        """
        ...

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
        """The change of a state over several evaluations of network and kernel, for the bodies that are `going`.

        Each evaluation has a row of two times: how long the state follows its linear flow, 0 for not at all, and how
        much longer the way to the next evaluation is, 0 for none. With many unknowns (not
        `rndlib.training.flow.exponential.dense`) one of the two is 0. `residual` is that of the state. With `single`,
        all but functions on the training set is in float32.
        """
        ...

    def descend(self, problem: Problem, learning_rate: float, steps: int) -> State:
        """The state after this number of steps of gradient descent."""
        ...

    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> Minibatches:
        """Minibatch training on the mean over a batch of 1/2 ||f(x) - y||^2, plus pull / 2 ||theta - theta_0||^2.

        Raises ImportError if a package that this needs is not installed.
        """
        ...
