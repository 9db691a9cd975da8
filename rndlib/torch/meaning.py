"""The meaning of the error between a trained predictor and a target, judged by what the two modules do."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.optim import SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, NAdam, Optimizer, RAdam, RMSprop, Rprop

from rndlib.torch.function import Function, alike, misfit
from rndlib.torch.mismatch import correlated, difference, factors
from rndlib.torch.observations import read

_PROBES, _DRAWS = 16, 64
_ADAPTIVE = Adadelta, Adafactor, Adagrad, Adam, Adamax, NAdam, RAdam, RMSprop, Rprop
"""Optimisers that divide by the size of gradients, those derived from them, such as AdamW, included."""

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
    obs: Any = None,
    optimizer: Optimizer | None = None,
) -> Meaning:
    """Whether half the mean squared error of `predictor`, trained to match `target`, is an ensemble's variance.

    It is, if the two are independent draws from the same initial distribution of one architecture. Then u_0 - g has
    twice the covariance of u_0, and training transforms it as it transforms a member of an ensemble: of such networks,
    in their parametrisation. So the half is exact in the limit of many units or channels (Novak et al., 2019; Yang and
    Littwin, 2021), with gradient flow or full-batch gradient descent at one learning rate for all weights. If the
    target's outputs are c times larger, the factor is (1 + c^2) / 2. If the two differ otherwise, it depends on the
    observation (`rndlib.theory.mismatch`).

    Call it before training, as it reads initial laws off the weights. It runs both modules on observations, leaves them
    as they are, and tries whether the outputs are a function of one observation; whether they are affine in a last
    layer of random weights, which the Gaussian limit needs; whether the predictor with the target's weights is the
    target, up to a number; and whether weights in the same place are uncorrelated, and of the same means and variances
    (level 1e-6).

    Parameters
    ----------
    predictor, target: Modules that map (n, *shape) to (n, outputs).
    obs: Some 16 observations (n, *shape) as the modules see them, normalised for instance, in a tensor or an array.
        None for normal numbers, if the first matrix of the predictor's weights says how many. Where the ratio depends
        on the observation, `factors` is its range at every other one of them, after training on the rest; an estimate
        from redrawn weights.
    optimizer: That of the predictor; None for gradient descent.

    Raises
    ------
    ValueError: A module is none, has no weights yet, or does not return floating-point numbers; or `obs` has no two
        finite observations.

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
        if any(a.is_meta for a in (*module.parameters(), *module.buffers())):
            raise ValueError(f"{name} is on the device 'meta', which holds no numbers: make it on another")
    weights = [*predictor.parameters()]
    sizes = [w.shape[1] for w in weights if w.ndim == 2]
    if obs is None and not sizes:
        return Meaning("unknown", None, ("the modules' observations are not known: give obs",))
    x = probes((sizes[0],)) if obs is None else read(obs, np.shape(obs)[1:])[0]
    if x.is_meta:
        raise ValueError("obs is on the device 'meta', which holds no numbers: make it on another")
    if len(x) < 2:
        raise ValueError(f"obs has {len(x)} rows: give two or more observations, such as 16")
    if weights:
        x = x.to(weights[0].device, weights[0].dtype if x.is_floating_point() else None)
    # What is compiled runs as it is written: compiling would take far longer, and so would loading the compiler.
    as_written = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    with torch.no_grad(), torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), as_written:
        return _trained_by(optimizer, _judged(Function(predictor), Function(target), x, optimizer))


def but(meaning: Meaning, verdict: Verdict, reason: str) -> Meaning:
    """What training makes of a meaning, and why; to what has no factor, no training gives one."""
    return meaning if meaning.factor is None else replace(meaning, verdict=verdict, reasons=(*meaning.reasons, reason))


def probes(shape: tuple[int, ...], whole: bool = False) -> Tensor:
    """Observations to try a network on: normal numbers, or zeros and ones, which may be pixels, tokens or truths."""
    random = torch.Generator().manual_seed(0)
    normal = torch.randn(_PROBES, *shape, generator=random, device="cpu", dtype=torch.float64)
    return (normal > 0).double() if whole else normal


