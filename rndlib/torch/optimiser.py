"""The optimiser of a bonus's predictor, which may be any of PyTorch's that steps along a gradient."""

from collections.abc import Callable
from functools import partial

from torch import nn
from torch.optim import LBFGS, SGD, Adam, Optimizer

from rndlib import checks
from rndlib.examination import faults
from rndlib.torch.networks import Eq1


def made(
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None, learning_rate: float | None, predictor: nn.Module
) -> Optimizer:
    """A user's optimiser of the predictor's weights that train, or Adam. Raises ValueError as `ModuleBonus` says."""
    rate = 1e-3 if learning_rate is None else checks.positive("learning_rate", learning_rate)
    if optimizer is not None and learning_rate is not None:
        instead = f"give the rate to the optimizer, as partial(SGD, lr={learning_rate!r})"
        raise ValueError(f"learning_rate = {learning_rate!r} is for Adam alone: {instead}")
    wanted = "give a function from parameters to a torch.optim.Optimizer"
    trained = [p for p in predictor.parameters() if p.requires_grad]
    make = partial(Adam, lr=rate, fused=True) if optimizer is None else optimizer
    with faults("optimizer fails", wanted):
        found = callable(make) and make(trained)
    if not isinstance(found, Optimizer) or isinstance(found, LBFGS):
        raise ValueError(f"optimizer = {optimizer!r}: {wanted} whose steps take a gradient alone")
    descend_as_eq_1(found, predictor)
    return found


def descend_as_eq_1(optimizer: Optimizer, network: nn.Module) -> None:
    """Let gradient descent train the weights W = s w of an `Eq1` as Eq. 1 has them, with the factors s outside.

    The gradient in w is s times that in W. So descent in w at a rate moves W by s^2 times the rate, which has the
    kernel of the theorems; and weight decay of W is divided by s^2. The parameter groups are split by s. Optimisers
    that divide by the size of gradients are left alone: they move W as the weights of any layer of PyTorch's.
    """
    if not isinstance(optimizer, SGD):
        return
    networks = [module for module in network.modules() if isinstance(module, Eq1)]
    scales = {p: of.scale(p) for of in networks for p in of.parameters()}
    groups = [*optimizer.param_groups]
    optimizer.param_groups.clear()
    for group in groups:
        for s in dict.fromkeys(scales.get(p, 1.0) for p in group["params"]):
            own = {"lr": group["lr"] * s**2, "weight_decay": group["weight_decay"] / s**2}
            own["params"] = [p for p in group["params"] if scales.get(p, 1.0) == s]
            optimizer.add_param_group(group | own)
