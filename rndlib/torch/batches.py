"""What a bonus is trained on: observations or transitions, in minibatches, of which parts go through the networks."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from rndlib import checks
from rndlib.torch.observations import Rows

AT_ONCE = 2**22
"""Numbers that go through the networks together, such as 148 stacks of four frames of 84 by 84."""

Batch = tuple[Tensor, ...]
"""Rows (n, *shape); with a discount factor, also the rows that follow (n, *shape), and their discounts (n, 1)."""


def batch(obs: Rows, next_obs: Rows | None, terminated: Any, gamma: float | None) -> Batch:
    """What is trained on, as `ModuleBonus.update` says. Raises ValueError for transitions that do not fit `gamma`."""
    rows, leading = obs
    # What inference mode made cannot take part in a gradient.
    rows = rows.clone() if rows.is_inference() else rows.detach()
    if gamma is None:
        if next_obs is not None or terminated is not None:
            raise ValueError("gamma = None: give gamma to use next_obs and terminated")
        return (rows,)
    if next_obs is None:
        raise ValueError(f"next_obs = None with gamma = {gamma!r}: give what follows obs")
    following, others = next_obs
    checks.require(others == leading, f"next_obs has leading dimensions {tuple(others)}, obs {tuple(leading)}")
    ends = torch.zeros(leading) if terminated is None else torch.as_tensor(terminated)
    wrong = f"terminated has shape {tuple(ends.shape)}: give {tuple(leading)}, that of the bonus"
    checks.require(ends.shape == leading, wrong)
    # On an accelerator, asking would wait.
    known = ends.device.type != "cpu" or bool(((ends == 0) | (ends == 1)).all())
    checks.require(known, "terminated has other entries than 0 and 1: give booleans")
    return rows, following, gamma * (~ends.to(rows.device).bool()).double().reshape(-1, 1)


def minibatches(batch: Batch, size: int, generator: torch.Generator) -> Iterable[Batch]:
    """One epoch in random order, or all at once and in their own."""
    n = len(batch[0])
    if size >= n:
        return [batch]
    order = torch.randperm(n, generator=generator, device="cpu").to(batch[0].device)
    return (tuple(each[chosen] for each in batch) for chosen in order.split(size))


def parts(*batch: Tensor) -> Iterable[Batch]:
    """The batch in pieces of at most `AT_ONCE` numbers, or of one row."""
    n = len(batch[0])
    size = max(1, AT_ONCE * n // batch[0].numel())
    return [batch] if size >= n else zip(*(each.split(size) for each in batch), strict=True)
