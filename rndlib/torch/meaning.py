"""The meaning of the error between a trained predictor and a target, judged from the two modules."""

from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from rndlib.torch import inspection
from rndlib.torch.network import NTKMLP

Verdict = Literal["ensemble variance", "scaled ensemble variance", "no ensemble variance"]


@dataclass(frozen=True)
class Meaning:
    """What half the mean squared error of a predictor and a target is, in the limit of width and of training.

    verdict: "ensemble variance", "scaled ensemble variance" or "no ensemble variance".
    factor: The expected half mean squared error over the variance of an ensemble of predictors: 1, (1 + c^2) / 2 if the
        target's output layer is c times larger, or None if the ratio depends on the observation.
    reasons: The reasons, one sentence each.

    >>> from torch import nn
    >>> from rndlib.torch import explain
    >>> meaning = explain(nn.Linear(4, 8), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)))
    >>> meaning.verdict, meaning.factor, len(meaning.reasons)
    ('no ensemble variance', None, 1)
    """

    verdict: Verdict
    factor: float | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        number = "no" if self.factor is None else "an" if self.factor == 1 else f"{self.factor:.3g} times an"
        return f"half the mean squared error is {number} ensemble's variance: {'; '.join(self.reasons)}"


def explain(predictor: nn.Module, target: nn.Module) -> Meaning:
    """Whether half the mean squared error of `predictor`, trained to match `target`, is an ensemble's variance.

    Call it before training, because it reads the initial laws off the weights.

    It is, if predictor and target are independent draws from one initial law of one architecture. Then u_0 - g has
    twice the covariance of u_0, and training transforms it as it transforms a member of an ensemble. So the half is
    exact in the limit of width, with gradient flow or full-batch gradient descent at one learning rate for all weights.
    The parametrisation and the initial law may differ from the paper's; they determine the ensemble's kernel. If the
    laws differ by the scale c of the target's output layer, the factor is (1 + c^2) / 2; otherwise there is none
    (`rndlib.mismatch`).

    That limit is one of many units, and with convolutions and layer or group normalisation one of many channels. Batch
    normalisation and dropout have none: with them the error is not a function of one observation.

    `explain` compares the types, settings and plain attributes of all submodules, and the shapes, means and variances
    of all weights, at a significance level of 1e-6 (for an `NTKMLP`, its settings instead). It looks for shared
    weights, for random layers, for layers that mix the observations of a batch, and for a nonlinearity at the end. It
    does not see what your own `forward` does.

    >>> from torch import nn
    >>> from rndlib.torch import explain
    >>> def network(*sizes):
    ...     return nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 16), *sizes)
    >>> explain(network(), network()).factor
    1.0
    >>> explain(network(nn.ReLU(), nn.Linear(16, 16)), network()).verdict
    'no ensemble variance'
    """
    for name, module in (("predictor", predictor), ("target", target)):
        if not isinstance(module, nn.Module):
            raise ValueError(f"{name} is {type(module).__name__}: give a torch.nn.Module")
        if any(isinstance(p, nn.UninitializedParameter) for p in module.parameters()):
            raise ValueError(f"{name} has lazy layers without weights yet: call it on an observation first")
    training, frozen = inspection.shared(predictor, target)
    against = [*training, *inspection.not_functions(predictor, target)]
    if not any(p.requires_grad for p in predictor.parameters()):
        against.append("the predictor has no weights that train, so that its error stays what it is")
    if differ := _differ(predictor, target):
        against.append(
            f"predictor and target differ in architecture ({differ}): their prior kernels differ in general, and no "
            "one factor serves all observations"
        )
    if against:
        return Meaning("no ensemble variance", None, tuple(against))
    notes = (*frozen, *inspection.kernel(predictor))
    if isinstance(predictor, NTKMLP):
        return Meaning("ensemble variance", 1.0, ("predictor and target are draws of one description", *notes))
    difference, scale, output = inspection.compare_laws(predictor, target)
    if difference:
        return Meaning(
            "no ensemble variance", None, (f"the initial laws differ: {difference}; no single factor relates them",)
        )
    if scale != 1:
        scaled = (
            f"the target's {output}, if it is the output layer, is about c = {scale:.3g} times the predictor's, with "
            "all else alike: the factor is (1 + c^2) / 2"
        )
        return Meaning("scaled ensemble variance", (1 + scale**2) / 2, (scaled, *notes))
    alike = "predictor and target are alike in architecture and, by their weights, in law, and share none that trains"
    return Meaning("ensemble variance", 1.0, (alike, *notes))


def _differ(predictor: nn.Module, target: nn.Module) -> str:
    if not (isinstance(predictor, NTKMLP) and isinstance(target, NTKMLP)):
        return inspection.differences(predictor, target)
    u, g = predictor.net, target.net
    if replace(g, width=u.width) == u:  # At any width the limit is the same.
        return ""
    return f"{u} against {g}, for which rndlib.theory.mismatch.factor has the factor at points"
