"""A network that the user wrote, in the parametrisation that the theorems are about.

The paper's parameters start at N(0, 1), and every factor stands outside of them (Eq. 1). Any network can be written
that way: where a tensor of weights starts with standard deviation s, write w = s omega and train omega. Gradient flow
on omega has the tangent kernel

    Theta = J S^2 J',        J the Jacobian with respect to the weights w,  S = diag(s).

This scale is the one that Bayesian RND needs. Its target is g~ = J psi, where psi has the variances of the initial
weights below the head and is 0 in the head. The covariance of the error u - g~ before training is then

    Cov(u) + Cov(J psi) = E[J_head S^2 J_head'] + E[J_body S^2 J_body'] = E[Theta],

at any width, if the head is affine in weights of mean zero that nothing else shares: u = J_head w_head. The law of psi
matters through its mean and covariance only.

Gradient flow on w itself has the tangent kernel J J'. With it, psi would have to have variance 1 in every weight,
whatever law the weights start from, and the head's part of psi would be w_head - zeta with zeta ~ N(0, 1), not 0. In
the standard parametrisation that prior grows with the width and has no limit, so the kernels here are those of omega.

A tensor that starts the same in every draw, such as a bias of zero or a gain of one, has s = 0: it has no prior
uncertainty and is not trained.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod, sqrt
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from rndlib.factors import Factors, Sizes, sizes
from rndlib.network import MLP

Weights = dict[str, np.ndarray]
"""Tensors by name, in float64."""
Points = Float[np.ndarray, "n *shape"]

_ENTRIES = 4096
"""Numbers that a measured scale rests on, which leaves it a standard error of 1 %, where _MOST draws give as many."""
_FEWEST, _MOST = 8, 256
_PROBES = 4  # points that a network is tried on before it is trained
_ROUNDING = 1e-8  # relative to the largest output


@dataclass(frozen=True)
class Tensor:
    """One tensor of weights.

    scale : standard deviation of its entries at the start, 0 where they start the same in every draw.
    outputs_axis : the axis along which a head has one slice per output; None for a tensor below the head.
    """

    scale: float
    outputs_axis: int | None


class AnyNetwork(ABC):
    """What rndlib asks of a network that the user wrote. Points are (N, *shape), outputs (N, outputs).

    It is trained in omega = w / s. Its parameters are laid out as those of an `MLP` are (`rndlib.training.weights`):
    each tensor below the head is a layer of its own, and the head, with the outputs on the first axis, is the last one.
    Tensors with s = 0 are left out.

    Parameters
    ----------
    scales : the standard deviation of each tensor's initial entries, by its name, or one number for all;
        None measures them from draws.
    """

    library: ClassVar[str]
    """The backend that trains it: "jax" or "torch"."""

    def __init__(self, scales: float | Mapping[str, float] | None = None):
        self.scales = scales
        self._tensors: dict[int, dict[str, Tensor]] = {}
        self._fixed: dict[int, Weights] = {}
        self._activations: dict[tuple[int, ...], int] = {}
        self._sizes: dict[tuple[int, ...], Sizes] = {}
        self._examined: set[tuple[int, ...]] = set()

    def __deepcopy__(self, memo: Any) -> "AnyNetwork":
        return self  # a description without weights, which scikit-learn copies with an estimator

    @abstractmethod
    def initial(self, outputs: int, seed: int) -> Weights:
        """The weights of a new network with this many outputs, drawn by its own library."""

    @abstractmethod
    def functions(self, weights: Weights, X: Points) -> Float[np.ndarray, "n outputs"]:
        """The outputs at X."""

    @abstractmethod
    def factors(self, weights: Weights, X: Points) -> dict[str, Factors]:
        """The derivatives of the first output with respect to every tensor, as `rndlib.factors` has them."""

    def sizes(self, weights: Weights, x: Float[np.ndarray, "1 *shape"]) -> Sizes:
        """The sizes of the factors of the input x, one point, which do not depend on the weights."""
        if x.shape not in self._sizes:
            self._sizes[x.shape] = sizes(self.factors(weights, x).values())
        return self._sizes[x.shape]

    def activations(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """Size of the largest array between the input x, one point, and the outputs."""
        if x.shape not in self._activations:
            self._activations[x.shape] = self._largest(x)
        return self._activations[x.shape]

    @abstractmethod
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """`activations`, by a trace of the network."""

    @cached_property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        """The shapes of the tensors of every layer, for one output."""
        return [[a.shape for a in layer] for layer in self.draw(1, 0)]

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

    def draw(self, outputs: int, seed: int) -> list[tuple[np.ndarray, ...]]:
        """The parameters omega of a new network. Raises as `tensors`, and if the head starts the same in every draw."""
        weights, layout = self.initial(outputs, seed), self._layout(outputs)
        scaled = {name: weights[name] / scale for name, scale, _ in (*layout[0], *layout[1])}
        head = tuple(np.moveaxis(scaled[name], axis, 0) for name, _, axis in layout[1])
        return [*((scaled[name],) for name, _, _ in layout[0]), head]

    def weights(self, omega: Any, moveaxis: Callable[[Any, Any, int], Any]) -> dict[str, Any]:
        """The weights w = s omega by name, in arrays of any library, with those that are not trained in NumPy's."""
        *body, head = omega
        outputs = len(head[0])
        layout = self._layout(outputs)
        weights: dict[str, Any] = dict(self._fixed[outputs])
        for (name, scale, _), (a,) in zip(layout[0], body, strict=True):
            weights[name] = scale * a
        for (name, scale, axis), a in zip(layout[1], head, strict=True):
            weights[name] = moveaxis(scale * a, 0, axis)
        return weights

    def _layout(self, outputs: int) -> tuple[list[tuple[str, float, Any]], list[tuple[str, float, Any]]]:
        """Name, scale and axis of the outputs of the trained tensors: those below the head, and the head's."""
        tensors = self.tensors(outputs)
        trained = [(name, t.scale, t.outputs_axis) for name, t in tensors.items() if t.scale]
        head = [one for one in trained if one[2] is not None]
        if not head:
            raise ValueError(
                "the network's last layer starts the same in every draw, so its outputs have no variance: draw its "
                "weights at random"
            )
        if outputs not in self._fixed:
            weights = self.initial(outputs, 0)
            self._fixed[outputs] = {name: weights[name] for name, t in tensors.items() if not t.scale}
        return [one for one in trained if one[2] is None], head

    @cached_property
    def _two_heads(self) -> Weights:
        """Weights of a network with two outputs, on which points are tried. Kept, as drawing them can take longer."""
        return self.initial(2, 0)

    @cached_property
    def outputs_axes(self) -> dict[str, int | None]:
        """The axis of the outputs in every tensor, by name: a number in the head, None below it.

        Raises a ValueError if the tensors do not depend on the number of outputs as those of a last layer do.
        """
        one, two = self.initial(1, 0), self._two_heads
        if set(one) != set(two):
            raise ValueError("the names of the network's tensors depend on the number of outputs: keep them the same")
        axes: dict[str, int | None] = {}
        for name, array in one.items():
            of_one, of_two = array.shape, two[name].shape
            grown = [axis for axis, (a, b) in enumerate(zip(of_one, of_two, strict=False)) if a != b]
            if len(of_one) != len(of_two) or len(grown) > 1 or any((of_one[i], of_two[i]) != (1, 2) for i in grown):
                raise ValueError(
                    f"tensor {name} has the shape {of_one} for one output and {of_two} for two: let no tensor but "
                    "those of the last layer depend on outputs, and give them one slice per output"
                )
            axes[name] = grown[0] if grown else None
        if all(axis is None for axis in axes.values()):
            raise ValueError("the network ignores outputs: give its last layer that many units")
        return axes

    def tensors(self, outputs: int) -> dict[str, Tensor]:
        """Every tensor of weights of a network with this many outputs, by name.

        Raises as `outputs_axes`, and if `scales` names other tensors.
        """
        if outputs in self._tensors:
            return self._tensors[outputs]
        axes = self.outputs_axes
        if self.scales is None:
            scales = self._measured(outputs)
        elif isinstance(self.scales, Mapping):
            scales = dict(self.scales)
            if set(scales) != set(axes):
                raise ValueError(f"scales names {', '.join(scales)}: give one for each of {', '.join(axes)}")
        else:
            scales = dict.fromkeys(axes, float(self.scales))
        return self._tensors.setdefault(outputs, {name: Tensor(scales[name], axis) for name, axis in axes.items()})

    def examine(self, X: Points) -> None:
        """Try the network on some rows of X, and refuse what the theorems do not hold for, or what rndlib cannot train.

        Points of a shape that it was tried on before are only tried for outputs that are not finite.

        Raises
        ------
        ValueError: The outputs have the wrong shape, change from call to call, depend on the other rows of a batch, are
            not finite, or are not affine in the head; or two outputs share weights of the head.
        """
        x, heads, weights = X[:_PROBES], 2, self._two_heads
        f = self.functions(weights, x)
        if f.shape != (len(x), heads):
            raise ValueError(f"the network with outputs = {heads} maps {x.shape} to {f.shape}: return (N, outputs)")
        if not np.isfinite(f).all():
            raise ValueError("the network's outputs have a NaN or infinity: scale the inputs to about 1")
        if x.shape in self._examined:
            return
        self._same(f, self.functions(weights, x), "change from call to call: switch off dropout, .eval() in torch")
        alone = np.concatenate([self.functions(weights, x[i : i + 1]) for i in range(len(x))])
        self._same(f, alone, "depend on the other rows of the batch: normalise by groups or layers, not over the batch")
        # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
        turned, zeroed = (self.functions(self._with_head(weights, factor), x) for factor in (-2.0, 0.0))
        self._same(
            turned + 2 * f,
            3 * zeroed,
            "are not affine in the head's weights: let the head be the last layer, and share no weights with it",
        )
        second = self.functions(self._with_head(weights, 2.0, output=0), x)[:, 1]
        self._same(f[:, 1], second, "share weights of the head: give each output its own")
        self._examined.add(x.shape)

    def _same(self, f: np.ndarray, again: np.ndarray, wrong: str) -> None:
        if np.abs(f - again).max() > _ROUNDING * max(1.0, np.abs(f).max()):
            raise ValueError(f"the network's outputs {wrong}")

    def _with_head(self, weights: Weights, factor: float, output: int | None = None) -> Weights:
        """Weights whose head, or its slice for one output, is multiplied."""
        changed = {name: array.copy() for name, array in weights.items()}
        for name, axis in self.outputs_axes.items():
            if axis is not None:
                whole = np.moveaxis(changed[name], axis, 0)
                whole[slice(None) if output is None else output] *= factor
        return changed

    def _measured(self, outputs: int) -> dict[str, float]:
        """Standard deviation of each tensor's entries, about their own means over draws."""
        first = self.initial(outputs, 0)
        draws = min(_MOST, max(_FEWEST, ceil(_ENTRIES / min(array.size for array in first.values()))))
        total = {name: np.zeros_like(array) for name, array in first.items()}
        squares = dict.fromkeys(first, 0.0)
        for seed in range(draws):
            for name, array in self.initial(outputs, seed).items():
                away = array - first[name]  # about the first draw, so that entries that do not vary give exactly 0
                total[name] += away
                squares[name] += float(np.sum(away**2))
        return {
            name: sqrt(max(0.0, squares[name] - float(np.sum(total[name] ** 2)) / draws) / array.size / (draws - 1))
            for name, array in first.items()
        }


Network = MLP | AnyNetwork
"""What can be trained."""


def spawned(seed: int, *key: int) -> int:
    """The seed of one draw among many, independent of the others, in the form that JAX and PyTorch take."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])
