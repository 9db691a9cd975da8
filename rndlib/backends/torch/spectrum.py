"""The largest eigenvalue of the networks' own tangent kernels: how fast the fastest mode trains."""

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.backends.torch.linearise import Bodies, kernel_matrix, kernel_product, linearise
from rndlib.exponential import DENSE_LIMIT, POWER_STEPS
from rndlib.network import MLP


def largest_eigenvalue(net: MLP, params: Bodies, X: Float[Tensor, "n d"], noise: float) -> float:
    """lambda_max of Theta + noise I, the largest over the bodies; the same iteration as in the JAX backend."""
    at = linearise(net, params, X)
    bodies, n, heads = at.preactivations[-1].shape
    if n * heads <= DENSE_LIMIT:
        return float(torch.linalg.eigvalsh(kernel_matrix(at)).max()) + noise
    v = torch.sin(torch.arange(1.0, 1.0 + n * heads, dtype=X.dtype, device=X.device))
    v = v.view(n, 1, heads).expand(bodies, n, 1, heads)
    for _ in range(POWER_STEPS):
        v = v / torch.linalg.vector_norm(v, dim=(1, 2, 3), keepdim=True)
        v = kernel_product(at, v)
    v = v / torch.linalg.vector_norm(v, dim=(1, 2, 3), keepdim=True)
    return float((v * kernel_product(at, v)).sum((1, 2, 3)).max()) + noise
