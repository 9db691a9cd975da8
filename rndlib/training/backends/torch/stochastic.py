"""Minibatch training by torch.optim, all bodies of a block at once: each on its own batches."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rndlib.network import MLP
from rndlib.training.backends.torch.linearise import Bodies, linearise
from rndlib.training.minibatches import MinibatchSteps
from rndlib.training.weights import Params

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}

State = torch.optim.Optimizer


class TorchSteps(MinibatchSteps[State]):
    """Minibatch steps of a block of bodies, each on its own targets. The optimiser holds the parameters it moves."""

    def __init__(self, net: MLP, params: Bodies, X: Tensor, targets: Tensor, optimizer: str, pull: float):
        self.net, self.moving, self.X, self.targets, self.pull = net, params, X, targets, pull
        self.first = [(w.clone(), b.clone()) for w, b in params]
        self.slopes = [(torch.zeros_like(w), torch.zeros_like(b)) for w, b in params]
        flat = [a for layer in params for a in layer]
        for a, slope in zip(flat, (a for layer in self.slopes for a in layer), strict=True):
            a.grad = slope
        self.start = OPTIMIZERS[optimizer](flat)

    @torch.no_grad()
    def epoch(self, state: State, batches: np.ndarray, rates: np.ndarray) -> State:
        own = torch.arange(len(self.targets), device=self.X.device)[:, None]
        for rows, rate in zip(torch.tensor(batches, device=self.X.device).unbind(1), rates.tolist(), strict=True):
            for group in state.param_groups:
                group["lr"] = rate
            for (w, b), (dw, db), (w0, b0) in zip(self.moving, self.slopes, self.first, strict=True):
                torch.sub(w, w0, out=dw).mul_(self.pull)
                torch.sub(b, b0, out=db).mul_(self.pull)
            at = linearise(self.net, self.moving, self.X[rows])
            residual = at.values - self.targets[own, rows]
            at.pull_back_(residual / rows.shape[1], self.slopes, rate=-1.0)
            state.step()
        return state

    def params(self, state: State) -> Params:
        return [(w.cpu().numpy().copy(), b.cpu().numpy().copy()) for w, b in self.moving]
