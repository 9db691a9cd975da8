"""Initial weights: a function of a seed alone, so that every backend starts from the same networks.

Body `i` of a role has its own stream, spawned from `(seed, role, i)`: it does not depend on the number of bodies, on
the blocks they are trained in, or on the backend. Roles make the networks of one seed independent, as the theorems
require of a predictor and its target.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training.trees import mapped

# Fan-in and fan-out differ from layer to layer; jaxtyping does not bind names with an underscore.
Params = list[tuple[Float[np.ndarray, "bodies _fan_out _fan_in"], Float[np.ndarray, "bodies _fan_out"]]]
Directions = list[tuple[Float[np.ndarray, "directions _fan_out _fan_in"], Float[np.ndarray, "directions _fan_out"]]]


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


def draw(net: MLP, heads: int, seed: int, role: Role, bodies: Sequence[int]) -> Params:
    """Weights and biases of `bodies`, i.i.d. N(0, 1): one `(w, b)` per layer, bodies first."""
    return _stacked(net.layer_shapes(heads), [stream(seed, role, body) for body in bodies])


def draw_directions(net: MLP, seed: int, bodies: Sequence[int], heads: Sequence[int] | None) -> Directions:
    """psi of the layers below the last one (Proposition 4.1), i.i.d. N(0, 1).

    heads=None draws one direction per body, and a list of heads one per body and head, one body after the other.
    """
    keys = [(body,) for body in bodies] if heads is None else [(b, h) for b in bodies for h in heads]
    return _stacked(net.layer_shapes(1)[:-1], [stream(seed, Role.DIRECTION, *key) for key in keys])


def paired(params: Params, directions: Directions) -> tuple[Directions, Directions]:
    """Networks with one direction each: with a direction per head, every head becomes a network of its own."""
    bodies, heads = params[-1][0].shape[:2]
    if not directions or len(directions[0][0]) == bodies:
        return params, directions
    *hidden, (w, b) = params
    repeated = mapped(lambda a: np.repeat(a, heads, axis=0), hidden)
    return [*repeated, (w.reshape(bodies * heads, 1, -1), b.reshape(-1, 1))], directions


def draw_offsets(
    seed: int, bodies: Sequence[int], n_samples: int, heads: int
) -> Float[np.ndarray, "bodies n_samples heads"]:
    """xi(0), the initial value of the noise offsets, i.i.d. N(0, 1), one per training point and head."""
    return np.stack([stream(seed, Role.OFFSET, body).standard_normal((n_samples, heads)) for body in bodies])


def _stacked(shapes: list[tuple[int, int]], streams: list[np.random.Generator]) -> Params:
    count = len(streams)
    layers = [(np.empty((count, *shape)), np.empty((count, shape[0]))) for shape in shapes]
    for index, generator in enumerate(streams):
        for w, b in layers:
            generator.standard_normal(out=w[index])
            generator.standard_normal(out=b[index])
    return layers
