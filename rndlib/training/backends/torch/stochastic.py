"""Minibatch training by torch.optim, all bodies of a block at once: each on its own batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rndlib.any_network import Network
from rndlib.training.backends.torch.linearise import linearised
from rndlib.training.backends.torch.settings import hosted
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class TorchMinibatches:
    def __init__(self, net: Network, params: Any, X: Tensor, targets: Tensor, optimizer: str, pull: float):
        self.net, self.moving, self.X, self.targets, self.pull = net, params, X, targets, pull
        self.start = mapped(Tensor.clone, params)
        self.optimizer = OPTIMIZERS[optimizer]([a for layer in params for a in layer])

    @hosted
    def epoch(self, batches: np.ndarray, rates: np.ndarray) -> None:
        bodies = torch.arange(len(self.targets), device=self.X.device)[:, None]
        for rows, rate in zip(torch.tensor(batches, device=self.X.device).unbind(1), rates.tolist(), strict=True):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            f, tangent = linearised(self.net, self.moving, self.X[rows], own=True)
            slopes = tangent.pull_back((f - self.targets[bodies, rows]) / rows.shape[1])
            mapped(self._set_gradient, self.moving, slopes, self.start)
            self.optimizer.step()

    def _set_gradient(self, moving: Tensor, slope: Tensor, start: Tensor) -> None:
        moving.grad = slope + self.pull * (moving - start)

    def params(self) -> Params:
        return mapped(lambda a: a.cpu().numpy().copy(), self.moving)
