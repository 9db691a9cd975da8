"""Full-batch gradient descent, the paper's optimiser, on a block of bodies."""

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.groups import groups, norms
from rndlib.training.backends.torch.linearise import Bodies, Linear, linearise, pull_back_
from rndlib.training.backends.torch.spectrum import largest_eigenvalue
from rndlib.training.descent import check_rate, report
from rndlib.training.solvers import CLOSE, GradientDescent, Report


def gradient_descent(
    net: MLP,
    solver: GradientDescent,
    params: Bodies,
    offsets: Float[Tensor, "bodies n heads"],
    X: Float[Tensor, "n d"],
    targets: Float[Tensor, "bodies n heads"],
    noise_std: float,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after `solver.steps` steps, each on its own targets; they replace the given.

    Raises
    ------
    ValueError: the learning rate is 2 / lambda_max or more.
    DivergenceError: the training loss ended above where it began.
    """
    check_rate(solver, largest_eigenvalue(net, params, X) + noise_std**2, len(X))
    residuals = []
    for own, xi, y in groups(net, params, offsets, targets):

        def residual(at: Linear, xi: Tensor = xi, y: Tensor = y) -> Tensor:
            return at.preactivations[-1] + noise_std * xi - y

        at = linearise(net, own, X)
        first = norms(residual(at))
        for _ in range(solver.steps):
            r = residual(at)
            pull_back_(net, at, r, own, solver.learning_rate)
            xi.sub_(r, alpha=solver.learning_rate * noise_std)
            at = linearise(net, own, X)
        first = torch.maximum(first, CLOSE * norms(y))
        residuals.append(norms(residual(at)) / torch.where(first > 0, first, 1.0))
    return params, report(solver, torch.cat(residuals).cpu().numpy())
