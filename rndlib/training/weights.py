"""Initial weights: a function of a seed alone, so that every backend starts from the same networks.

Body `i` of a role has its own stream, spawned from `(seed, role, i)`: it does not depend on the number of bodies, on
the blocks they are trained in, or on the backend. Roles make the networks of one seed independent, as the theorems
require of a predictor and its target.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network, spawned
from rndlib.network import MLP
from rndlib.training.trees import mapped

# Sizes differ from tensor to tensor; jaxtyping does not bind names with an underscore.
Params = list[tuple[Float[np.ndarray, "bodies ..."], ...]]
"""Layers of tensors, bodies first. The last one is the head, in which the outputs come second. An `MLP` has `(w, b)`
for each layer; a network of the user's own has its tensors below the head one by one (`AnyNetwork.draw`)."""
Directions = list[tuple[Float[np.ndarray, "directions ..."], ...]]
"""The layers below the head, of one direction after the other."""


class Role(IntEnum):
    """The purpose of a draw. The numbers belong to the meaning of a seed: changing one changes every result."""

    MEMBER = 0
    PREDICTOR = 1
    TARGET = 2
    DIRECTION = 3
    OFFSET = 4
    MEAN = 5
    ORDER = 6


def stream(seed: int, role: Role, *index: int) -> np.random.Generator:
    """The generator of one body (or of one head of a body) in one role."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(role), *index)))


def draw(net: Network, heads: int, seed: int, role: Role, bodies: Sequence[int]) -> Params:
    """Initial weights of `bodies`: i.i.d. N(0, 1), or as a user's network draws them, over their scales."""
    if isinstance(net, MLP):
        return _normal(_shapes(net, heads), [stream(seed, role, body) for body in bodies])
    draws = (net.draw(heads, spawned(seed, int(role), body)) for body in bodies)
    return mapped(lambda *each: np.stack(each), *draws)


def draw_directions(net: Network, seed: int, bodies: Sequence[int], heads: Sequence[int] | None) -> Directions:
    """psi of the layers below the last one (Proposition 4.1), i.i.d. N(0, 1).

    heads=None draws one direction per body, and a list of heads one per body and head, one body after the other.
    """
    keys = [(body,) for body in bodies] if heads is None else [(b, h) for b in bodies for h in heads]
    shapes = _shapes(net, 1) if isinstance(net, MLP) else net.shapes
    return _normal(shapes[:-1], [stream(seed, Role.DIRECTION, *key) for key in keys])


def draw_offsets(
    seed: int, bodies: Sequence[int], n_samples: int, heads: int
) -> Float[np.ndarray, "bodies n_samples heads"]:
    """xi(0), the initial value of the noise offsets, i.i.d. N(0, 1), one per training point and head."""
    return np.stack([stream(seed, Role.OFFSET, body).standard_normal((n_samples, heads)) for body in bodies])


def _shapes(net: MLP, heads: int) -> list[list[tuple[int, ...]]]:
    """The shapes of the tensors of every layer."""
    return [[(rows, columns), (rows,)] for rows, columns in net.layer_shapes(heads)]


def _normal(shapes: list[list[tuple[int, ...]]], streams: list[np.random.Generator]) -> Params:
    layers = [tuple(np.empty((len(streams), *shape)) for shape in layer) for layer in shapes]
    for index, generator in enumerate(streams):
        for layer in layers:
            for tensor in layer:
                generator.standard_normal(out=tensor[index])
    return layers