def _judged(u: Function, g: Function, x: Shaped[Tensor, "n *shape"], optimizer: Optimizer | None) -> Meaning:
    def none(*reasons: str, factors: tuple[float, float] | None = None) -> Meaning:
        return Meaning("no ensemble variance", None, reasons, factors)

    both_have, against, unknown = u.shared(g), [], []
    if not any(u.trained):
        against.append("the predictor has no weights that train, so that its error stays what it is")
    if common := [repr(name) for name, trained in both_have if trained]:
        against.append(f"the two are not independent: the target has the predictor's {', '.join(common)}")
    elif related := correlated(u, g):
        against.append(f"the two are not independent: correlated with the predictor's are {', '.join(related)}")
    if against:
        return none(*against)
    try:
        both = [(f(x), f(x), f(x[: len(x) // 2])) for f in (u, g)]
    except Exception as error:  # of the user's code, at observations of ours
        failed = f"the modules fail on observations {tuple(x.shape)} ({type(error).__name__}: {error})"
        return Meaning("unknown", None, (f"{failed}: give observations that they read",))
    for name, (outputs, *_) in zip(("predictor", "target"), both, strict=True):
        if isinstance(outputs, Tensor) and not outputs.is_floating_point():
            raise ValueError(f"{name} returns {outputs.dtype}: give a module that returns floating-point numbers")
    if wrong := misfit(both[0][0], both[1][0], len(x)):
        return none(f"the modules {wrong}, not both (n, outputs)")
    random = torch.Generator().manual_seed(0)
    for name, f, (at, again, part) in zip(("predictor", "target"), (u, g), both, strict=True):
        if not alike(again, at, at):
            against.append(f"the {name}'s outputs differ from call to call: what is random adds noise to the error")
        elif not alike(part, at[: len(part)], at):
            against.append(f"the {name}'s outputs depend on the rest of the batch")
        elif changed := f.changed(x):
            against.append(f"each call changes the {name}'s {', '.join(changed)}: leave that out, or call .eval()")
        elif not at.any():
            against.append(f"the {name}'s outputs start at zero: draw its last layer at random")
        elif not f.head(x):
            end = f"the {name}'s outputs are not affine in a last layer of random weights"
            if all(f(x, f.redrawn(random)).min() >= 0 for _ in range(_DRAWS)):
                against.append(f"{end}, and never negative, so that they have no Gaussian limit: end in a linear layer")
            else:
                unknown.append(f"{end}: whether they have a Gaussian limit cannot be told")
    if against:
        return none(*against)
    if unknown:
        return Meaning("unknown", None, tuple(unknown))
    different, c = difference(u, g, x)
    if different:
        low, high = found = factors(u, g, x, optimizer)
        between = f"the ratio depends on the observation, here from about {low:.2g} to {high:.2g}"
        return none(f"{different}: {between}", factors=found)
    same = "predictor and target are independent draws from the same initial distribution of one architecture"
    reasons = [f"{same}, as far as tests show"]
    if c != 1:
        reasons = [f"the target's outputs are about c = {c:.3g} times the predictor's: the factor is (1 + c^2) / 2"]
    if frozen := [repr(n) for n, drawn, trained in zip(u.names, u.drawn, u.trained, strict=True) if drawn > trained]:
        share = ", and share what the two do" * bool(both_have)
        reasons.append(f"the ensemble's members do not train {', '.join(frozen)} either{share}")
    verdict = "ensemble variance" if c == 1 else "scaled ensemble variance"
    return Meaning(verdict, (1 + c**2) / 2, tuple(reasons))


def _trained_by(optimizer: Optimizer | None, meaning: Meaning) -> Meaning:
    """What is left of an ensemble's variance by an optimiser.

    Gradient descent, momentum included, is a linear map of u - g as long as training is lazy. The same map then takes a
    member of an ensemble from its labels.
    """
    kind = type(optimizer).__name__
    if isinstance(optimizer, _ADAPTIVE):
        own = "divides by the size of gradients, and so trains with a tangent kernel of its own"
        return but(meaning, "biased", f"{kind} {own}")
    if not isinstance(optimizer, SGD | None):
        return but(meaning, "unknown", f"whether {kind} trains as gradient descent does cannot be told")
    if optimizer and any(group["weight_decay"] for group in optimizer.param_groups):
        return but(meaning, "biased", "weight decay pulls the predictor to zero, and not to the target")
    return meaning
