"""The standard deviation at which each tensor of a network starts, and where its outputs are, read off its draws."""

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np

from rndlib import checks

Weights = dict[str, np.ndarray]
"""Tensors by name, in float64."""
Draw = Callable[[int, int], Weights]
"""The weights of a new network with this many outputs, for a seed."""

_ENTRIES = 4096
"""Numbers that a measured scale rests on, which leaves it a standard error of 1 %, where _MOST draws give as many."""
_FEWEST, _MOST = 8, 64
_APART = 5.0  # standard errors between two measurements of one scale
_HEAD = 2**20  # most numbers in the head of a network that is drawn to compare its scales


class Tensor(NamedTuple):
    """The standard deviation of a tensor's entries at the start, 0 where they start the same in every draw; and the
    axis along which a head has one slice per output, None for a tensor below the head."""

    scale: float
    outputs_axis: int | None

    def relative(self, weights: np.ndarray) -> np.ndarray:
        """omega = w / s, with the outputs of a head on the first axis."""
        omega = weights / self.scale
        return omega if self.outputs_axis is None else np.moveaxis(omega, self.outputs_axis, 0)

    def absolute(self, omega: Any, moveaxis: Callable[[Any, Any, int], Any]) -> Any:
        """w = s omega, in the layout of the network, by the `moveaxis` of an array library."""
        weights = self.scale * omega
        return weights if self.outputs_axis is None else moveaxis(weights, 0, self.outputs_axis)


def outputs_axes(one: Weights, two: Weights) -> dict[str, int | None]:
    """The axis of the outputs in every tensor, from networks with one output and with two: a number in the head.

    Raises a ValueError if the tensors do not depend on the number of outputs as those of a last layer do.
    """
    checks.require(
        set(one) == set(two), "the names of the network's tensors depend on the number of outputs: keep them the same"
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


def measured(draw: Draw, first: Weights) -> dict[str, float]:
    """Standard deviation of the entries of each tensor, about their own means over draws of one output.

    `first` is the draw of seed 0.
    """
    draws = _draws(first)
    total = {name: np.zeros_like(array) for name, array in first.items()}
    squares = dict.fromkeys(first, 0.0)
    for seed in range(1, draws):
        for name, array in draw(1, seed).items():
            away = array - first[name]  # about the first draw, so that entries that do not vary give exactly 0
            total[name] += away
            squares[name] += float(np.sum(away**2))
    return {
        name: sqrt(max(0.0, squares[name] - float(np.sum(total[name] ** 2)) / draws) / array.size / (draws - 1))
        for name, array in first.items()
    }


def compare(draw: Draw, first: Weights, tensors: dict[str, Tensor], width: int, outputs: int) -> int:
    """Refuse measured scales that depend on the number of outputs, as Glorot's do.

    Two networks are compared with those of one output: with `outputs`, or as many as the head has inputs, or more, if
    memory allows, where no dependence on the number of outputs stays within the errors of measurement. Returns their
    number.
    """
    many = max(outputs, min(max(width, _ENTRIES // width), _HEAD // width))
    one, other = (draw(many, seed) for seed in range(2))
    for name, tensor in tensors.items():
        # Relative standard errors of Gaussian numbers; those of bounded ones are smaller.
        numbers = one[name].size, first[name].size * (_draws(first) - 1)
        error = sqrt(sum(1 / (2 * n) for n in numbers))
        scale = sqrt(float(np.mean((one[name] - other[name]) ** 2)) / 2)
        checks.require(
            abs(scale - tensor.scale) <= _APART * error * tensor.scale,
            f"tensor {name} starts with the deviation {tensor.scale:.3g} for one output and {scale:.3g} for "
            f"{many}, so a head would depend on the number of heads: draw it by its number of inputs alone (not by "
            "Glorot's rule), or give scales",
        )
    return many


def _draws(first: Weights) -> int:
    """Networks from which scales are measured."""
    return min(_MOST, max(_FEWEST, ceil(_ENTRIES / min(array.size for array in first.values()))))
