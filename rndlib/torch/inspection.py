"""Properties of two modules that can be read off them: architecture, shared weights, and the laws of their weights."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor, nn

from rndlib.network import MLP
from rndlib.torch.nature import Affine, NatureCNN
from rndlib.torch.network import NTKMLP, Bodies

CHANCE = 1e-6
"""Significance level at which two tensors are said to have different distributions."""

_PLAIN = (bool, int, float, str, tuple, MLP, type(None))
_AFFINE = (nn.Linear, nn.modules.conv._ConvNd)
_OURS = (nn.Linear, NTKMLP, Affine, nn.ParameterList)
_BATCHED = (nn.modules.batchnorm._BatchNorm,)
_RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)
_OF_ONE = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.instancenorm._InstanceNorm)
_NOT_AT_THE_END = ("torch.nn.modules.activation", "torch.nn.modules.normalization", "torch.nn.modules.instancenorm")


def shared(predictor: nn.Module, target: nn.Module) -> tuple[list[str], list[str]]:
    """Sentences on the weights that both modules have, by memory or by value: trainable ones, and frozen ones."""
    targets = dict(target.named_parameters())
    owned = {g.untyped_storage().data_ptr() for g in targets.values()}
    training, frozen = [], []
    for name, p in predictor.named_parameters():
        if p.untyped_storage().data_ptr() in owned:
            how = "is the target's too"
        elif name in targets and _random(p) and torch.equal(p, targets[name].to(p)):
            how = "has the values of the target's (a copy, or the same seed)"
        else:
            continue
        (training if p.requires_grad else frozen).append(f"{name!r} {how}")
    return (
        [f"the two are not independent: {', '.join(training)}"] if training else [],
        [f"frozen in both, so all members of the ensemble share them: {', '.join(frozen)}"] if frozen else [],
    )


def not_functions(predictor: nn.Module, target: nn.Module) -> list[str]:
    """Sentences on layers that are not functions of one observation: random ones, and those that mix a batch."""
    layers, sentences = [*predictor.modules(), *target.modules()], []
    if mixing := _kinds(layers, lambda m: isinstance(m, _BATCHED) or getattr(m, "track_running_stats", False)):
        sentences.append(f"{mixing} makes the output depend on the rest of the batch")
    if random := _kinds(layers, lambda m: isinstance(m, _RANDOM) and getattr(m, "p", 1) > 0):
        sentences.append(f"{random} adds noise to the error")
    ends = [_end(module) for module in (predictor, target)]
    if nonlinear := _kinds(ends, lambda m: type(m).__module__ in _NOT_AT_THE_END):
        sentences.append(
            f"{nonlinear} at the end keeps the outputs from a Gaussian limit: leave it out, and end in a linear layer"
        )
    return sentences


def differences(predictor: nn.Module, target: nn.Module) -> str:
    """The first difference in architecture between the two, in words; empty if there is none."""
    ours, theirs = ([_settings(m) for m in module.modules()] for module in (predictor, target))
    if ours == theirs:
        return ""
    counts = [sum(map(_has_weights, module.modules())) for module in (predictor, target)]
    if counts[0] != counts[1]:
        return f"{counts[0]} layers with weights against {counts[1]}"
    for one, other in zip(ours, theirs, strict=False):
        for what, value in one.items():
            if value != other[what]:
                return f"{one['layer']} against {other['layer']}" if what == "layer" else f"{what} of {one['layer']}"
    return f"{len(ours)} modules against {len(theirs)}"


def kernel(predictor: nn.Module) -> list[str]:
    """Sentences on the ensemble whose variance the error estimates, for a predictor and a target that are alike."""
    if isinstance(predictor, NTKMLP):
        return [f"the ensemble is rndlib.DeepEnsemble's, of {predictor.net}"]
    if isinstance(predictor, Bodies):
        predictor = next(iter(predictor))
    layers, sentences = list(predictor.modules()), []
    affine = [m for m in layers if isinstance(m, _AFFINE)]
    if affine:
        scales = ", ".join(_law(m.weight) for m in affine)
        sentences.append(
            "the ensemble is one of such networks: in standard parametrisation, at one learning rate, weights count "
            "fan_in / sigma_w^2 times as much in the tangent kernel as in that of Eq. 1, and biases as if sigma_b were "
            f"1; the rate must fall as the width grows (sigma_w = {scales})"
        )
    if scaled := [m for m in layers if isinstance(m, Affine)]:
        settings = f"sigma_w = {scaled[0].sigma_w:.3g}, sigma_b = {scaled[0].sigma_b:.3g}"
        sentences.append(f"the ensemble is one of such networks, in the parametrisation of Eq. 1 with {settings}")
    if any(m.bias is None for m in affine):
        sentences.append("its members have no biases where the predictor has none")
    frozen = [name for name, p in predictor.named_parameters() if not p.requires_grad]
    if frozen:
        sentences.append(f"its members do not train {', '.join(map(repr, frozen))} either")
    if proved := _kinds(layers, _proved):
        groups = ", at a fixed number of groups" if any(isinstance(m, nn.GroupNorm) for m in layers) else ""
        sentences.append(
            f"for {proved}, the limit is that of many channels or units{groups}: the initial networks become Gaussian "
            "(Novak et al., 2019), and training leaves the tangent kernel as it is (Yang, 2020; Yang and Littwin, 2021)"
        )
    if beyond := _kinds(layers, lambda m: _has_weights(m) and not isinstance(m, _OURS) and not _proved(m)):
        sentences.append(
            f"{beyond} is beyond the networks that this library knows: it takes that these, too, have a Gaussian limit "
            "and a constant tangent kernel"
        )
    return sentences


def compare_laws(predictor: nn.Module, target: nn.Module) -> tuple[str, float, str]:
    """Compare mean and variance of each tensor of weights with its counterpart, in modules of one architecture.

    Returns the first difference in words, empty if there is none except a scale; that scale, of the target's output
    layer relative to the predictor's; and the name of that layer.
    """
    pairs = {
        name: tuple(a.detach().double().flatten().cpu().numpy() for a in (p, g))
        for (name, p), g in zip(predictor.named_parameters(), target.parameters(), strict=True)
    }
    output = list(pairs)[-1].rpartition(".")[0]
    apart = {name: why for name, (p, g) in pairs.items() if (why := _apart(p, g))}
    if not apart:
        return "", 1.0, output
    last = {name: pair for name, pair in pairs.items() if name.rpartition(".")[0] == output}
    p, g = max(last.values(), key=lambda pair: pair[0].size)
    if apart.keys() <= last.keys() and p.std() > 0 and g.std() > 0:
        scale = float(g.std() / p.std())
        if not any(_apart(scale * p, g) for p, g in last.values()):
            return "", scale, output or type(predictor).__name__
    name, why = next(iter(apart.items()))
    return f"{name!r} has {why}", 1.0, output


def _apart(p: Float[np.ndarray, " n"], g: Float[np.ndarray, " n"]) -> str:
    """How two tensors differ by an F-test or a t-test at the level `CHANCE`, in words; empty for single numbers."""
    if p.size == 1:
        return ""
    spread = f"standard deviation {p.std():.3g} against {g.std():.3g}"
    mean = f"mean {p.mean():.3g} against {g.mean():.3g}"
    if p.std() == 0 or g.std() == 0:
        if p.std() != g.std():
            return spread
        return mean if p[0] != g[0] else ""
    f, ratio = g.var() / p.var(), stats.f(p.size - 1, g.size - 1)
    if 2 * min(ratio.sf(f), ratio.cdf(f)) < CHANCE:
        return spread
    equal_means = stats.ttest_ind(p, g).pvalue  # pyright: ignore[reportAttributeAccessIssue]
    return mean if equal_means < CHANCE else ""


def _end(module: nn.Module) -> nn.Module:
    """The layer that makes the outputs, as far as a sequence shows it."""
    while isinstance(module, Bodies | nn.Sequential) and len(module):
        module = module[-1]
    return module


def _proved(module: nn.Module) -> bool:
    """Whether theorems beyond the paper's give a layer a Gaussian limit and a constant tangent kernel."""
    convolution = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and module.groups == 1
    return convolution or isinstance(module, (*_OF_ONE, NatureCNN))


