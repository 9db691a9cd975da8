"""What every solver can do: train a task on a backend."""

from abc import ABC, abstractmethod
from typing import ClassVar

from rndlib.cores import split
from rndlib.training.problem import Task, Trained, block_size
from rndlib.training.protocols import Backend

BLOCKS, FEW = 64, 4
"""Many bodies are trained in at least so many blocks; so few bodies may always share one."""


class Solver(ABC):
    """How networks are trained."""

    needs_kernel: ClassVar[bool] = False
    """Whether training needs the infinite-width kernel on the training points, an N x N matrix."""

    @abstractmethod
    def train(self, task: Task, backend: Backend) -> Trained:
        """Train every body of a task.

        Raises
        ------
        ValueError: training cannot work; the message says why, and what to change.
        DivergenceError: a body diverged, or missed the accuracy asked for.
        """


def full_batch_blocks(task: Task) -> list[list[int]]:
    """The bodies of a task in blocks that are trained at once, where every step sees all points."""
    size = block_size(task.net, task.heads, len(task.X))
    return split(task.bodies, min(size, max(FEW, task.bodies // BLOCKS)))
