"""The exploration bonus: frames per second, against random network distillation as one writes it in PyTorch."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.case import Case, Way
from rndlib import MLP
from rndlib.torch import ModuleBonus, RNDBonus, nature_cnn

TITLE = "The exploration bonus"
NOTE = (
    "Seconds of a hundred calls of `bonus(obs)`, or of `bonus.update(obs)` with Adam, against the same networks, "
    "normalisation and loss in plain PyTorch, without checks of observations or results. *Difference* is the largest "
    "from the plain numbers, relative to their largest. *goal* is the ratio asked for."
)
CALLS, GOAL = 100, 0.9


def cases(quick: bool) -> Iterator[Case]:
    """The cases of a run."""
    frames = (4, 84, 84)
    for rows in (64,) if quick else (1, 64, 1024):
        yield from both(f"{rows} vectors of 32", RNDBonus(32, network=MLP(32)), torch.randn(rows, 32), 20)
    for rows in (16,) if quick else (1, 16, 128):
        obs = torch.randint(0, 256, (rows, *frames), dtype=torch.uint8)
        yield from both(f"{rows} stacks of frames", RNDBonus(frames, network=nature_cnn(frames)), obs, 2)


class Plain(nn.Module):
    """Random network distillation in a few lines, with the networks of a bonus."""

    def __init__(self, bonus: ModuleBonus, obs: Tensor):
        super().__init__()
        self.predictor, self.target = (self._sequential(part) for part in (bonus.predictor, bonus.target))
        self.mean, self.std = obs.float().mean(0), obs.float().std(0, correction=0)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), 1e-3)

    @staticmethod
    def _sequential(bodies: Any) -> nn.Sequential:
        (network,) = deepcopy(bodies)
        activation, layers = {"silu": nn.SiLU, "relu": nn.ReLU}[network.activation], []
        for layer in network:
            layers += [nn.Flatten(), layer] if isinstance(layer, nn.Linear) else [layer]
            layers.append(activation())
        return nn.Sequential(*layers[:-1])

    def forward(self, obs: Tensor) -> Tensor:
        x = ((obs.float() - self.mean) / self.std).clamp(-5, 5)
        with torch.no_grad():
            goal = self.target(x)
        return (self.predictor(x) - goal).square().mean(1) / 2

    @torch.no_grad()
    def bonus(self, obs: Tensor) -> Tensor:
        """The bonus (batch,)."""
        return self(obs)

    def update(self, obs: Tensor) -> float:
        """A step of the optimiser; the mean bonus before it."""
        loss = self(obs).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def both(name: str, bonus: ModuleBonus, obs: Tensor, calls: int) -> Iterator[Case]:
    """The cases of reading and of training; each way's share of the hundred calls is `calls`."""
    seen = obs if len(obs) > 1 else torch.cat([obs, obs + 1])
    bonus.observe(seen)
    plain, again = Plain(bonus, seen), deepcopy(bonus)
    expected = plain.bonus(obs)

    def repeated(call: Any, **known: float) -> Way:
        def several() -> Any:
            found = [call(obs) for _ in range(calls)][-1]
            if obs.is_cuda:
                torch.cuda.synchronize()
            return found

        return Way(several, CALLS / calls, known)

    def difference(found: Tensor) -> dict[str, float]:
        return {"difference": float((found - expected).abs().max() / expected.max())}

    yield Case(f"bonus, {name}", repeated(bonus), {"plain PyTorch": repeated(plain.bonus, goal=GOAL)}, difference)
    yield Case(
        f"update, {name}",
        repeated(again.update),
        {"plain PyTorch": repeated(plain.update, goal=GOAL)},
        lambda loss: {"loss at the first calls' end": loss},
    )
