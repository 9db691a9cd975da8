"""How a target differs from its predictor before training, and the ratio of error to ensemble variance that follows."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from scipy import stats
from torch import Tensor
from torch.optim import SGD, Optimizer

from rndlib.torch.function import Function, alike

CHANCE = 1e-6
"""Significance level at which tensors are said to have different distributions, or two networks to be correlated."""
_DRAWS, _KERNELS = 64, 4
_ENOUGH = 2**16  # numbers of a tensor, to tell a correlation of 0.03


def difference(u: Function, g: Function, x: Shaped[Tensor, "n *shape"]) -> tuple[str, float]:
    """How g differs from u in more than the scale of its outputs, in words, or "" if it does not; and that scale."""
    if [a.shape for a in u.tensors] != [a.shape for a in g.tensors]:
        return "predictor and target differ in architecture", 1.0
    theirs, swapped, head = g(x), u(x, g.tensors), u.head(x)
    c = float((swapped * theirs).sum() / swapped.square().sum())
    if not alike(theirs, c * swapped, theirs):
        return "the predictor with the target's weights is another function than the target", 1.0
    pairs = [[a.double().flatten().cpu().numpy() for a in pair] for pair in zip(u.tensors, g.tensors, strict=True)]
    apart = [i for i, (p, q) in enumerate(pairs) if _apart(p, q)]
    p, q = pairs[max(head, key=lambda i: len(pairs[i][0]))]
    scale = float(q.std() / p.std()) if apart else 1.0
    if set(apart) <= set(head) and not any(_apart(scale * pairs[i][0], pairs[i][1]) for i in head):
        c = abs(c) * scale
        return "", 1.0 if abs(c - 1) < 1e-3 else c
    laws = " against ".join(f"{a.mean():.3g} and {a.std():.3g}" for a in pairs[apart[0]])
    return f"the initial laws differ: {u.names[apart[0]]!r} has mean and deviation {laws}", 1.0


def correlated(u: Function, g: Function) -> list[str]:
    """Names of u's random tensors that are correlated with, but not equal to, those in their place in g."""
    both = zip(u.names, u.tensors, g.tensors, u.drawn, g.drawn, strict=False)
    pairs = [(name, p, q) for name, p, q, *drawn in both if all(drawn) and p.shape == q.shape and not p.equal(q)]
    bound = stats.norm.isf(CHANCE / 2 / max(1, len(pairs)))  # so that the level is that of all tensors together
    return [repr(name) for name, p, q in pairs if abs(_agreement(p, q)) > bound]


def factors(
    u: Function, g: Function, x: Shaped[Tensor, "n *shape"], optimizer: Optimizer | None
) -> tuple[float, float]:
    """The range of the ratio at every other observation, after training on the rest (`rndlib.theory.mismatch`)."""
    random, n = torch.Generator().manual_seed(0), len(x[::2])
    x = torch.cat([x[::2], x[1::2]])
    groups = optimizer.param_groups if isinstance(optimizer, SGD) else []
    rates = {p: float(group["lr"]) for group in groups for p in group["params"]}
    scales = [rates.get(p, 1.0) ** 0.5 for p in u.module.parameters() if p.requires_grad]
    kernel = torch.zeros(len(x), len(x), dtype=torch.float64, device=x.device)
    for _ in range(_KERNELS):
        tensors = u.redrawn(random)
        trained = [a.requires_grad_() for a, trained in zip(tensors, u.trained, strict=True) if trained]
        with torch.enable_grad():
            outputs = u(x, tensors)[:, 0].unbind()
        slopes = [torch.autograd.grad(f, trained, retain_graph=True, materialize_grads=True) for f in outputs]
        J = torch.stack([torch.cat([s * a.flatten() for s, a in zip(scales, each, strict=True)]) for each in slopes])
        kernel += J @ J.mT
    jitter = 1e-6 * kernel.diagonal().mean() * torch.eye(n).to(kernel)
    gain = torch.linalg.solve(kernel[:n, :n] + jitter, kernel[:n, n:])

    def left(f: Function) -> Tensor:
        outputs = torch.stack([f(x, f.redrawn(random)) for _ in range(_DRAWS)]).to(kernel)
        return (outputs[:, n:] - gain.mT @ outputs[:, :n]).square().mean((0, 2))

    ratio = (1 + left(g) / left(u)) / 2
    return float(ratio.min()), float(ratio.max())


def _apart(p: Float[np.ndarray, " n"], q: Float[np.ndarray, " n"]) -> bool:
    """Whether two tensors differ by an F-test of variances or a t-test of means at the level `CHANCE`."""
    if len(p) < 2:
        return False
    if not (np.ptp(p) and np.ptp(q)):
        return not np.array_equal(p, q)
    # A variance of numbers of kurtosis k scatters as a normal one's of 2 / (k - 1) times as many (Box, 1953).
    kurtosis = stats.kurtosis(np.concatenate([p - p.mean(), q - q.mean()]), fisher=False)
    freedom = (len(p) - 1) * 2 / max(2.0, kurtosis - 1)
    below = stats.f(freedom, freedom).cdf(q.var() / p.var())
    means: Any = stats.ttest_ind(p, q)
    return bool(min(2 * below, 2 * (1 - below), means.pvalue) < CHANCE)


def _agreement(p: Tensor, q: Tensor) -> float:
    """The correlation r of the signs of n pairs of numbers about their medians, as r sqrt(n), N(0, 1) if independent.

    Signs, unlike products, have this law for all distributions; and as |r| <= 1, few numbers are never significant.
    Left out are numbers that come twice: patterns of every draw, as an identity or an LSTM's gates, and tied weights.
    """
    pair = [a.flatten()[:_ENOUGH].cpu().double() for a in (p, q)]
    each = [a.unique(return_inverse=True, return_counts=True) for a in pair]
    once = torch.stack([counts[values] == 1 for _, values, counts in each]).all(0)
    signs = [(a[once] - a[once].median()).sign() for a in pair]
    return float((signs[0] * signs[1]).sum() / once.sum().clamp(min=1) ** 0.5)
