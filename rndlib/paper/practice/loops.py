"""Training loops as people write them in PyTorch, for many networks at once.

Optimisers that treat every weight by itself (SGD with momentum or weight decay, Adam) move a stack of networks as they
move each of them alone. So one loop trains hundreds.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.functional import jvp
from torch.func import functional_call, vmap

from rndlib.network import MLP
from rndlib.training.backends.torch import value
from rndlib.training.report import DivergenceError

Points = Float[np.ndarray, "_points *shape"]
Weights = dict[str, Tensor]
"""By name, with the networks on the first axis."""


@dataclass(frozen=True)
class Loop:
    """A network, an optimiser and a number of steps on the mean over points of half the squared error.

    build : draws a new network with one output, by PyTorch's global generator.
    optimizer : makes a `torch.optim.Optimizer` of a list of tensors.
    batch_size : points of each step, drawn anew; None for all.
    pull : L2 regularisation towards initialisation, where `weight_decay` of an optimiser is towards zero.
    head : the name of the last layer, whose part of psi is zero.

    >>> import numpy as np
    >>> from functools import partial
    >>> from torch import nn, optim
    >>> from rndlib.paper.practice.loops import Loop
    >>> def build():
    ...     return nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
    >>> loop = Loop(build, partial(optim.Adam, lr=1e-2), steps=100, head="2")
    >>> loop.errors(np.eye(2), np.ones((5, 2)), count=3).shape
    (3, 5)
    """

    build: Callable[[], nn.Module]
    optimizer: Callable[[list[Tensor]], torch.optim.Optimizer]
    steps: int
    head: str
    batch_size: int | None = None
    pull: float = 0.0

    def functions(
        self, X: Points, y: Float[np.ndarray, " n"], X_test: Points, count: int, seed: int = 0
    ) -> Float[np.ndarray, "count t"]:
        """The members of an ensemble at test points, trained on y. Raises DivergenceError."""
        start = self._drawn(count, seed, 0)
        targets = torch.as_tensor(y, dtype=torch.float32).expand(count, -1)
        return self._values(self._trained(start, X, targets, seed), X_test).double().numpy()

    def errors(
        self, X: Points, X_test: Points, count: int, seed: int = 0, bayesian: bool = False
    ) -> Float[np.ndarray, "count t"]:
        """The errors u - g of pairs at test points, with the target of Proposition 4.1 if `bayesian`.

        Raises DivergenceError.
        """
        start, other = (self._drawn(count, seed, role) for role in (1, 2))
        places = np.concatenate([X, X_test])
        if bayesian:  # psi has the law of the initial weights below the head
            psi = {name: 0 * w if name.startswith(f"{self.head}.") else w for name, w in other.items()}

            def values(*own: Tensor) -> Tensor:
                return self._values(dict(zip(start, own, strict=True)), places)

            # By two backward passes: PyTorch's forward mode loads decompositions for seconds.
            targets: Any = jvp(values, tuple(start.values()), tuple(psi[name] for name in start))[1]
        else:
            targets = self._values(other, places)
        trained = self._trained(start, X, targets[:, : len(X)], seed)
        return (self._values(trained, X_test) - targets[:, len(X) :]).double().numpy()

    def _drawn(self, count: int, seed: int, role: int) -> Weights:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(np.random.SeedSequence([seed, role]).generate_state(1)[0]))
            drawn = [dict(self.build().named_parameters()) for _ in range(count)]
        return {name: torch.stack([of[name].detach() for of in drawn]) for name in drawn[0]}

    def _module(self) -> nn.Module:
        """One for its structure, which draws nothing from the global generator."""
        with torch.random.fork_rng(devices=[]):
            return self.build()

    def _values(self, weights: Weights, X: Points) -> Tensor:
        network, points = self._module(), torch.as_tensor(X, dtype=torch.float32)
        return vmap(lambda own: functional_call(network, own, (points,))[:, 0])(weights)

    def _trained(self, start: Weights, X: Points, targets: Tensor, seed: int) -> Weights:
        rows = torch.arange(len(X))
        network, points = self._module(), torch.as_tensor(X, dtype=torch.float32)
        weights = {name: w.clone().requires_grad_() for name, w in start.items()}
        optimizer = self.optimizer(list(weights.values()))
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.steps):
            at = rows
            if self.batch_size is not None:
                at = torch.randperm(len(rows), generator=generator)[: self.batch_size]
            batch = points[at]
            outputs = vmap(lambda own, batch=batch: functional_call(network, own, (batch,))[:, 0])(weights)
            loss = (outputs - targets[:, at]).square().mean(1).sum() / 2  # of all networks: they share no weight
            if self.pull:
                away = sum((w - start[name]).square().sum() for name, w in weights.items())
                loss = loss + self.pull / 2 * away
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trained = {name: w.detach() for name, w in weights.items()}
        first, last = ((self._values(own, X) - targets).square().mean().item() / 2 for own in (start, trained))
        if not last <= first:
            raise DivergenceError(f"training loss {last:.1e} after {self.steps} steps, {first:.1e} at first")
        return trained


class Paper(nn.Module):
    """A network of Eq. 1 with one output, in the paper's parametrisation: of points (N, in_dim), (N, 1)."""

    def __init__(self, net: MLP):
        super().__init__()
        self.net = net
        *body, head = ([torch.randn(rows, columns), torch.randn(rows)] for rows, columns in net.layer_shapes(1))
        self.body = nn.ModuleList(map(nn.ParameterList, body))
        self.head = nn.ParameterList(head)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.body:
            x = value(self.net.activation)(self._affine(layer, x))
        return self._affine(self.head, x)

    def _affine(self, layer: nn.Module, x: Tensor) -> Tensor:
        weight, bias = layer.parameters()
        return self.net.sigma_w / weight.shape[1] ** 0.5 * x @ weight.T + self.net.sigma_b * bias


def standard(columns: int, width: int, outputs: int = 1) -> nn.Module:
    """One hidden layer of SiLU units as PyTorch makes it, with the last layer under the name `head`."""
    head = nn.Linear(width, outputs)
    return nn.Sequential(OrderedDict(body=nn.Linear(columns, width), activation=nn.SiLU(), head=head))
