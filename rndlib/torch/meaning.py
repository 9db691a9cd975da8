"""The meaning of the error between a trained predictor and a target, judged by what the two modules do."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from scipy import stats
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, NAdam, Optimizer, RAdam, RMSprop, Rprop

CHANCE = 1e-6
"""Significance level at which two tensors are said to have different distributions."""

_PROBES, _DRAWS, _KERNELS = 16, 64, 4
_ADAPTIVE = Adadelta, Adafactor, Adagrad, Adam, Adamax, NAdam, RAdam, RMSprop, Rprop
"""Optimisers that divide by the size of gradients, those derived from them, such as AdamW, included."""

Tensors = list[Tensor]
Verdict = Literal["ensemble variance", "scaled ensemble variance", "biased", "no ensemble variance", "unknown"]


@dataclass(frozen=True)
class Meaning:
    """What half the mean squared error of a predictor and a target is, in the limit of width and of training.

    verdict: "ensemble variance", "scaled ensemble variance", "no ensemble variance", or "unknown"; or "biased", if the
        optimiser is known to train the predictor in another way than gradient descent.
    factor: The expected half mean squared error over the variance of an ensemble of predictors, before training and
        after gradient descent: 1, (1 + c^2) / 2 if the target's outputs are c times larger, or None if the modules
        have no such number, or it is unknown.
    reasons: The reasons, one sentence each.
    factors: Where the ratio depends on the observation, its smallest and largest value at the observations tried.

    >>> from torch import nn
    >>> from rndlib.torch import explain
    >>> meaning = explain(nn.Linear(4, 8), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)))
    >>> meaning.verdict, meaning.factor, len(meaning.reasons)
    ('no ensemble variance', None, 1)
    """

    verdict: Verdict
    factor: float | None
    reasons: tuple[str, ...]
    factors: tuple[float, float] | None = None

    def __str__(self) -> str:
        number = "no" if self.factor is None else "an" if self.factor == 1 else f"{self.factor:.3g} times an"
        verb = {"unknown": "may not be an", "biased": f"is biased as {number}"}.get(self.verdict, f"is {number}")
        return f"half the mean squared error {verb} ensemble's variance: {'; '.join(self.reasons)}"


def explain(
    predictor: nn.Module,
    target: nn.Module,
    obs: Shaped[Tensor, "n *shape"] | None = None,
    optimizer: Optimizer | None = None,
) -> Meaning:
    """Whether half the mean squared error of `predictor`, trained to match `target`, is an ensemble's variance.

    It is, if the two are independent draws from one initial law of one architecture. Then u_0 - g has twice the
    covariance of u_0, and training transforms it as it transforms a member of an ensemble: of such networks, in their
    parametrisation. So the half is exact in the limit of many units or channels (Novak et al., 2019; Yang and Littwin,
    2021), with gradient flow or full-batch gradient descent at one learning rate for all weights. If the target's
    outputs are c times larger, the factor is (1 + c^2) / 2. If the two differ otherwise, it depends on the observation
    (`rndlib.theory.mismatch`).

    Call it before training, as it reads initial laws off the weights. It runs both modules on observations, leaves them
    as they are, and tries whether the outputs are a function of one observation; whether they are affine in a last
    layer of random weights, which the Gaussian limit needs; whether the predictor with the target's weights is the
    target, up to a number; and whether the weights are independent, of the same means and variances (level 1e-6).

    Parameters
    ----------
    predictor, target: Modules that map (n, *shape) to (n, outputs).
    obs: Some 16 observations as the modules see them, normalised for instance. None for normal numbers, if the first
        matrix of the predictor's weights says how many. Where the ratio depends on the observation, `factors` is its
        range at every other one of them, after training on the rest; an estimate from redrawn weights.
    optimizer: That of the predictor; None for gradient descent.

    Raises
    ------
    ValueError: An argument is not a module, or has no weights yet.

    >>> from torch import nn
    >>> from rndlib.torch import explain
    >>> def network(*more):
    ...     return nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 16), *more)
    >>> explain(network(), network()).factor
    1.0
    >>> explain(network(nn.ReLU()), network(nn.ReLU())).verdict
    'no ensemble variance'
    """
    for name, module in (("predictor", predictor), ("target", target)):
        if not isinstance(module, nn.Module):
            raise ValueError(f"{name} is {type(module).__name__}: give a torch.nn.Module")
        if any(isinstance(p, nn.UninitializedParameter) for p in module.parameters()):
            raise ValueError(f"{name} has lazy layers without weights yet: call it on an observation first")
    weights = [*predictor.parameters()]
    sizes = [w.shape[1] for w in weights if w.ndim == 2]
    if obs is None and not sizes:
        return Meaning("unknown", None, ("the modules' observations are not known: give obs",))
    x = probes((sizes[0],)) if obs is None else obs
    if len(x) < 2:
        raise ValueError(f"obs has {len(x)} rows: give two or more observations, such as 16")
    if weights:
        x = x.to(weights[0].device, weights[0].dtype if x.is_floating_point() else None)
    # What is compiled runs as it is written: compiling would take far longer, and so would loading the compiler.
    as_written = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    with torch.no_grad(), torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), as_written:
        return _trained_by(optimizer, _judged(_Function(predictor, optimizer), _Function(target), x))


def probes(shape: tuple[int, ...], whole: bool = False) -> Tensor:
    """Observations to try a network on: normal numbers, or zeros and ones, which may be pixels, tokens or truths."""
    random = torch.Generator().manual_seed(0)
    normal = torch.randn(_PROBES, *shape, generator=random, device="cpu", dtype=torch.float64)
    return (normal > 0).double() if whole else normal


class _Function:
    """A module as a function of its tensors, which are its weights and buffers. It never changes the module.

    `drawn` says which tensors are random, and `rates` are their learning rates by gradient descent.
    """

    def __init__(self, module: nn.Module, optimizer: Optimizer | None = None):
        named = [*module.named_parameters(), *module.named_buffers()]
        self.module, self.names, self.tensors = module, [name for name, _ in named], [a.detach() for _, a in named]
        self.trained = [a.requires_grad for _, a in named]
        # Not by a deviation, which rounding leaves to equal numbers.
        self.drawn = [isinstance(a, nn.Parameter) and a.numel() > 1 and bool(a.min() < a.max()) for _, a in named]
        groups = optimizer.param_groups if isinstance(optimizer, SGD) else []
        rates = {p: float(group["lr"]) for group in groups for p in group["params"]}
        self.rates = [rates.get(a, 1.0) for _, a in named]

    def __call__(self, x: Tensor, tensors: Tensors | None = None) -> Any:
        given = self.tensors if tensors is None else tensors
        return functional_call(self.module, {n: a.clone() for n, a in zip(self.names, given, strict=True)}, (x,))

    def changed(self, x: Tensor) -> list[str]:
        """Names of the buffers that a call changes."""
        buffers = {name: a.clone() for name, a in zip(self.names, self.tensors, strict=True)}
        functional_call(self.module, buffers, (x,))
        return [repr(name) for name, a in zip(self.names, self.tensors, strict=True) if not buffers[name].equal(a)]

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

    def head(self, x: Tensor, at: Tensor) -> list[int]:
        """The last random tensors in which the outputs `at` are affine together; empty if they leave some of these."""
        head: list[int] = []
        for i in reversed(range(len(self.tensors))):
            if self.drawn[i]:
                # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
                turned, without = (
                    self(x, [factor * a if j in (i, *head) else a for j, a in enumerate(self.tensors)])
                    for factor in (-2.0, 0.0)
                )
                if _alike(turned + 2 * at, 3 * without, at):
                    head.append(i)
                    if _alike(without, without[:1, :1], at):
                        return head
        return []


def _judged(u: _Function, g: _Function, x: Tensor) -> Meaning:
    against = []
    if not any(u.trained):
        against.append("the predictor has no weights that train, so that its error stays what it is")
    shared = _shared(u, g)
    if common := [repr(name) for name, trained in shared if trained]:
        against.append(f"the two are not independent: the target has the predictor's {', '.join(common)}")
    if against:
        return Meaning("no ensemble variance", None, tuple(against))
    try:
        both = [(f(x), f(x), f(x[: len(x) // 2])) for f in (u, g)]
    except Exception as error:  # of the user's code, at observations of ours
        failed = f"the modules fail on observations {tuple(x.shape)} ({type(error).__name__}: {error})"
        return Meaning("unknown", None, (f"{failed}: give obs",))
    (ours, *_), (theirs, *_) = both
    shapes = [tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__ for f in (ours, theirs)]
    if shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != len(x):
        returned = f"{shapes[0]} and {shapes[1]} for {len(x)} observations"
        return Meaning("no ensemble variance", None, (f"the modules return {returned}, not both (n, outputs)",))
    random, heads = torch.Generator().manual_seed(0), []
    for name, f, (at, again, part) in zip(("predictor", "target"), (u, g), both, strict=True):
        if not _alike(again, at, at):
            against.append(f"the {name}'s outputs differ from call to call: what is random adds noise to the error")
        elif not _alike(part, at[: len(part)], at):
            against.append(f"the {name}'s outputs depend on the rest of the batch")
        elif changed := f.changed(x):
            against.append(f"each call changes the {name}'s {', '.join(changed)}: leave that out, or call .eval()")
        elif not at.any():
            against.append(f"the {name}'s outputs start at zero: draw its last layer at random")
        elif head := f.head(x, at):
            heads.append(head)
        else:
            end = f"the {name}'s outputs are not affine in a last layer of random weights"
            if min(float(f(x, f.redrawn(random)).min()) for _ in range(_DRAWS)) < 0:
                return Meaning("unknown", None, (f"{end}: whether they have a Gaussian limit cannot be told",))
            against.append(f"{end}, and never negative, so that they have no Gaussian limit: end in a linear layer")
    if against:
        return Meaning("no ensemble variance", None, tuple(against))
    differ, c = _compared(u, g, x, theirs, heads[0])
    if differ:
        low, high = factors = _factors(u, g, x)
        between = f"the ratio depends on the observation, here from about {low:.2g} to {high:.2g}"
        return Meaning("no ensemble variance", None, (f"{differ}: {between}",), factors)
    reasons = ["predictor and target are independent draws from one law of one architecture, as far as trials show"]
    if c != 1:
        reasons = [f"the target's outputs are about c = {c:.3g} times the predictor's: the factor is (1 + c^2) / 2"]
    if frozen := [repr(n) for n, drawn, trained in zip(u.names, u.drawn, u.trained, strict=True) if drawn > trained]:
        share = ", and share what the two do" * bool(shared)
        reasons.append(f"the ensemble's members do not train {', '.join(frozen)} either{share}")
    verdict = "ensemble variance" if c == 1 else "scaled ensemble variance"
    return Meaning(verdict, (1 + c**2) / 2, tuple(reasons))


def _trained_by(optimizer: Optimizer | None, meaning: Meaning) -> Meaning:
    """What is left of an ensemble's variance by an optimiser.

    Gradient descent, momentum included, is a linear map of u - g as long as training is lazy. The same map then takes a
    member of an ensemble from its labels.
    """
    kind, verdict = type(optimizer).__name__, "biased"
    if meaning.factor is None or optimizer is None:
        return meaning
    if isinstance(optimizer, _ADAPTIVE):
        reason = f"{kind} divides by the size of gradients, and so trains with a tangent kernel of its own"
    elif not isinstance(optimizer, SGD):
        verdict, reason = "unknown", f"whether {kind} trains as gradient descent does cannot be told"
    elif any(group["weight_decay"] for group in optimizer.param_groups):
        reason = "weight decay pulls the predictor to zero, and not to the target"
    else:
        return meaning
    return replace(meaning, verdict=verdict, reasons=(*meaning.reasons, reason))


def _shared(u: _Function, g: _Function) -> list[tuple[str, bool]]:
    """Names of the weights of u that g has too, in the same memory or with the same values, and whether they train."""

    def there(p: Tensor, drawn: bool) -> bool:
        if any(a.data_ptr() == p.data_ptr() for a in g.tensors):
            return True
        # A pattern of two numbers, such as an identity or the biases of an LSTM's gates, starts the same in every draw.
        return drawn and any(a.shape == p.shape and a.equal(p) for a in g.tensors) and len(p.unique()) > 2

    each = zip(u.names, u.tensors, u.trained, u.drawn, strict=True)
    return [(name, trained) for name, p, trained, drawn in each if there(p, drawn)]


def _compared(u: _Function, g: _Function, x: Tensor, theirs: Tensor, head: list[int]) -> tuple[str, float]:
    """How the target differs from the predictor in more than the scale of its outputs, in words; and that scale."""
    if [a.shape for a in u.tensors] != [a.shape for a in g.tensors]:
        return "predictor and target differ in architecture", 1.0
    swapped = u(x, g.tensors)
    c = float((swapped * theirs).sum() / swapped.square().sum())
    if not _alike(theirs, c * swapped, theirs):
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


def _apart(p: Float[np.ndarray, " n"], q: Float[np.ndarray, " n"]) -> bool:
    """Whether two tensors differ by an F-test of variances or a t-test of means at the level `CHANCE`."""
    if len(p) < 2:
        return False
    if not (p.std() and q.std()):
        return bool(p.std() != q.std() or p[0] != q[0])
    # A variance of numbers of kurtosis k scatters as a normal one's of 2 / (k - 1) times as many (Box, 1953).
    kurtosis = stats.kurtosis(np.concatenate([p - p.mean(), q - q.mean()]), fisher=False)
    freedom = (len(p) - 1) * min(1.0, 2 / (kurtosis - 1))
    below = stats.f(freedom, freedom).cdf(q.var() / p.var())
    means: Any = stats.ttest_ind(p, q)
    return bool(min(2 * below, 2 * (1 - below), means.pvalue) < CHANCE)


def _factors(u: _Function, g: _Function, x: Tensor) -> tuple[float, float]:
    """The range of the ratio at every other observation, after training on the rest (`rndlib.theory.mismatch`)."""
    random, n = torch.Generator().manual_seed(0), len(x[::2])
    x = torch.cat([x[::2], x[1::2]])
    kernel = torch.zeros(len(x), len(x), dtype=torch.float64, device=x.device)
    for _ in range(_KERNELS):
        tensors = u.redrawn(random)
        trained = [a.requires_grad_() for a, trained in zip(tensors, u.trained, strict=True) if trained]
        with torch.enable_grad():
            outputs = u(x, tensors)[:, 0].unbind()
        slopes = [torch.autograd.grad(f, trained, retain_graph=True, materialize_grads=True) for f in outputs]
        scales = [rate**0.5 for rate, trained in zip(u.rates, u.trained, strict=True) if trained]
        J = torch.stack([torch.cat([s * a.flatten() for s, a in zip(scales, each, strict=True)]) for each in slopes])
        kernel += J @ J.mT
    jitter = 1e-6 * kernel.diagonal().mean() * torch.eye(n).to(kernel)
    gain = torch.linalg.solve(kernel[:n, :n] + jitter, kernel[:n, n:])

    def left(f: _Function) -> Tensor:
        outputs = torch.stack([f(x, f.redrawn(random)) for _ in range(_DRAWS)]).to(kernel)
        return (outputs[:, n:] - gain.mT @ outputs[:, :n]).square().mean((0, 2))

    ratio = (1 + left(g) / left(u)) / 2
    return float(ratio.min()), float(ratio.max())


def _alike(a: Tensor, b: Tensor, scale: Tensor) -> bool:
    """Whether two tensors are the same but for rounding, relative to a third."""
    return bool((a - b).abs().max() <= torch.finfo(a.dtype).eps ** 0.5 * scale.abs().max())
