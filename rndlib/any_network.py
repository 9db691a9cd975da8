"""A network that the user wrote, in the parametrisation that the theorems are about.

The paper's parameters start at N(0, 1), and all factors are part of the network (Eq. 1). Any network can be written
that way: where a tensor of weights starts with standard deviation s, write w = s omega and train omega. Gradient flow
on omega has the tangent kernel

    Theta = J S^2 J',        J the Jacobian with respect to the weights w,  S = diag(s).

This scale is the one that Bayesian RND needs. Its target is g~ = J psi, where psi has the variances of the initial
weights below the head and is 0 in the head. The covariance of the error u - g~ before training is then

    Cov(u) + Cov(J psi) = E[J_head S^2 J_head'] + E[J_body S^2 J_body'] = E[Theta],

at any width, if the head is affine in weights of mean zero that nothing else shares: u = J_head w_head. Only the mean
and covariance of psi matter.

Gradient flow on w itself has the tangent kernel J J'. With it, psi would have to have variance 1 in every weight,
whatever distribution the weights start from, and the head's part of psi would be w_head - zeta, zeta ~ N(0, 1), not 0.
In the standard parametrisation that prior grows with the width and has no limit; the kernels here are those of omega.

A tensor that starts the same in every draw, such as a bias of zero or a gain of one, has s = 0: it has no prior
uncertainty and is not trained (`AnyNetwork.untrained` names them).

Scales are those of a network with one output, whatever number of heads it has, so that the function of one head does
not depend on the number of heads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from rndlib import checks, initial_scales
from rndlib.examination import PROBES, examine
from rndlib.initial_scales import Tensor, Weights
from rndlib.network import MLP

Points = Float[np.ndarray, "n *shape"]
Omega = list[tuple[np.ndarray, ...]]
"""Parameters of one network: each tensor below the head is a layer of its own, and the head, with the outputs on the
first axis, is the last one."""


class AnyNetwork(ABC):
    """The interface of a network of your own. Points are (N, *shape), outputs (N, outputs).

    It is trained in omega = w / s, without the tensors of s = 0, laid out as `Omega` says.

    Parameters
    ----------
    scales : the standard deviation of each tensor's initial entries, by its name, or one number for all;
        None measures them from draws.
    output_scale : the outputs are multiplied by it, > 0, and kernels by its square. None lets a fit choose it by the
        evidence; until then it counts as 1.
    """

    library: str
    """The backend that trains it: "jax" or "torch"."""
    differentiable: ClassVar[str]
    """What to do where its library cannot differentiate it."""

    def __init__(self, scales: float | Mapping[str, float] | None = None, output_scale: float | None = 1.0):
        self.scales = scales
        self.output_scale = None if output_scale is None else checks.positive("output_scale", output_scale)
        self._activations: dict[tuple[int, ...], int] = {}
        self._compared = 1  # outputs up to which scales are known not to depend on their number

    def __deepcopy__(self, memo: Any) -> "AnyNetwork":
        return self  # a description without weights, which scikit-learn copies with an estimator

    def __getstate__(self) -> dict[str, Any]:
        """With the scales that were measured here, wherever it is unpickled, and without weights."""
        return {name: value for name, value in vars(self).items() if name not in ("_heads", "_templates", "_examined")}

    def with_output_scale(self, output_scale: float | None) -> "AnyNetwork":
        """The same network with its outputs multiplied by another number. It is not measured again."""
        other = copy(self)
        other.output_scale = None if output_scale is None else checks.positive("output_scale", output_scale)
        return other

    # --------------------------------------------------------------------------------------- what each library defines

    @property
    @abstractmethod
    def backend(self) -> Any:
        """The `rndlib.training.backends.Backend` of its library."""

    @abstractmethod
    def arrays(self, outputs: int, seed: int) -> tuple[Weights, Weights]:
        """The weights of a new network with this many outputs, drawn by its own library; and all other arrays."""

    @abstractmethod
    def of_omega(self, omega: Any, X: Any) -> Any:
        """The outputs at X, a function of the parameters that are trained, in arrays and precision of the library."""

    @abstractmethod
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """`activations`, by a trace of the network."""

    # ----------------------------------------------------------------------------------------------------- its values

    def values(self, omega: Omega, X: Points) -> Float[np.ndarray, "n ..."]:
        """The outputs at X, (N, outputs)."""
        return self._computed(_values, omega, X)[0]

    def jacobian(self, omega: Omega, X: Points) -> Float[np.ndarray, "n outputs parameters"]:
        """The derivatives of all outputs at X, with those by the head last."""
        rows = self._computed(_jacobian, omega, X)
        return np.concatenate([a[0].reshape(*a.shape[1:3], -1) for layer in rows for a in layer], axis=2)

    def differentiate(self, omega: Omega, X: Points) -> None:
        """Take the derivative of 1/2 ||f(X)||^2 once, for the errors that this may raise."""
        self._computed(_head_gradient, omega, X)

    def _computed(self, program: Callable[..., Any], omega: Omega, X: Points) -> Any:
        """The result of a program for this one network, whose arrays have an axis of length 1 before the others."""
        lib, stacked = self.backend, [tuple(a[None] for a in layer) for layer in omega]
        with lib.settings():
            return lib.arrays(lib.each(program, self, (X,), stacked))

    def activations(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """Size of the largest array between the input x, one point, and the outputs."""
        if x.shape not in self._activations:
            self._activations[x.shape] = self._largest(x)
        return self._activations[x.shape]

    def examine(self, X: Points) -> None:
        """Try the network on some rows of X, and refuse what the theorems do not hold for, or what rndlib cannot train.

        Raises
        ------
        ValueError: The network fails at these points, or cannot be differentiated; its weights are not a function of
            the seed; the outputs have the wrong shape, change from call to call, depend on the other rows of a batch,
            are not finite, or are not affine in the head, or start with a mean that is not 0; or two outputs share
            weights of the head.
        """
        tried = hash((X.shape[1:], X[:PROBES].tobytes()))
        if tried not in self._examined:
            examine(self, X)
            self._examined.add(tried)

    @cached_property
    def _examined(self) -> set[int]:
        """Hashes of the points that it has been tried on, in this process."""
        return set()

    # ------------------------------------------------------------------------------------------------------ parameters

    def draw(self, outputs: int, seed: int) -> Omega:
        """The parameters omega of a new network.

        Raises as `tensors`, and if the head starts the same in every draw, or from a distribution that depends on
        `outputs`.
        """
        if self.scales is None and outputs > self._compared:
            self._compared = initial_scales.compare(self.initial, self._heads[0], self.tensors, self.width, outputs)
        return self._relative(self.initial(outputs, seed))

    def initial(self, outputs: int, seed: int) -> Weights:
        """The weights of a new network with this many outputs."""
        return self.arrays(outputs, seed)[0]

    @property
    def of_two(self) -> Omega:
        """The parameters of a network with two outputs."""
        return self._relative(self._heads[1])

    def _relative(self, weights: Weights) -> Omega:
        """The parameters omega = w / s, layer by layer."""
        return [tuple(self.tensors[name].relative(weights[name]) for name in layer) for layer in self._layers]

    def weights(self, omega: Any, moveaxis: Callable[[Any, Any, int], Any]) -> dict[str, Any]:
        """The weights w = s omega by name, in arrays of any library, with those that are not trained in NumPy's.

        All have the precision of omega.
        """
        outputs, dtype = len(omega[-1][0]), str(omega[-1][0].dtype).removeprefix("torch.")
        weights: dict[str, Any] = {}
        for name, a in self._fixed.items():
            axis = self.tensors[name].outputs_axis
            weights[name] = (a if axis is None else np.repeat(a, outputs, axis)).astype(dtype)
        for names, layer in zip(self._layers, omega, strict=True):
            for name, a in zip(names, layer, strict=True):
                weights[name] = self.tensors[name].absolute(a, moveaxis)
        return weights

    @property
    def _layers(self) -> list[list[str]]:
        """Names of the trained tensors, layer by layer: one to a layer below the head, which comes last."""
        trained = [name for name, tensor in self.tensors.items() if tensor.scale]
        head = [name for name in trained if self.tensors[name].outputs_axis is not None]
        checks.require(
            bool(head),
            "the network's last layer starts the same in every draw, so its outputs have no variance: draw its weights "
            "at random",
        )
        return [*([name] for name in trained if name not in head), head]

    @property
    def head(self) -> list[str]:
        """Names of the trained tensors of the last layer."""
        return self._layers[-1]

    @cached_property
    def _fixed(self) -> Weights:
        """The tensors that are not trained, by name, of a network with one output."""
        one, two = self._heads
        for name in self.untrained:
            checks.require(
                (two[name] == one[name]).all(),
                f"tensor {name} of the last layer has the scale 0 and differs between outputs: let all outputs start "
                "it at the same value, or draw it at random",
            )
        return {name: one[name] for name in self.untrained}

    @property
    def untrained(self) -> tuple[str, ...]:
        """Names of the tensors that start the same in every draw, such as biases of zero and gains of one.

        They have no prior and are not trained. Draw them at random, or give `scales`, if they should be.
        """
        return tuple(name for name, tensor in self.tensors.items() if not tensor.scale)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of weights by name, with its scale in a network of one output.

        Raises as `initial_scales.outputs_axes`, and if `scales` names other tensors.
        """
        axes = initial_scales.outputs_axes(*self._heads)
        if self.scales is None:
            scales = initial_scales.measured(self.initial, self._heads[0])
        elif isinstance(self.scales, Mapping):
            scales = dict(self.scales)
            checks.require(
                set(scales) == set(axes), f"scales names {', '.join(scales)}: give one for each of {', '.join(axes)}"
            )
        else:
            scales = dict.fromkeys(axes, float(self.scales))
        return {name: Tensor(scales[name], axis) for name, axis in axes.items()}

    @cached_property
    def _heads(self) -> tuple[Weights, Weights]:
        """Weights of networks with one output and with two. Kept, as drawing them can take long."""
        return self.initial(1, 0), self.initial(2, 0)

    # ----------------------------------------------------------------------------------------------------------- sizes

    @cached_property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        """The shapes of the tensors of every layer, for one output."""
        return [[a.shape for a in layer] for layer in self._relative(self._heads[0])]

    @property
    def hidden_parameters(self) -> int:
        """Number of trained weights below the head."""
        return sum(prod(shape) for layer in self.shapes[:-1] for shape in layer)

    @property
    def width(self) -> int:
        """Number of features that the head reads: the size of its largest tensor, for one output."""
        return max(prod(shape) for shape in self.shapes[-1])

    def parameters(self, heads: int) -> int:
        """Number of trained weights, for an output of `heads`."""
        return self.hidden_parameters + heads * sum(prod(shape) for shape in self.shapes[-1])


def _values(lib: Any, net: AnyNetwork, shared: Any, own: Any) -> Any:
    return lib.values(net, own, shared[0])


def _jacobian(lib: Any, net: AnyNetwork, shared: Any, own: Any) -> Any:
    return lib.linearise(net, own, shared[0]).rows(shared[0])


def _head_gradient(lib: Any, net: AnyNetwork, shared: Any, own: Any) -> Any:
    tangent = lib.linearise(net, own, shared[0])
    return tangent.vjp(tangent.value)[-1][0]


Network = MLP | AnyNetwork
"""What can be trained."""


def spawned(seed: int, *key: int) -> int:
    """The seed of one draw among many, independent of the others, in the form that JAX and PyTorch take."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])
