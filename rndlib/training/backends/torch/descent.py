"""Full-batch gradient descent on a block of bodies."""

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.groups import groups, norms
from rndlib.training.backends.torch.linearise import Bodies, linearise

Norms = Float[Tensor, " bodies"]


def descend(
    net: MLP,
    params: Bodies,
    offsets: Float[Tensor, "bodies n heads"],
    X: Float[Tensor, "n d"],
    targets: Float[Tensor, "bodies n heads"],
    noise_std: float,
    rate: float,
    steps: int,
) -> tuple[Norms, Norms]:
    """Take so many steps, in place; returns the norms of the first and the last residuals."""
    first, last = [], []
    for own, xi, y in groups(net, params, offsets, targets):
        at = linearise(net, own, X)
        r = at.values + noise_std * xi - y
        first.append(norms(r))
        for _ in range(steps):
            at.pull_back_(r, own, rate)
            xi.sub_(r, alpha=rate * noise_std)
            at = linearise(net, own, X)
            r = at.values + noise_std * xi - y
        last.append(norms(r))
    return torch.cat(first), torch.cat(last)
