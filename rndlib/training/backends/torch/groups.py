"""The bodies of a block, as many at a time as train fastest together."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.linearise import Bodies

GROUP_BYTES = 2**20
"""Size of one layer's activations, or of the parameters, of a group: they should stay in a core's cache, and be large
enough for arithmetic to take longer than starting it from Python. On other devices a group is the whole block."""


def groups(
    net: MLP, params: Bodies, offsets: Float[Tensor, "bodies n heads"], targets: Float[Tensor, "bodies n heads"]
) -> Iterator[tuple[Bodies, Tensor, Tensor]]:
    """Views of the parameters, offsets and targets of one group after the other."""
    bodies, n, heads = targets.shape
    each = targets.itemsize * max(n * max(net.width, heads), sum(w[0].numel() for w, _ in params))
    size = bodies if targets.device.type != "cpu" else max(1, GROUP_BYTES // each)
    for first in range(0, bodies, size):
        some = slice(first, first + size)
        yield [(w[some], b[some]) for w, b in params], offsets[some], targets[some]


def norms(values: Float[Tensor, "bodies n heads"]) -> Float[Tensor, " bodies"]:
    """Of every body, over points and heads."""
    return torch.linalg.vector_norm(values, dim=(1, 2))
