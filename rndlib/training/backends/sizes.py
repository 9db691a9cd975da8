"""How many bodies go through a backend at once."""

from rndlib.network import MLP

BLOCK_BYTES = 2**24
"""Size of the parameters, or of one layer's derivatives, of all bodies that are trained in one call."""


def block_size(net: MLP, heads: int, n_samples: int) -> int:
    """Bodies to train in one call: as many as keep what all of them need within BLOCK_BYTES.

    It is the same for every backend: the first blocks say how finely all are stepped, so which bodies these are must
    not depend on the array library.
    """
    activations = n_samples * heads * net.width
    parameters = sum(rows * (columns + 1) for rows, columns in net.layer_shapes(heads))
    return max(1, int(BLOCK_BYTES / 8 / max(activations, parameters)))
