"""Minibatch training by torch.optim, all bodies of a block at once: each on its own batches."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rndlib.network import MLP
from rndlib.training import minibatches
from rndlib.training.backends.torch.linearise import Bodies, linearise, pull_back_
from rndlib.training.solvers import StochasticGradient

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}

State = torch.optim.Optimizer


def block(
    net: MLP,
    solver: StochasticGradient,
    params: Bodies,
    X: Float[Tensor, "n d"],
    targets: Float[Tensor, "bodies n heads"],
    noise_std: float,
    functions,
) -> minibatches.Block[State]:
    """A block of bodies for `rndlib.training.minibatches`, each on its own targets; the parameters are replaced."""
    start = [(w.clone(), b.clone()) for w, b in params]
    slopes = [(torch.zeros_like(w), torch.zeros_like(b)) for w, b in params]
    flat = [a for layer in params for a in layer]
    for a, slope in zip(flat, (a for layer in slopes for a in layer), strict=True):
        a.grad = slope
    optimizer = OPTIMIZERS[solver.optimizer](flat, lr=solver.learning_rate)
    own = torch.arange(len(targets), device=X.device)[:, None]
    pull = noise_std**2 / (len(X) - solver.held_out(len(X)))

    def epoch(state: State, batches: np.ndarray, rates: np.ndarray) -> State:
        for rows, rate in zip(torch.tensor(batches, device=X.device).unbind(1), rates.tolist(), strict=True):
            for group in state.param_groups:
                group["lr"] = rate
            for (w, b), (dw, db), (w0, b0) in zip(params, slopes, start, strict=True):
                torch.sub(w, w0, out=dw).mul_(pull)
                torch.sub(b, b0, out=db).mul_(pull)
            at = linearise(net, params, X[rows])
            residual = at.preactivations[-1] - targets[own, rows]
            pull_back_(net, at, residual / rows.shape[1], slopes, rate=-1.0)
            state.step()
        return state

    def copies(_: State) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(w.cpu().numpy().copy(), b.cpu().numpy().copy()) for w, b in params]

    return minibatches.Block(optimizer, epoch, copies, functions)
