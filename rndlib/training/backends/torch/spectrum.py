"""The largest eigenvalue of the networks' own tangent kernels: how fast the fastest mode trains."""

import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training import lanczos
from rndlib.training.backends.torch.linearise import Bodies, linearise
from rndlib.training.flow.exponential import DENSE_LIMIT


def largest_eigenvalue(net: MLP, params: Bodies, X: Float[Tensor, "n d"]) -> float:
    """lambda_max of Theta, the largest over the bodies; by the same recurrence as in the JAX backend."""
    at = linearise(net, params, X)
    bodies, n, heads = at.values.shape
    if n * heads <= DENSE_LIMIT:
        return float(torch.linalg.eigvalsh(at.kernel_matrix()).max())
    v = torch.as_tensor(lanczos.start(n, heads), dtype=X.dtype, device=X.device)
    v = v.view(n, 1, heads).expand(bodies, n, 1, heads)
    before, beside = torch.zeros_like(v), X.new_zeros(bodies)
    tridiagonal = []
    for _ in range(lanczos.STEPS):
        w = at.kernel_product(v) - beside.view(-1, 1, 1, 1) * before
        diagonal = (v * w).sum((1, 2, 3))
        w = w - diagonal.view(-1, 1, 1, 1) * v
        beside = torch.linalg.vector_norm(w, dim=(1, 2, 3))
        before, v = v, w / torch.where(beside > 0, beside, 1.0).view(-1, 1, 1, 1)
        tridiagonal.append((diagonal, beside))
    return lanczos.largest(*(torch.stack(part, 1).cpu().numpy() for part in zip(*tridiagonal, strict=True)))
