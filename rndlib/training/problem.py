"""All bodies of a fit, the training problem of one block of them, and the trained bodies."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.cores import parallel
from rndlib.training.report import Report
from rndlib.training.weights import Params, Role, draw, draw_offsets

State = tuple[Params, Float[np.ndarray, "bodies n heads"]]
"""Parameters and offsets of every body."""

Targets = Callable[[list[int], Params], Float[np.ndarray, "bodies heads n"]]
Values = Callable[[list[int], Params], Float[np.ndarray, "bodies heads t"]]

DIRECTIONS_BYTES = 2**28
"""Memory limit for directions in the space of parameters: heads are evaluated in groups whose directions fit in it."""

BLOCK_BYTES = 2**24
"""Size of the parameters, or of one layer's derivatives, of all bodies in one training call."""


def block_size(net: Network, heads: int, n_samples: int) -> int:
    """Number of bodies to train in one call, within BLOCK_BYTES; the same for every backend."""
    activations = n_samples * heads * net.width
    return max(1, int(BLOCK_BYTES / 8 / max(activations, net.parameters(heads))))


def column_group(net: Network, bodies: int) -> int:
    """Number of changes of the parameters, of every one of the bodies, that fit in DIRECTIONS_BYTES."""
    return max(1, DIRECTIONS_BYTES // (8 * max(1, net.parameters(1) * bodies)))


class Spectrum(NamedTuple):
    """Ascending eigenvalues (N,) and eigenvectors (N, N), in columns, of the infinite-width kernel on X with noise.

    They precondition the empirical kernel head by head. Both are arrays of any library.
    """

    values: Any
    vectors: Any


@dataclass(frozen=True)
class Problem:
    """A block of bodies, to be trained on `1/2 ||f(X) + noise_std xi - y||^2` from given weights.

    xi are extra trainable offsets, one per training point and head, which start at `offsets` or zero. They add
    noise_std^2 to the diagonal of the tangent kernel on the training set.
    """

    net: Network
    start: Params
    X: Float[np.ndarray, "n *shape"]
    targets: Float[np.ndarray, "bodies heads n"]
    noise_std: float = 0.0
    offsets: Float[np.ndarray, "bodies n heads"] | None = None

    @property
    def state(self) -> State:
        """Parameters and offsets before training."""
        return self.start, self.by_points[1]

    @property
    def by_points(self) -> tuple[Float[np.ndarray, "bodies n heads"], Float[np.ndarray, "bodies n heads"]]:
        """Targets and offsets with the heads on the last axis, as a network returns them."""
        y = np.swapaxes(self.targets, 1, 2)
        return y, np.zeros_like(y) if self.offsets is None else self.offsets


@dataclass(frozen=True)
class Task:
    """All bodies of a fit: networks with the same settings, each trained from its own weights to its own targets.

    `role` and `seed` determine the initial weights (`rndlib.training.weights`). `targets` gives a block's targets from
    its body indices and initial weights. With `jitter`, the offsets start at N(0, 1) rather than at zero.
    """

    net: Network
    heads: int
    bodies: int
    role: Role
    seed: int
    X: Float[np.ndarray, "n *shape"]
    targets: Targets
    noise_std: float = 0.0
    jitter: bool = True

    def problem(self, block: list[int]) -> Problem:
        """The problem of the bodies with these indices."""
        start = draw(self.net, self.heads, self.seed, self.role, block)
        jittered = self.noise_std and self.jitter
        offsets = draw_offsets(self.seed, block, len(self.X), self.heads) if jittered else None
        return Problem(self.net, start, self.X, self.targets(block, start), self.noise_std, offsets)


@dataclass(frozen=True)
class Trained:
    """Bodies after training: indices and parameters of each block. The last block may repeat the last body."""

    bodies: int
    blocks: list[tuple[list[int], Params]]
    report: Report

    @classmethod
    def joined(cls, bodies: int, blocks: list[list[int]], results: list[tuple[Params, Report]]) -> "Trained":
        """The bodies of several blocks, from the parameters and report of each."""
        report = reduce(or_, (report for _, report in results))
        return cls(bodies, [(block, params) for block, (params, _) in zip(blocks, results, strict=True)], report)

    def evaluate(self, values: Values) -> Float[np.ndarray, "outputs t"]:
        """`values` of every block, with bodies and heads on one axis, one body after the other."""
        joined = self.per_body(values)
        return joined.reshape(-1, joined.shape[-1])

    def per_body(self, values: Callable[[list[int], Params], np.ndarray]) -> Float[np.ndarray, "bodies ..."]:
        """`values` of every block, bodies on the leading axis."""
        return np.concatenate(parallel(lambda block: values(*block), self.blocks))[: self.bodies]
