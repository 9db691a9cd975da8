"""A PyTorch module as a function of its tensors, which trials replace."""

from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.func import functional_call

Tensors = list[Tensor]


class Function:
    """A module as a function of its weights and buffers. It never changes the module.

    `trained` says which of these `tensors` train, and `drawn` which are random.
    """

    def __init__(self, module: nn.Module):
        named = [*module.named_parameters(), *module.named_buffers()]
        self.module, self.names, self.tensors = module, [name for name, _ in named], [a.detach() for _, a in named]
        self.trained = [a.requires_grad for _, a in named]
        # Not by a deviation, which rounding leaves to equal numbers.
        self.drawn = [isinstance(a, nn.Parameter) and a.numel() > 1 and bool(a.min() < a.max()) for _, a in named]

    def __call__(self, x: Shaped[Tensor, "n *shape"], tensors: Tensors | None = None) -> Any:
        given = self.tensors if tensors is None else tensors
        return functional_call(self.module, {n: a.clone() for n, a in zip(self.names, given, strict=True)}, (x,))

    def changed(self, x: Shaped[Tensor, "n *shape"]) -> list[str]:
        """Names of the buffers that a call changes."""
        buffers = {name: a.clone() for name, a in zip(self.names, self.tensors, strict=True)}
        functional_call(self.module, buffers, (x,))
        return [repr(name) for name, a in zip(self.names, self.tensors, strict=True) if not buffers[name].equal(a)]

    def shared(self, other: "Function") -> list[tuple[str, bool]]:
        """Names of the weights that another has too, in the same memory or of the same values; and if they train."""
        found = []
        for name, p, trained, drawn in zip(self.names, self.tensors, self.trained, self.drawn, strict=True):
            equal = drawn and any(a.shape == p.shape and a.equal(p) for a in other.tensors)
            # Two numbers are a pattern, as an identity or an LSTM's biases, that starts the same in every draw.
            if any(a.data_ptr() == p.data_ptr() for a in other.tensors) or (equal and len(p.unique()) > 2):
                found.append((name, trained))
        return found

    def redrawn(self, random: torch.Generator) -> Tensors:
        """Weights of the same variances: those of each tensor in another order, with other signs about their mean."""
        tensors = []
        for a, drawn in zip(self.tensors, self.drawn, strict=True):
            if drawn:
                order = torch.randperm(a.numel(), generator=random, device="cpu").to(a.device)
                signs = torch.randint(0, 2, a.shape, generator=random, device="cpu").to(a) * 2 - 1
                mean = a.mean() * (a.mean().abs() > 5 * a.std() / a.numel() ** 0.5)  # or 0, if it is so by chance
                a = mean + signs * (a - mean).flatten()[order].view(a.shape)
            tensors.append(a)
        return tensors

    def head(self, x: Shaped[Tensor, "n *shape"]) -> list[int]:
        """The last random tensors in which the outputs are affine together; empty if they leave some of these."""
        at, head = self(x), []
        for i in reversed(range(len(self.tensors))):
            if self.drawn[i]:
                # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
                turned, without = (
                    self(x, [factor * a if j in (i, *head) else a for j, a in enumerate(self.tensors)])
                    for factor in (-2.0, 0.0)
                )
                if alike(turned + 2 * at, 3 * without, at):
                    head.append(i)
                    if alike(without, without[:1, :1], at):
                        return head
        return []


def alike(a: Tensor, b: Tensor, scale: Tensor) -> bool:
    """Whether two tensors are the same but for rounding, relative to a third."""
    return bool((a - b).abs().max() <= torch.finfo(a.dtype).eps ** 0.5 * scale.abs().max())


def misfit(ours: Any, theirs: Any, rows: int) -> str:
    """What two modules return for some rows, in words, unless both return (rows, outputs)."""
    shapes = [tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__ for f in (ours, theirs)]
    fit = shapes[0] == shapes[1] and len(shapes[0]) == 2 and shapes[0][0] == rows
    return "" if fit else f"return {shapes[0]} and {shapes[1]} for {rows} observations"
