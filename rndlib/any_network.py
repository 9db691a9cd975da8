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
uncertainty and is not trained (`AnyNetwork.untrained` names them).

Scales are those of a network with one output, whatever number of heads it has, so that the function of a head does not
depend on the heads beside it.
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cached_property, partial
from math import ceil, prod, sqrt
from pathlib import Path
from sysconfig import get_paths
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.network import MLP

Weights = dict[str, np.ndarray]
"""Tensors by name, in float64."""
Points = Float[np.ndarray, "n *shape"]
Derivatives = dict[str, Float[np.ndarray, "n _"]]
"""Those of the first output at every point with respect to every tensor, which is flattened, by name."""

_ENTRIES = 4096
"""Numbers that a measured scale rests on, which leaves it a standard error of 1 %, where _MOST draws give as many."""
_FEWEST, _MOST = 8, 64
_APART = 5.0  # standard errors between two measurements of one scale
_HEAD = 2**20  # most numbers in the head of a network that is drawn to compare its scales
_PROBES = 4  # points that a network is tried on before it is trained
_ROUNDING = 1e-8  # relative to the largest output


class Tensor(NamedTuple):
    """The standard deviation of a tensor's entries at the start, 0 where they start the same in every draw; and the
    axis along which a head has one slice per output, None for a tensor below the head."""

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
    output_scale : the outputs are multiplied by it, > 0, and kernels by its square. None lets a fit choose it by the
        evidence; until then it counts as 1.
    """

    library: ClassVar[str]
    """The backend that trains it: "jax" or "torch"."""

    def __init__(self, scales: float | Mapping[str, float] | None = None, output_scale: float | None = 1.0):
        self.scales = scales
        self.output_scale = None if output_scale is None else checks.positive("output_scale", output_scale)
        self._activations: dict[tuple[int, ...], int] = {}
        self._examined: set[tuple[int, ...]] = set()
        self._compared = 1  # outputs up to which scales are known not to depend on their number

    def __deepcopy__(self, memo: Any) -> "AnyNetwork":
        return self  # a description without weights, which scikit-learn copies with an estimator

    def _rebuilt(self, *functions: Callable[..., Any]) -> tuple[Any, ...]:
        """What `__reduce__` returns: a copy has the scales that were measured here, wherever it is unpickled."""
        known = {name: value for name, value in vars(self).items() if name in ("outputs_axes", "tensors", "_fixed")}
        return partial(type(self), *functions, scales=self.scales, output_scale=self.output_scale), (), known

    def with_output_scale(self, output_scale: float | None) -> "AnyNetwork":
        """The same network with its outputs multiplied by another number. It is not measured again."""
        other = copy(self)
        other.output_scale = None if output_scale is None else checks.positive("output_scale", output_scale)
        return other

    # --------------------------------------------------------------------------------------- what each library defines

    @abstractmethod
    def arrays(self, outputs: int, seed: int) -> Weights:
        """All arrays of numbers of a new network, by name: its weights, and what is never trained."""

    @abstractmethod
    def initial(self, outputs: int, seed: int) -> Weights:
        """The weights of a new network with this many outputs, drawn by its own library."""

    @abstractmethod
    def functions(self, weights: Weights, X: Points) -> Float[np.ndarray, "n outputs"]:
        """The outputs at X."""

    @abstractmethod
    def derivatives(self, weights: Weights, X: Points) -> Derivatives:
        """The derivatives of the first output at X."""

    @abstractmethod
    def _differentiate(self, weights: Weights, X: Points) -> None:
        """Differentiate the outputs at X once, in the way of training, for the errors that this may raise."""

    @abstractmethod
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """`activations`, by a trace of the network."""

    # ------------------------------------------------------------------------------------------------------ parameters

    def activations(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        """Size of the largest array between the input x, one point, and the outputs."""
        if x.shape not in self._activations:
            self._activations[x.shape] = self._largest(x)
        return self._activations[x.shape]

    @property
    def untrained(self) -> tuple[str, ...]:
        """Names of the tensors that start the same in every draw, such as biases of zero and gains of one.

        They have no prior and are not trained. Draw them at random, or give `scales`, if they should be.
        """
        return tuple(name for name, tensor in self.tensors.items() if not tensor.scale)

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

    def draw(self, outputs: int, seed: int) -> list[tuple[np.ndarray, ...]]:
        """The parameters omega of a new network.

        Raises as `tensors`, and if the head starts the same in every draw, or by a law that depends on `outputs`.
        """
        self._compare(outputs)
        return self._relative(self.initial(outputs, seed))

    def _relative(self, weights: Weights) -> list[tuple[np.ndarray, ...]]:
        """The parameters omega = w / s, layer by layer."""
        body, head = self._layout
        scaled = {name: weights[name] / scale for name, scale, _ in (*body, *head)}
        outputs_first = tuple(np.moveaxis(scaled[name], axis, 0) for name, _, axis in head)
        return [*((scaled[name],) for name, *_ in body), outputs_first]

    def weights(self, omega: Any, moveaxis: Callable[[Any, Any, int], Any]) -> dict[str, Any]:
        """The weights w = s omega by name, in arrays of any library, with those that are not trained in NumPy's.

        All have the precision of omega.
        """
        *body, head = omega
        outputs, dtype = len(head[0]), str(head[0].dtype).removeprefix("torch.")
        weights: dict[str, Any] = {}
        for name, a in self._fixed.items():
            axis = self.outputs_axes[name]
            weights[name] = (a if axis is None else np.repeat(a, outputs, axis)).astype(dtype)
        for (name, scale, _), (a,) in zip(self._layout[0], body, strict=True):
            weights[name] = scale * a
        for (name, scale, axis), a in zip(self._layout[1], head, strict=True):
            weights[name] = moveaxis(scale * a, 0, axis)
        return weights

    @property
    def _layout(self) -> tuple[list[tuple[str, float, Any]], list[tuple[str, float, Any]]]:
        """Name, scale and axis of the outputs of the trained tensors: those below the head, and the head's."""
        trained = [(name, t.scale, t.outputs_axis) for name, t in self.tensors.items() if t.scale]
        head = [one for one in trained if one[2] is not None]
        checks.require(
            bool(head),
            "the network's last layer starts the same in every draw, so its outputs have no variance: draw its weights "
            "at random",
        )
        return [one for one in trained if one[2] is None], head

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

    # ---------------------------------------------------------------------------------------------------------- scales

    @cached_property
    def _heads(self) -> tuple[Weights, Weights]:
        """Weights of networks with one output and with two. Kept, as drawing them can take long."""
        return self.initial(1, 0), self.initial(2, 0)

    @cached_property
    def outputs_axes(self) -> dict[str, int | None]:
        """The axis of the outputs in every tensor, by name: a number in the head, None below it.

        Raises a ValueError if the tensors do not depend on the number of outputs as those of a last layer do.
        """
        one, two = self._heads
        checks.require(
            set(one) == set(two),
            "the names of the network's tensors depend on the number of outputs: keep them the same",
        )
        axes: dict[str, int | None] = {}
        for name, array in one.items():
            of_one, of_two = array.shape, two[name].shape
            grown = [axis for axis, (a, b) in enumerate(zip(of_one, of_two, strict=False)) if a != b]
            checks.require(
                len(of_one) == len(of_two) and [(of_one[i], of_two[i]) for i in grown] in ([], [(1, 2)]),
                f"tensor {name} has the shape {of_one} for one output and {of_two} for two: let no tensor but those of "
                "the last layer depend on outputs, and give them one slice per output",
            )
            axes[name] = grown[0] if grown else None
        checks.require(set(axes.values()) != {None}, "the network ignores outputs: give its last layer that many units")
        return axes

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of weights by name, with its scale in a network of one output.

        Raises as `outputs_axes`, and if `scales` names other tensors.
        """
        axes = self.outputs_axes
        if self.scales is None:
            scales = self._measured()
        elif isinstance(self.scales, Mapping):
            scales = dict(self.scales)
            checks.require(
                set(scales) == set(axes), f"scales names {', '.join(scales)}: give one for each of {', '.join(axes)}"
            )
        else:
            scales = dict.fromkeys(axes, float(self.scales))
        return {name: Tensor(scales[name], axis) for name, axis in axes.items()}

    @property
    def _draws(self) -> int:
        """Networks from which scales are measured."""
        return min(_MOST, max(_FEWEST, ceil(_ENTRIES / min(array.size for array in self._heads[0].values()))))

    def _measured(self) -> dict[str, float]:
        """Standard deviation of each tensor's entries, about their own means over draws."""
        first, draws = self._heads[0], self._draws
        total = {name: np.zeros_like(array) for name, array in first.items()}
        squares = dict.fromkeys(first, 0.0)
        for seed in range(1, draws):
            for name, array in self.initial(1, seed).items():
                away = array - first[name]  # about the first draw, so that entries that do not vary give exactly 0
                total[name] += away
                squares[name] += float(np.sum(away**2))
        return {
            name: sqrt(max(0.0, squares[name] - float(np.sum(total[name] ** 2)) / draws) / array.size / (draws - 1))
            for name, array in first.items()
        }

    def _compare(self, outputs: int) -> None:
        """Refuse measured scales that depend on the number of outputs, as Glorot's do.

        Two networks are compared with those of one output: with as many outputs as the head has inputs, or more, if
        memory allows, where no law by the number of outputs stays within the errors of measurement.
        """
        if self.scales is not None or outputs <= self._compared:
            return
        many = max(outputs, min(max(self.width, _ENTRIES // self.width), _HEAD // self.width))
        one, other = (self.initial(many, seed) for seed in range(2))
        for name, tensor in self.tensors.items():
            # Relative standard errors of Gaussian numbers; those of bounded ones are smaller.
            numbers = one[name].size, self._heads[0][name].size * (self._draws - 1)
            error = sqrt(sum(1 / (2 * n) for n in numbers))
            scale = sqrt(float(np.mean((one[name] - other[name]) ** 2)) / 2)
            checks.require(
                abs(scale - tensor.scale) <= _APART * error * tensor.scale,
                f"tensor {name} starts with the deviation {tensor.scale:.3g} for one output and {scale:.3g} for "
                f"{many}, so a head would depend on the number of heads: draw it by its number of inputs alone (not by "
                "Glorot's rule), or give scales",
            )
        self._compared = many

    # -------------------------------------------------------------------------------------------------- what is refused

    def examine(self, X: Points) -> None:
        """Try the network on some rows of X, and refuse what the theorems do not hold for, or what rndlib cannot train.

        Points of a shape that it was tried on before are only tried for outputs that are not finite.

        Raises
        ------
        ValueError: The network fails at these points, or cannot be differentiated; its weights are not a function of
            the seed; the outputs have the wrong shape, change from call to call, depend on the other rows of a batch,
            are not finite, or are not affine in the head; or two outputs share weights of the head.
        """
        x, heads, weights = X[:_PROBES], 2, self._heads[1]
        f = self.functions(weights, x)
        checks.require(
            f.shape == (len(x), heads),
            f"the network with outputs = {heads} maps {x.shape} to {f.shape}: return (N, outputs)",
        )
        finite = np.isfinite(f).all()
        checks.require(finite, "the network's outputs have a NaN or infinity: scale the inputs to about 1")
        if x.shape in self._examined:
            return
        first, again = (self.arrays(heads, 0) for _ in range(2))
        changed = [name for name, array in first.items() if not np.array_equal(array, again[name])]
        checks.require(
            not changed,
            f"the network's {', '.join(changed)} differ between two draws with one seed: draw them from the key that "
            "init is given in JAX, from PyTorch's generator on the CPU in build, and from nothing else",
        )

        def same(values: np.ndarray, others: np.ndarray, wrong: str) -> None:
            near = np.abs(values - others).max() <= _ROUNDING * max(1.0, np.abs(values).max())
            checks.require(near, f"the network's outputs {wrong}")

        def turned(factor: float, output: int | slice = slice(None)) -> np.ndarray:
            """The outputs with the head, or its slice for one output, multiplied."""
            changed = {name: array.copy() for name, array in weights.items()}
            for name, axis in self.outputs_axes.items():
                if axis is not None:
                    np.moveaxis(changed[name], axis, 0)[output] *= factor
            return self.functions(changed, x)

        same(f, self.functions(weights, x), "change from call to call: switch off dropout, .eval() in torch")
        alone = np.concatenate([self.functions(weights, x[i : i + 1]) for i in range(len(x))])
        same(f, alone, "depend on the other rows of the batch: normalise by groups or layers, not over the batch")
        # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
        same(
            turned(-2.0) + 2 * f,
            3 * turned(0.0),
            "are not affine in the head's weights: let the head be the last layer, and share no weights with it",
        )
        same(f[:, 1], turned(2.0, output=0)[:, 1], "share weights of the head: give each output its own")
        self._differentiate(weights, x)
        self._examined.add(x.shape)


class Fault(ValueError):
    """An error inside a network that the user wrote, in a sentence."""


@contextmanager
def faults(what: str, remedy: str) -> Iterator[None]:
    """Turn any error into a `Fault`: what fails, at which line of the user's, why, and what works."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        reason = str(cause).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
        raise Fault(f"{what}{_line(cause)} ({type(cause).__name__}: {reason}): {remedy}") from cause


def _line(error: BaseException) -> str:
    """The last line of code that an error passed through outside of libraries."""
    libraries = (*(get_paths()[of] for of in ("stdlib", "purelib", "platlib")), str(Path(__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line for frame in frames if not frame.filename.startswith(libraries)]
    return f" at {lines[-1]!r}" if lines and lines[-1] else ""


Network = MLP | AnyNetwork
"""What can be trained."""


def spawned(seed: int, *key: int) -> int:
    """The seed of one draw among many, independent of the others, in the form that JAX and PyTorch take."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])
