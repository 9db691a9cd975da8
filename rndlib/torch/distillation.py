"""Random network distillation in the loop of an agent, with a predictor and a target of your own."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.utils.checkpoint import checkpoint

from rndlib import checks
from rndlib.estimators import NotFittedError
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch.meaning import explain
from rndlib.torch.normalise import RunningNormaliser, parts, shape
from rndlib.training.solvers import DivergenceError

Observations = Tensor | ArrayLike

_AT_ONCE = 2**22
"""Numbers that go through the networks together, such as 148 stacks of four frames of 84 by 84."""


class ModuleBonus(nn.Module):
    """An exploration bonus from two modules: half the mean squared error of a predictor trained to match a target.

    Observations are numeric tensors or arrays (batch, *obs_shape). Both modules receive them normalised, in the dtype
    of the predictor's weights, and return (batch, outputs). `meaning` says what the bonus is; if it is not the variance
    of an ensemble, the constructor warns with `MismatchWarning`. Large batches go through the networks in parts, so
    frames of bytes may fill the memory: no method converts more than some 4 million numbers at a time. Behind `loss`
    and `errors`, the backward pass computes these parts again.

    The target is frozen and held in eval mode. All random draws come from one generator on the CPU, so they are the
    same on every device. `state_dict` has the states of the generator and the optimiser, besides weights and
    statistics.

    Parameters
    ----------
    obs_shape: Shape of one observation; a number n stands for (n,).
    predictor, target: Modules that share no trainable weights. They become part of this one.
    normalise: Whether to centre and scale by the statistics of `observe`, and to clip at 5 standard deviations.
    update_proportion: In (0, 1]: probability that an observation counts in a loss, drawn independently for each (Burda
        et al., 2019). With many environments, this keeps the predictor from learning too fast.
    learning_rate: Learning rate of Adam, which `update` uses, > 0.
    optimizer: Function that makes a `torch.optim.Optimizer` from parameters, instead of Adam.
    seed: Seed of the generator, >= 0.

    >>> from torch import nn
    >>> from rndlib.torch import ModuleBonus
    >>> def network():
    ...     return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 16))
    >>> bonus = ModuleBonus((1, 8, 8), network(), network())
    >>> bonus.meaning.verdict
    'ensemble variance'
    """

    def __init__(
        self,
        obs_shape: int | Iterable[int],
        predictor: nn.Module,
        target: nn.Module,
        *,
        normalise: bool = True,
        update_proportion: float = 1.0,
        learning_rate: float = 1e-3,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.obs_shape = shape(obs_shape)
        self.update_proportion = checks.positive("update_proportion", update_proportion)
        if update_proportion > 1:
            raise ValueError(f"update_proportion = {update_proportion!r}: give a number above 0, and 1 at most")
        checks.positive("learning_rate", learning_rate)
        self.meaning = explain(predictor, target)
        trained = [p for p in predictor.parameters() if p.requires_grad]
        if not trained:
            raise ValueError("predictor has no weights that require gradients: give one that can be trained")
        ours, theirs = (_kinds(module) for module in (predictor, target))
        if theirs and ours != theirs:
            raise ValueError(f"predictor and target have weights of {ours} and {theirs}: move one with .to(...)")
        if {id(p) for p in trained} & {id(p) for p in target.parameters()}:
            raise ValueError("target has weights of the predictor that train: give it its own, or freeze these")
        if self.meaning.factor != 1:
            warnings.warn(str(self.meaning), MismatchWarning, stacklevel=2)
        self.predictor, self.target = predictor, target.requires_grad_(False).eval()
        self.normaliser = RunningNormaliser(self.obs_shape) if normalise else None
        self.optimizer = Adam(trained, learning_rate) if optimizer is None else _made(optimizer, trained)
        self.generator = torch.Generator().manual_seed(checks.whole("seed", seed, at_least=0))

    def forward(self, obs: Observations) -> Float[Tensor, " batch"]:
        """The novelty of observations (batch, *obs_shape), half the mean squared error over outputs, without gradient.

        Raises
        ------
        NotFittedError: The bonus normalises, and `observe` was never called.
        DivergenceError: The novelty is not finite.
        """
        with torch.no_grad():
            return self._in_parts(self._novelty, self._rows(obs))

    def errors(self, obs: Observations) -> Float[Tensor, "batch outputs"]:
        """Predictor minus target, (batch, outputs), with gradient. Raises as `forward`."""
        return self._in_parts(self._errors, self._rows(obs))

    @torch.no_grad()
    def observe(self, obs: Observations) -> None:
        """Update the running mean and variance with observations (batch, *obs_shape). No other method changes them."""
        if self.normaliser is None:
            raise ValueError(
                "normalise = False: this bonus keeps no statistics to observe: make it with normalise=True"
            )
        self.normaliser.observe(self._rows(obs))

    def loss(self, obs: Observations) -> Float[Tensor, ""]:
        """Mean novelty of the observations that count, with gradient; 0 if none counts. Raises as `forward`.

        Add it to an agent's loss, and give that optimiser `predictor.parameters()`.
        """
        rows = self._rows(obs)
        counted = self._counted(rows)
        if not len(counted):
            return 0 * self._novelty(rows[:1]).mean()
        return self._in_parts(self._novelty, counted).mean()

    @torch.enable_grad()
    def update(self, obs: Observations, *, epochs: int = 1, minibatch_size: int | None = None) -> float:
        """Train the predictor on observations (batch, *obs_shape), with one optimiser step per minibatch.

        epochs: Passes over the observations, >= 1.
        minibatch_size: Observations per step, >= 1; None for all.

        Returns the mean novelty of the observations that counted, each measured before its step; 0 if none counted.
        Raises as `forward`.
        """
        rows = self._rows(obs).detach()
        size = len(rows) if minibatch_size is None else checks.whole("minibatch_size", minibatch_size, at_least=1)
        total, count = 0.0, 0
        for _ in range(checks.whole("epochs", epochs, at_least=1)):
            for minibatch in self._minibatches(rows, size):
                counted = self._counted(minibatch)
                if len(counted):
                    self.optimizer.zero_grad()
                    for part in parts(counted, _AT_ONCE):
                        novelty = self._novelty(part).sum()
                        (novelty / len(counted)).backward()
                        total += float(novelty.detach())
                    self.optimizer.step()
                    count += len(counted)
        return total / max(count, 1)

    def train(self, mode: bool = True) -> "ModuleBonus":
        """Set the predictor's mode; the target stays in eval mode."""
        super().train(mode)
        self.target.eval()
        return self

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict` holds besides parameters and buffers: the states of the generator and the optimiser."""
        return {"generator": self.generator.get_state(), "optimizer": self.optimizer.state_dict()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """The inverse of `get_extra_state`, for `load_state_dict`."""
        self.generator.set_state(state["generator"].cpu())
        self.optimizer.load_state_dict(state["optimizer"])

    def _apply(self, fn: Any, recurse: bool = True) -> "ModuleBonus":
        # `.to` and similar methods may replace parameters. Loading the optimiser's state moves it to them.
        before, state = list(self.predictor.parameters()), self.optimizer.state_dict()
        super()._apply(fn, recurse)
        now = dict(zip(before, self.predictor.parameters(), strict=True))
        for group in self.optimizer.param_groups:
            group["params"] = [now[p] for p in group["params"]]
        self.optimizer.load_state_dict(state)
        return self

    def _rows(self, obs: Observations) -> Shaped[Tensor, "batch *shape"]:
        try:
            # PyTorch refuses negative strides, and warns about read-only arrays: only such arrays are copied.
            rows = obs if isinstance(obs, Tensor) else torch.as_tensor(np.require(obs, requirements=["C", "W"]))
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"obs is {type(obs).__name__}: give a tensor or an array of numbers ({error})") from error
        if rows.ndim == 0 or rows.shape[1:] != self.obs_shape or len(rows) == 0:
            wanted = ", ".join(["batch", *map(str, self.obs_shape)])
            alone = "; obs[None] may be meant" if rows.shape == self.obs_shape else ""
            raise ValueError(f"obs has shape {tuple(rows.shape)}: give ({wanted}), with at least one row{alone}")
        if rows.is_complex():
            raise ValueError("obs is complex: give real numbers, such as its real and imaginary parts side by side")
        if rows.is_floating_point() and not all(part.isfinite().all() for part in parts(rows, _AT_ONCE)):
            bad = (~rows.isfinite()).nonzero()[0].tolist()
            raise ValueError(f"obs has a NaN or infinity, first at {bad}: remove or impute it")
        return rows.to(next(self.predictor.parameters()).device)

    def _errors(self, rows: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, "batch outputs"]:
        if self.normaliser is not None:
            if not self.normaliser.count:
                raise NotFittedError(
                    "this bonus has seen nothing to normalise by: call observe(obs) first, on a random agent's "
                    "observations for instance, or make it with normalise=False"
                )
            rows = self.normaliser(rows)
        rows = rows.to(next(self.predictor.parameters()).dtype)
        u, g = self.predictor(rows), self.target(rows)
        if u.shape != g.shape or u.ndim != 2 or len(u) != len(rows):
            raise ValueError(
                f"predictor and target return {tuple(u.shape)} and {tuple(g.shape)} for {len(rows)} observations: "
                "give modules that both return (batch, outputs)"
            )
        return u - g

    def _in_parts(self, function: Callable[[Tensor], Tensor], rows: Shaped[Tensor, "batch *shape"]) -> Tensor:
        """function(rows), which keeps no more than one part's floating-point numbers for the backward pass."""
        if len(several := parts(rows, _AT_ONCE)) == 1:
            return function(rows)
        return torch.cat([checkpoint(function, part, use_reentrant=False) for part in several])

    def _novelty(self, rows: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, " batch"]:
        novelty = self._errors(rows).square().mean(1) / 2
        if not novelty.isfinite().all():
            raise DivergenceError(
                "the bonus is not finite: the predictor diverged; give a smaller learning rate, and go on from an "
                "earlier state_dict"
            )
        return novelty

    def _minibatches(self, rows: Shaped[Tensor, "batch *shape"], size: int) -> Iterator[Tensor]:
        if size >= len(rows):
            return iter([rows])
        order = torch.randperm(len(rows), generator=self.generator, device="cpu").to(rows.device)
        return (rows[chosen] for chosen in order.split(size))

    def _counted(self, rows: Shaped[Tensor, "batch *shape"]) -> Shaped[Tensor, "counted *shape"]:
        if self.update_proportion == 1:
            return rows
        counts = torch.rand(len(rows), generator=self.generator, dtype=torch.float64, device="cpu")
        return rows[(counts < self.update_proportion).to(rows.device)]


def _kinds(module: nn.Module) -> str:
    """The types and devices of a module's weights, in words."""
    return ", ".join(sorted({f"{p.dtype} on {p.device}" for p in module.parameters()}))


def _made(optimizer: Any, trained: list[nn.Parameter]) -> Optimizer:
    made = optimizer(trained) if callable(optimizer) else None
    if not isinstance(made, Optimizer):
        raise ValueError(f"optimizer = {optimizer!r}: give a function from parameters to a torch.optim.Optimizer")
    return made
