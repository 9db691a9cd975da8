"""What an array library does for the rest: evaluate networks, and carry out the steps that solvers ask for."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training.flow.exponential import Spectrum
from rndlib.training.flow.integration import FlowSteps
from rndlib.training.minibatches import MinibatchSteps
from rndlib.training.problem import Problem
from rndlib.training.weights import Directions, Params

Functions = Float[np.ndarray, "bodies heads n"]
Norms = Float[np.ndarray, " bodies"]
Kernels = Float[np.ndarray, "bodies heads heads n n"]

Array = TypeVar("Array")
Change = TypeVar("Change")


@runtime_checkable
class TangentKernel(Protocol[Array]):
    """The empirical tangent kernel Theta = J J' of a network at its parameters, over N points and K heads.

    J is the Jacobian of the N K outputs with respect to the parameters. Where a backend works on several bodies at
    once, arrays have a leading axis of bodies.
    """

    def kernel_product(self, v: Array) -> Array:
        """Theta v, for v (N, K)."""
        ...

    def kernel_matrix(self) -> Array:
        """Theta over (point, head) pairs, point-major: (N K, N K)."""
        ...

    def in_float32(self) -> "TangentKernel[Array]":
        """The same kernel for products in float32, which solves of many heads need no more than."""
        ...


@runtime_checkable
class Linearised(TangentKernel[Array], Protocol[Array, Change]):
    """A network linearised at its parameters: what training has to know of any network, beside its values.

    A network that offers these four trains by every solver. `MLP` has them written out layer by layer, which is fast;
    `jax.linearize` gives them for any function.
    """

    def push_forward(self, change: Change) -> Array:
        """J times a change of the parameters: (N, K)."""
        ...

    def pull_back(self, v: Array) -> Change:
        """J' v, in the shape of the parameters, for v (N, K)."""
        ...


@runtime_checkable
class Backend(Protocol):
    """The same few functions on one array library. Arrays go in and come out as NumPy arrays, bodies first."""

    def functions(self, net: MLP, params: Params, X: Float[np.ndarray, "n d"], dtype: str) -> Functions:
        """f(X; theta) of every body and head (Eq. 1), computed in `dtype`, returned in float64."""
        ...

    def tangents(
        self, net: MLP, params: Params, directions: Directions, X: Float[np.ndarray, "n d"], dtype: str
    ) -> Functions:
        """J_theta f(X) psi with the last layer's part of psi zero (Proposition 4.1), in `dtype`.

        Directions have one leading entry per body, shared by its heads, or one per body and head, body-major.
        """
        ...

    def tangent_kernels(self, net: MLP, params: Params, X: Float[np.ndarray, "n d"]) -> tuple[Kernels, Kernels]:
        """Empirical tangent kernels `nabla f_i(x)' nabla f_j(x')` of every body: the last layer's part, and the rest.

        Entry [b, i, j, p, q] is that of body b, heads i and j, points p and q; the two parts add up to the kernel of
        all parameters. In the limit of width they are kappa and Theta - kappa for i = j, and 0 otherwise (Proposition
        B.3).
        """
        ...

    def largest_eigenvalue(self, problem: Problem) -> float:
        """lambda_max of the tangent kernels at the start, noise included: the largest over the bodies.

        Where the matrix is too large to form it comes out a little too small (`rndlib.training.lanczos`).
        """
        ...

    def flow(self, problem: Problem, spectrum: Spectrum) -> FlowSteps[Any]:
        """The steps of gradient flow for a block of bodies."""
        ...

    def descend(self, problem: Problem, learning_rate: float, steps: int) -> tuple[Params, Norms, Norms]:
        """The parameters after so many steps of gradient descent, and the norms of the first and last residuals."""
        ...

    def minibatches(self, problem: Problem, optimizer: str, pull: float) -> MinibatchSteps[Any]:
        """The steps of minibatch training for a block of bodies.

        The loss is the mean over a batch of 1/2 ||f(x) - y||^2, plus pull / 2 ||theta - theta_0||^2.

        Raises
        ------
        ImportError: a package that this needs is not installed.
        """
        ...

    def block_size(self, net: MLP, heads: int, n_samples: int) -> int:
        """Bodies to train in one call. It is the same for every backend (`rndlib.training.backends.sizes`)."""
        ...
