"""What a bonus does with the optimiser of its predictor, which may be any of PyTorch's."""

from collections.abc import Sequence

from torch import nn
from torch.optim import SGD, Optimizer

from rndlib.torch.networks import Eq1


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


def rebind(optimizer: Optimizer, before: Sequence[nn.Parameter], now: Sequence[nn.Parameter]) -> None:
    """Let an optimiser hold the weights `now` that have taken the place of those `before`, with its state.

    It may have others besides, such as those of an encoder that a user has added.
    """
    state, successor = optimizer.state_dict(), dict(zip(before, now, strict=True))
    for group in optimizer.param_groups:
        group["params"] = [successor.get(p, p) for p in group["params"]]
    optimizer.state.clear()
    optimizer.load_state_dict(state)  # which moves it to them
