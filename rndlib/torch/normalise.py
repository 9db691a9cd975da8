"""Observations centred and scaled by running statistics, and clipped."""

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

CLIP = 5.0
"""Standard deviations from the mean beyond which an observation is clipped (Burda et al., 2019)."""

_AT_ONCE = 2**19
"""Numbers that are converted to float64 together. Larger pieces leave the cache, which takes several times as long."""


class RunningNormaliser(nn.Module):
    """Running mean and variance of every entry of an observation. Only `observe` changes them.

    They are buffers, saved in `state_dict`, and keep their types whatever the module is cast to: `mean` and `var` are
    float64, and `mean32` and `std32` are what most observations are normalised by. After any sequence of batches they
    equal the mean and population variance of all rows, up to rounding (Chan et al., 1979). An entry that has never
    varied is clipped as soon as it does.

    >>> import torch
    >>> from rndlib.torch import RunningNormaliser
    >>> normaliser = RunningNormaliser((1,))
    >>> normaliser.observe(torch.tensor([[1.0], [3.0]]))
    >>> normaliser(torch.tensor([[2.0], [4.0], [100.0]])).T
    tensor([[0., 2., 5.]])
    """

    count: Tensor
    mean: Tensor
    var: Tensor
    mean32: Tensor
    std32: Tensor

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device="cpu"))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("mean32", torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("std32", torch.ones(shape, dtype=torch.float32))

    @torch.no_grad()
    def observe(self, obs: Shaped[Tensor, "batch *shape"]) -> None:
        """Update the statistics with a batch of one or more finite observations."""
        for rows in obs.split(max(1, _AT_ONCE // self.mean.numel())):
            # Differences from one of the rows are exact where an entry does not vary.
            first = rows[0].double()
            away = rows.double() - first
            mean = away.mean(0)
            var = away.sub_(mean).square_().mean(0)
            self.count.add_(len(rows))
            share = len(rows) / float(self.count)
            delta = mean + first - self.mean
            self.var.lerp_(var, share).add_(share * (1 - share) * delta**2)
            self.mean.add_(share * delta)
        self.mean32.copy_(self.mean)
        self.std32.copy_(self._std).clamp_(min=torch.finfo(torch.float32).tiny)

    @property
    def _std(self) -> Tensor:
        """Deviations; of an entry that never varied, one by which its mean, rounded to float32, is still about 0."""
        rounding = torch.finfo(torch.float32).eps * self.mean.abs()
        return torch.where(self.var > 0, self.var.sqrt(), rounding).clamp_(min=torch.finfo(torch.float64).tiny)

    def forward(self, obs: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """Normalised observations within `CLIP` of 0: in float64 for those of 32 bits that are integers, or of more."""
        if obs.dtype == torch.float32 or obs.dtype.itemsize < 4:
            mean, std = self.mean32, self.std32
        else:
            mean, std = self.mean, self._std
        away = obs - mean if obs.dtype == mean.dtype else obs.to(mean.dtype).sub_(mean)
        return away.div_(std).clamp_(-CLIP, CLIP)

    def _apply(self, fn: Any, recurse: bool = True) -> "RunningNormaliser":
        # Moved with the module, but never rounded with it. The count stays on the CPU, where reading it takes no wait.
        kept = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, buffer in kept.items():
            setattr(self, name, buffer if name == "count" else buffer.to(getattr(self, name).device))
        return self
