"""What a bonus does with the optimiser of its predictor, which may be any of PyTorch's."""

from collections.abc import Sequence

from torch import nn
from torch.optim import Adagrad, Adam, Adamax, AdamW, NAdam, Optimizer, RMSprop

from rndlib.torch.networks import Affine


def step_as_linear(optimizer: Optimizer, network: nn.Module) -> None:
    """Let an optimiser that divides by the size of gradients move an `Affine` layer as it moves an `nn.Linear`.

    An `Affine` layer of weights w computes W x with W = s w, and its gradient is s times that in W. Adam moves w by
    rate * m / (sqrt(v) + eps), where m and sqrt(v) are s times those of W. So W = s w moves as the weights of an
    `nn.Linear` do if the rate is divided by s = sigma_w / sqrt(fan_in), and eps multiplied by it; likewise for biases,
    with s = sigma_b. At the same rate it would move by s times that, which is hardly at all. The parameter groups of
    the optimiser are split by s. Gradient descent is left alone, which in w has the kernel of the theorems, and so are
    optimisers that divide by anything else.
    """
    if not isinstance(optimizer, Adam | AdamW | Adamax | NAdam | RMSprop | Adagrad):
        return
    scales: dict[nn.Parameter, float] = {}
    for layer in network.modules():
        if isinstance(layer, Affine):
            scales |= {layer.weight: layer.scale, layer.bias: layer.sigma_b or 1.0}  # which it does not feel
    groups = [*optimizer.param_groups]
    optimizer.param_groups.clear()
    for group in groups:
        decoupled = isinstance(optimizer, AdamW) or group.get("decoupled_weight_decay", False)
        for s in dict.fromkeys(scales.get(p, 1.0) for p in group["params"]):
            own = {"lr": group["lr"] / s, "eps": group["eps"] * s}
            own["weight_decay"] = group["weight_decay"] * (s if decoupled else s**2)
            own["params"] = [p for p in group["params"] if scales.get(p, 1.0) == s]
            optimizer.add_param_group(group | own)


def rebind(optimizer: Optimizer, before: Sequence[nn.Parameter], now: Sequence[nn.Parameter]) -> None:
    """Let an optimiser hold the weights `now` that have taken the place of those `before`, with its state."""
    state, successor = optimizer.state_dict(), dict(zip(before, now, strict=True))
    for group in optimizer.param_groups:
        group["params"] = [successor[p] for p in group["params"]]
    optimizer.state.clear()
    optimizer.load_state_dict(state)  # which moves it to them
