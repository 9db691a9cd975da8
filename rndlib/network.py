"""The network of the paper's Eq. 1, as a frozen description without weights."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.activations import ACTIVATIONS, Activation, named


@dataclass(frozen=True)
class MLP:
    """A fully connected network in NTK parametrisation (Eq. 1).

    `z^l = sigma_b b^l + sigma_w / sqrt(n_{l-1}) w^l x^l`, `x^l = phi(z^{l-1})`, `x^1 = x`, with every
    entry of every `w^l` and `b^l` drawn from N(0, 1).

    Parameters
    ----------
    in_dim: Number of input features, `n_0`.
    width: Units in each hidden layer, `n`.
    depth: The paper's `L`, the number of affine layers: 2 is one hidden layer, 1 a linear model.
    activation: "silu", "relu", "erf", "gelu", "tanh", "softplus", "elu", "leaky_relu" or "sin", or an `Activation`.
        A registered `Activation` is stored by its name.
    sigma_w: Scale of the weights, > 0.
    sigma_b: Scale of the biases, >= 0.

    >>> from rndlib import MLP
    >>> MLP(in_dim=3, width=64, activation="gelu")
    MLP(in_dim=3, width=64, depth=2, activation='gelu', sigma_w=1.5, sigma_b=0.1)
    """

    in_dim: int
    width: int = 512
    depth: int = 2
    activation: str | Activation = "silu"
    sigma_w: float = 1.5
    sigma_b: float = 0.1

    def __post_init__(self):
        for name in ("in_dim", "width", "depth"):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=1))
        object.__setattr__(self, "activation", named(self.activation))
        if not isinstance(self.activation, Activation):
            checks.choice("activation", self.activation, ACTIVATIONS)
        object.__setattr__(self, "sigma_w", checks.positive("sigma_w", self.sigma_w))
        object.__setattr__(self, "sigma_b", checks.non_negative("sigma_b", self.sigma_b))

    @property
    def phi(self) -> Activation:
        """The nonlinearity itself.

        >>> from rndlib import MLP
        >>> MLP(in_dim=3).phi
        Activation(name='silu')
        """
        return self.activation if isinstance(self.activation, Activation) else ACTIVATIONS[self.activation]

    def examine(self, X: Float[np.ndarray, "n d"]) -> None:
        """Refuse points that the network does not take: X (N, in_dim).

        >>> from rndlib import MLP
        >>> import numpy as np
        >>> MLP(in_dim=3).examine(np.ones((2, 3)))
        """
        if X.shape[1] != self.in_dim:
            raise ValueError(f"X has {X.shape[1]} columns: give the {self.in_dim} of net = {self}")

    def _trained(self, layer: int, kappa: np.ndarray) -> np.ndarray:
        """The part of a layer's own parameters in the NTK of its preactivations, whose NNGP kernel is kappa."""
        return kappa

    def layer_shapes(self, heads: int) -> list[tuple[int, int]]:
        """Shapes `(n_l, n_{l-1})` of the weight matrices, first layer first, for an output of `heads`.

        >>> from rndlib import MLP
        >>> MLP(in_dim=3, width=64).layer_shapes(heads=8)
        [(64, 3), (8, 64)]
        """
        sizes = [self.in_dim, *[self.width] * (self.depth - 1), heads]
        return [(fan_out, fan_in) for fan_in, fan_out in pairwise(sizes)]

    def parameters(self, heads: int) -> int:
        """Number of weights and biases, for an output of `heads`.

        >>> from rndlib import MLP
        >>> MLP(in_dim=3, width=64).parameters(heads=8)
        776
        """
        return sum(fan_out * (fan_in + 1) for fan_out, fan_in in self.layer_shapes(heads))

    @property
    def hidden_parameters(self) -> int:
        """Number of weights and biases below the last layer.

        >>> from rndlib import MLP
        >>> MLP(in_dim=3, width=64).hidden_parameters
        256
        """
        return self.parameters(1) - self.layer_shapes(1)[-1][1] - 1
