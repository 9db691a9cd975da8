"""Training many networks as users of PyTorch and JAX would write it: float32, silu, one optimiser from the library.

Every peer holds its networks and goes on from where it is. All minimise 1/2 ||f(X) - y||^2 by full batches.
"""

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from jax import lax
from torch.func import vmap

from rndlib import MLP
from rndlib.training.weights import Params

OPTIMISERS = ("GD", "Adam")


class Peer(Protocol):
    """Networks in training."""

    def run(self, steps: int) -> None:
        """Train every network by so many steps more, and return when that is done."""
        ...

    def params(self) -> Params:
        """The parameters, bodies on the leading axis."""
        ...


class Layer(torch.nn.Module):
    """An affine layer of Eq. 1 in the NTK parametrisation."""

    def __init__(self, net: MLP, w: np.ndarray, b: np.ndarray):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(w, dtype=torch.float32))
        self.b = torch.nn.Parameter(torch.tensor(b, dtype=torch.float32))
        self.scale, self.sigma_b = net.sigma_w / sqrt(w.shape[1]), net.sigma_b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.nn.functional.linear(x, self.w) + self.sigma_b * self.b


class TorchLoop:
    """One module, one optimiser and one training loop after the other."""

    def __init__(self, net: MLP, params: Params, X: np.ndarray, y: np.ndarray, optimiser: str, rate: float):
        self.X = torch.tensor(X, dtype=torch.float32)
        self.y = torch.tensor(np.swapaxes(y, 1, 2), dtype=torch.float32)
        self.modules = []
        for body in range(len(y)):
            layers: list[torch.nn.Module] = [Layer(net, w[body], b[body]) for w, b in params]
            between = [part for layer in layers[:-1] for part in (layer, torch.nn.SiLU())]
            self.modules.append(torch.nn.Sequential(*between, layers[-1]))
        self.optimisers = [_torch_optimiser(optimiser, module.parameters(), rate) for module in self.modules]

    def run(self, steps: int) -> None:
        for module, optimiser, y in zip(self.modules, self.optimisers, self.y, strict=True):
            for _ in range(steps):
                optimiser.zero_grad()
                loss = 0.5 * ((module(self.X) - y) ** 2).sum()
                loss.backward()
                optimiser.step()

    def params(self) -> Params:
        bodies = [[p.detach().numpy() for p in module.parameters()] for module in self.modules]
        stacked = [np.stack(leaves).astype(float) for leaves in zip(*bodies, strict=True)]
        return list(zip(stacked[::2], stacked[1::2], strict=True))


class TorchVmap:
    """All networks at once: parameters stacked, `torch.func.vmap` over them, and one optimiser."""

    def __init__(self, net: MLP, params: Params, X: np.ndarray, y: np.ndarray, optimiser: str, rate: float):
        self.net, self.X = net, torch.tensor(X, dtype=torch.float32)
        self.y = torch.tensor(np.swapaxes(y, 1, 2), dtype=torch.float32)
        self.leaves = [torch.tensor(a, dtype=torch.float32, requires_grad=True) for pair in params for a in pair]
        self.optimiser = _torch_optimiser(optimiser, self.leaves, rate)

    def _loss(self, leaves: list[torch.Tensor], y: torch.Tensor) -> torch.Tensor:
        x = self.X
        for layer, (w, b) in enumerate(zip(leaves[::2], leaves[1::2], strict=True)):
            x = torch.nn.functional.silu(x) if layer else x
            x = self.net.sigma_w / sqrt(w.shape[1]) * (x @ w.T) + self.net.sigma_b * b
        return 0.5 * ((x - y) ** 2).sum()

    def run(self, steps: int) -> None:
        losses: Callable[..., torch.Tensor] = vmap(self._loss)
        for _ in range(steps):
            self.optimiser.zero_grad()
            losses(self.leaves, self.y).sum().backward()
            self.optimiser.step()

    def params(self) -> Params:
        leaves = [leaf.detach().numpy().astype(float) for leaf in self.leaves]
        return list(zip(leaves[::2], leaves[1::2], strict=True))


class Jax:
    """A compiled loop of optax steps a network: over all networks at once, or over one after the other."""

    def __init__(self, over: Any, net: MLP, params: Params, X: np.ndarray, y: np.ndarray, optimiser: str, rate: float):
        rule = optax.sgd(rate) if optimiser == "GD" else optax.adam(rate)
        points, targets = jnp.asarray(X, jnp.float32), jnp.asarray(np.swapaxes(y, 1, 2), jnp.float32)

        def loss(params: Params, y: Any) -> Any:
            x = points
            for layer, (w, b) in enumerate(params):
                x = jax.nn.silu(x) if layer else x
                x = net.sigma_w / sqrt(w.shape[1]) * (x @ w.T) + net.sigma_b * b
            return 0.5 * jnp.sum((x - y) ** 2)

        def step(y: Any, _: Any, state: Any) -> Any:
            params, memory = state
            updates, memory = rule.update(jax.grad(loss)(params, y), memory, params)
            return optax.apply_updates(params, updates), memory

        def train(steps: Any, states: Any) -> Any:
            return over(lambda one: lax.fori_loop(0, steps, partial(step, one[0]), one[1]), (targets, states))

        start = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
        self.state = start, jax.vmap(rule.init)(start)
        self.train = jax.jit(train)

    def run(self, steps: int) -> None:
        self.state = jax.block_until_ready(self.train(steps, self.state))

    def params(self) -> Params:
        return jax.tree.map(lambda a: np.asarray(a, float), self.state[0])


def _torch_optimiser(name: str, parameters: Any, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, rate) if name == "GD" else torch.optim.Adam(parameters, rate)


def _at_once(function: Callable[[Any], Any], states: Any) -> Any:
    return jax.vmap(function)(states)


TOGETHER: dict[str, Callable[..., Peer]] = {"torch.func.vmap": TorchVmap, "JAX vmap": partial(Jax, _at_once)}
ONE_BY_ONE: dict[str, Callable[..., Peer]] = {"PyTorch loop": TorchLoop, "JAX one by one": partial(Jax, lax.map)}
"""Ways to train many networks, by name: called with net, params, X, targets (bodies, heads, N), optimiser and rate."""
