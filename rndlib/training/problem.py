"""All bodies of a fit, the training problem of one block of them, and the trained bodies."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib.any_network import Network
from rndlib.cores import parallel, split
from rndlib.network import MLP
from rndlib.training.report import Report
from rndlib.training.weights import Directions, Params, Role

DIRECTIONS_BYTES = 2**26
"""Memory limit for directions in the space of parameters: heads are evaluated in groups whose directions fit in it."""

BLOCK_BYTES = 2**24
"""Size of the parameters, or of one layer's derivatives, of all bodies in one training call."""

BLOCKS, FEW, SMALL = 64, 4, 64
"""Least number of blocks for many bodies, and number of bodies that share one in any case, if they are so small that as
many as SMALL would have room: the time of a call counts for these, and for others that all cores are busy."""

CLOSE = 1e-4
"""Lower bound on the initial residual, relative to the targets, for a start that already meets its targets."""


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


class Following(NamedTuple):
    """The states (N, *shape) that follow the training points, and the discount (N,) of each, 0 for terminal ones."""

    X: Any
    discount: Any


class Drawn(NamedTuple):
    """The random numbers of a block of networks: all that a seed decides. A fit keeps them, and draws nothing again.

    start: Weights of the networks that train.
    tangent: Weights at which targets and linearised networks are differentiated: `start`, unless linearised.
    target: Weights of RND's target networks.
    directions: psi of Proposition 4.1, one per network, or one per head of one network after the other.
    offsets: xi(0), the jitter of the targets, one number per training point and head.
    """

    start: Params
    tangent: Params
    target: Params | None = None
    directions: Directions | None = None
    offsets: Float[np.ndarray, "bodies n heads"] | None = None


@dataclass(frozen=True)
class Problem:
    """A block of bodies, to be trained on `1/2 ||f(X) + noise_std xi - targets||^2` from given weights.

    xi are extra trainable offsets, one per training point and head, which start at `offsets`. They add noise_std^2 to
    the diagonal of the tangent kernel on the training set. Where states are `following` X, targets are rewards, and the
    discounted f there counts as a part of them (semi-gradients of temporal differences).
    """

    net: Network
    start: Params
    X: Float[np.ndarray, "n *shape"]
    targets: Float[np.ndarray, "bodies n heads"]
    offsets: Float[np.ndarray, "bodies n heads"]
    noise_std: float = 0.0
    following: Following | None = None

    @property
    def body_bytes(self) -> int:
        """Size of the parameters, or of one layer's activations, of one body: what a step computes at a time."""
        n, heads = self.targets.shape[1:]
        return 8 * max(n * max(self.net.width, heads), self.net.parameters(heads))


class Block(NamedTuple):
    """Some networks of a fit after training: their indices, random numbers and parameters."""

    bodies: list[int]
    drawn: Drawn
    params: Params


@dataclass(frozen=True)
class Trained:
    """All networks of a fit after training, in blocks. The last block may repeat the last network."""

    bodies: int
    blocks: list[Block]
    report: Report

    def __or__(self, other: "Trained") -> "Trained":
        """The same fit with further blocks."""
        return Trained(self.bodies, self.blocks + other.blocks, self.report | other.report)

    def per_body(self, values: Callable[[Drawn, Params], np.ndarray]) -> Float[np.ndarray, "bodies ..."]:
        """`values` of every block, bodies on the leading axis."""
        return np.concatenate(parallel(lambda block: values(block.drawn, block.params), self.blocks))[: self.bodies]


@dataclass(frozen=True)
class Task:
    """All bodies of a fit: networks with the same settings, each trained from its own weights to its own targets.

    `begin` has the random numbers of a block and the weights from which it trains, `targets` what it is trained to
    match. `role` and `seed` decide the order of minibatches.
    """

    net: Network
    heads: int
    bodies: int
    role: Role
    seed: int
    X: Float[np.ndarray, "n *shape"]
    begin: Callable[[list[int]], tuple[Drawn, Params]]
    targets: Callable[[Drawn], Float[np.ndarray, "bodies heads n"]]
    noise_std: float = 0.0
    following: Following | None = None

    def train(self, blocks: list[list[int]], one: Callable[[Problem, list[int]], tuple[Params, Report]]) -> Trained:
        """Train blocks of bodies with these indices on all cores, where `one(problem, bodies)` trains one."""

        def each(bodies: list[int]) -> Trained:
            drawn, start = self.begin(bodies)
            targets = np.swapaxes(self.targets(drawn), 1, 2)
            offsets = np.zeros_like(targets) if drawn.offsets is None else drawn.offsets
            problem = Problem(self.net, start, self.X, targets, offsets, self.noise_std, self.following)
            params, report = one(problem, bodies)
            return Trained(self.bodies, [Block(bodies, drawn, params)], report)

        return reduce(or_, parallel(each, blocks))


class Solver(ABC):
    """How a network is trained: settings that any backend can carry out, checked when they are made."""

    @abstractmethod
    def train(self, task: Task, backend: Any) -> Trained:
        """Train every body of a task on an `rndlib.training.backends.Backend`.

        Raises ValueError if training cannot work, and DivergenceError if a body diverged or missed the requested
        accuracy.
        """


def full_batch_blocks(task: Task) -> list[list[int]]:
    """The bodies of a task in blocks that are trained together, for solvers whose every step uses all points."""
    size = block_size(task.net, task.heads, len(task.X))
    few = FEW if isinstance(task.net, MLP) and size >= SMALL else 1
    return split(task.bodies, min(size, max(few, task.bodies // BLOCKS)))


def relative(
    last: Float[np.ndarray, " bodies"], first: Float[np.ndarray, " bodies"], targets: Float[np.ndarray, "bodies _ _"]
) -> Float[np.ndarray, " bodies"]:
    """The norm of every body's last residual over that of its first, or over `CLOSE` times its targets' if larger."""
    reference = np.maximum(first, CLOSE * np.linalg.norm(targets, axis=(1, 2)))
    return last / np.where(reference > 0, reference, 1.0)
