"""Training many bodies of one description, block by block, and evaluating them afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import inf
from operator import or_
from types import ModuleType

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.blocks import parallel, split
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.training.flow import integration
from rndlib.training.flow.conditioning import warn_if_nearly_singular
from rndlib.training.minibatches import Draws
from rndlib.training.pilots import Pilot
from rndlib.training.progress import progress
from rndlib.training.solvers import GradientDescent, GradientFlow, Report, Solver, StochasticGradient
from rndlib.training.weights import Params, Role, draw, draw_offsets

PILOTS = 8
"""Bodies that are trained before the others, which learn from them how finely to step."""

BLOCKS = 64
"""Blocks that many bodies are trained in at least, so that the pilots' are few of them."""

Block = tuple[list[int], list[tuple[np.ndarray, np.ndarray]]]
Targets = Callable[[list[int], Params], Float[np.ndarray, "bodies heads n"]]
Values = Callable[[list[int], Params], Float[np.ndarray, "bodies heads t"]]


@dataclass(frozen=True)
class Trained:
    """Bodies after training, in the blocks they were trained in.

    bodies: how many there are. blocks: the indices of each block's bodies and their parameters; the last block may
    repeat the last body. report: what training did.
    """

    bodies: int
    blocks: list[Block]
    report: Report

    def evaluate(self, values: Values) -> Float[np.ndarray, "outputs t"]:
        """`values` of every block, with bodies and heads on one axis, body-major."""
        joined = self.per_body(values)
        return joined.reshape(-1, joined.shape[-1])

    def per_body(self, values: Callable[[list[int], Params], np.ndarray]) -> Float[np.ndarray, "bodies ..."]:
        """`values` of every block, bodies on the leading axis."""
        return np.concatenate(parallel(lambda block: values(*block), self.blocks))[: self.bodies]


def train(
    net: MLP,
    heads: int,
    bodies: int,
    role: Role,
    seed: int,
    backend: ModuleType,
    solver: Solver,
    X: Float[np.ndarray, "n d"],
    targets: Targets,
    noise_std: float = 0.0,
    jitter: bool = True,
) -> Trained:
    """Train `bodies` networks of `heads` outputs from their own initial weights, each to its own targets.

    `targets` gives a block's targets from its body indices and initial parameters. With noise_std > 0 every training
    point and head gets a trainable offset (`backend.train`) that starts at N(0, 1) with `jitter` and at zero without.

    Raises
    ------
    ValueError: the kernel on X is singular and the training time too long for it not to matter.
    DivergenceError: a body diverged.
    """
    if isinstance(solver, StochasticGradient):
        return _by_minibatches(net, heads, bodies, role, seed, backend, solver, X, targets, noise_std, jitter)
    spectrum = _spectrum(net, X, noise_std, solver)

    def one(block: list[int], pilot: Pilot | None = None) -> tuple[Params, Report]:
        start = draw(net, heads, seed, role, block)
        offsets = draw_offsets(seed, block, len(X), heads) if noise_std and jitter else None
        return backend.train(net, start, X, targets(block, start), solver, spectrum, noise_std, offsets, pilot)

    blocks = split(bodies, min(backend.block_size(net, heads, len(X)), max(PILOTS // 2, bodies // BLOCKS)))
    if not isinstance(solver, GradientFlow):
        return _joined(bodies, blocks, parallel(one, blocks))
    first = -(-PILOTS // len(blocks[0]))
    results = parallel(one, blocks[:first])
    if blocks[first:]:
        pilot = integration.followed([report.pilot for _, report in results if report.pilot], solver)
        results += parallel(lambda block: one(block, pilot), blocks[first:])
    return _joined(bodies, blocks, results)


def _by_minibatches(
    net: MLP,
    heads: int,
    bodies: int,
    role: Role,
    seed: int,
    backend: ModuleType,
    solver: StochasticGradient,
    X: Float[np.ndarray, "n d"],
    targets: Targets,
    noise_std: float,
    jitter: bool,
) -> Trained:
    """The same by minibatches, which need no spectrum and do not mind repeated points."""
    solver.held_out(len(X))  # before any work
    blocks = split(bodies, backend.block_size(net, heads, min(solver.batch_size, len(X))))
    with progress(len(blocks) * solver.epochs, "epoch", solver.progress) as tick:

        def one(block: list[int]) -> tuple[Params, Report]:
            start = draw(net, heads, seed, role, block)
            y = targets(block, start)
            if noise_std and jitter:
                y = y - noise_std * np.swapaxes(draw_offsets(seed, block, len(X), heads), 1, 2)
            return backend.train_in_batches(net, start, X, y, solver, Draws(seed, role, block), noise_std, tick)

        results = parallel(one, blocks)
    return _joined(bodies, blocks, results)


def _joined(bodies: int, blocks: list[list[int]], results: list[tuple[Params, Report]]) -> Trained:
    report = reduce(or_, (report for _, report in results))
    return Trained(bodies, [(block, params) for block, (params, _) in zip(blocks, results, strict=True)], report)


def _spectrum(
    net: MLP, X: Float[np.ndarray, "n d"], noise_std: float, solver: GradientFlow | GradientDescent
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
    """Eigenvalues and eigenvectors of the infinite-width kernel on X, noise included."""
    if solver.time == inf and noise_std == 0:
        checks.distinct("X", X)
    values, vectors = np.linalg.eigh(kernels.kernel(net, X).ntk + noise_std**2 * np.eye(len(X)))
    if solver.time == inf and values[0] <= len(X) * np.finfo(float).eps * values[-1]:
        raise ValueError(
            f"X: the tangent kernel of its rows is singular in float64 (eigenvalues from {values[0]:.1e} to "
            f"{values[-1]:.1e}), so training to convergence has no limit: drop points that nearly repeat others, "
            "give noise_std > 0 where it is offered, a finite training time, or a deeper network"
        )
    if isinstance(solver, GradientFlow):
        warn_if_nearly_singular(net, values, noise_std, solver)
    return values, vectors
