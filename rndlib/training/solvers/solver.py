"""The common interface of all solvers: train a task on a backend."""

from abc import ABC, abstractmethod

from rndlib.cores import split
from rndlib.training.problem import Task, Trained, block_size
from rndlib.training.protocols import Backend

BLOCKS, FEW = 64, 4
"""Least number of blocks for many bodies, and number of bodies that may always share a block."""


class Solver(ABC):
    @abstractmethod
    def train(self, task: Task, backend: Backend) -> Trained:
        """Train every body of a task.

        Raises ValueError if training cannot work, and DivergenceError if a body diverged or missed the requested
        accuracy.
        """


def full_batch_blocks(task: Task) -> list[list[int]]:
    """The bodies of a task in blocks that are trained together, for solvers whose every step uses all points."""
    size = block_size(task.net, task.heads, len(task.X))
    return split(task.bodies, min(size, max(FEW, task.bodies // BLOCKS)))