def _random(p: Tensor) -> bool:
    return p.numel() > 1 and bool((p != p.flatten()[0]).any())


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _kinds(layers: list[nn.Module], chosen: Callable[[nn.Module], bool]) -> str:
    return ", ".join(sorted({type(m).__name__ for m in layers if chosen(m)}))


def _settings(module: nn.Module) -> dict[str, Any]:
    """Everything about a module's function that can be seen from outside, without its submodules."""
    shown = {name: value for name, value in vars(module).items() if name != "training" and not name.startswith("_")}
    plain = {name: getattr(v, "__code__", v) for name, v in shown.items() if isinstance(v, _PLAIN) or callable(v)}
    return {
        "layer": f"{type(module).__name__}({module.extra_repr()})",
        "class": type(module),
        "shapes": [tuple(p.shape) for p in module.parameters(recurse=False)],
        "attributes": plain,
    }


def _law(weight: Tensor) -> str:
    """sqrt(fan_in) times the standard deviation, and whether the weights are orthogonal."""
    w = weight.detach().double().flatten(1)
    sigma = float(w.std(correction=0)) * sqrt(w.shape[1])
    short = w if len(w) <= w.shape[1] else w.mT
    gram = short @ short.mT
    if len(gram) > 1 and torch.allclose(
        gram, gram[0, 0] * torch.eye(len(gram)).to(gram), atol=1e-4 * float(gram[0, 0])
    ):
        return f"{sigma:.2g} orthogonal"
    return f"{sigma:.2g}"
