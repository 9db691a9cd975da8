"""What is refused of a network that the user wrote, before it trains."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.faults import faults

if TYPE_CHECKING:
    from rndlib.any_network import AnyNetwork

_PROBES = 4  # points that a network is tried on
_ROUNDING = 1e-8  # relative to the largest output


def examine(net: "AnyNetwork", X: Float[np.ndarray, "n *shape"], briefly: bool) -> None:
    """Try a network of two outputs on some rows of X; `briefly` for outputs that are finite, and nothing else.

    Raises as `rndlib.any_network.AnyNetwork.examine`.
    """
    x, omega = X[:_PROBES], net.of_two
    f = net.values(omega, x)
    checks.require(
        f.shape == (len(x), 2), f"the network with outputs = 2 maps {x.shape} to {f.shape}: return (N, outputs)"
    )
    checks.require(np.isfinite(f).all(), "the network's outputs have a NaN or infinity: scale the inputs to about 1")
    if briefly:
        return
    drawn, again = (weights | others for weights, others in (net.arrays(2, 0), net.arrays(2, 0)))
    changed = [name for name, array in drawn.items() if not np.array_equal(array, again[name])]
    checks.require(
        not changed,
        f"the network's {', '.join(changed)} differ between two draws with one seed: draw them from the key that "
        "init is given in JAX, from PyTorch's generator on the CPU in build, and from nothing else",
    )

    def equal(values: np.ndarray, others: np.ndarray, wrong: str) -> None:
        near = np.abs(values - others).max() <= _ROUNDING * max(1.0, np.abs(values).max())
        checks.require(near, f"the network's outputs {wrong}")

    def turned(*factors: float) -> np.ndarray:
        """The outputs with the slices of the head for each of them multiplied."""
        *body, head = omega
        return net.values([*body, tuple((a.T * factors).T for a in head)], x)

    equal(f, net.values(omega, x), "change from call to call: switch off dropout, .eval() in torch")
    alone = np.concatenate([net.values(omega, x[i : i + 1]) for i in range(len(x))])
    equal(f, alone, "depend on the other rows of the batch: normalise by groups or layers, not over the batch")
    # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
    equal(
        turned(-2.0, -2.0) + 2 * f,
        3 * turned(0.0, 0.0),
        "are not affine in the head's weights: let the head be the last layer, and share no weights with it",
    )
    equal(f[:, 1], turned(2.0, 1.0)[:, 1], "share weights of the head: give each output its own")
    with faults("the network cannot be differentiated", net.differentiable):
        net.differentiate(omega, x)
