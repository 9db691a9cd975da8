"""Random network distillation in the loop of an agent, with a predictor and a target of your own."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from math import isfinite
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from rndlib import checks
from rndlib.estimators import NotFittedError
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch.meaning import explain, probes
from rndlib.torch.normalise import RunningNormaliser, parts, shape
from rndlib.training.solvers import DivergenceError

Observations = Tensor | ArrayLike

_AT_ONCE = 2**22
"""Numbers that go through the networks together, such as 148 stacks of four frames of 84 by 84."""
_DIVERGED = "the bonus is not finite: the predictor diverged; take a smaller learning rate and an earlier state_dict"


class ModuleBonus(nn.Module):
    """An exploration bonus from two modules: half the mean squared error of a predictor trained to match a target.

    Observations are numeric tensors or arrays (batch, *obs_shape). Both modules receive them normalised, in the dtype
    of the predictor's weights, and return (batch, outputs). `meaning` says what the bonus is; if it is not the variance
    of an ensemble, the constructor warns with `MismatchWarning`. Large batches go through the networks in parts, so
    frames of bytes may fill the memory: no method but `errors` converts more than some 4 million numbers at a time.

    The target is frozen and held in eval mode. All random draws come from one generator on the CPU, so they are the
    same on every device. `state_dict` has the states of the generator and the optimiser as well, in one tensor of
    bytes. No call but `update` waits for an accelerator, and that once.

    Parameters
    ----------
    obs_shape: Shape of one observation; a number n stands for (n,).
    predictor, target: Modules that share no trainable weights. They become part of this one.
    normalise: Whether to centre and scale by the statistics of `observe`, and to clip at 5 standard deviations.
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
        learning_rate: float = 1e-3,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.obs_shape = shape(obs_shape)
        checks.positive("learning_rate", learning_rate)
        self.meaning = explain(predictor, target, probes(self.obs_shape, whole=not normalise))
        trained = [p for p in predictor.parameters() if p.requires_grad]
        if not trained:
            raise ValueError("predictor has no weights that require gradients: give one that can be trained")
        if not {(p.dtype, p.device) for p in target.parameters()} <= {(p.dtype, p.device) for p in trained}:
            raise ValueError("target has weights of another type or device than predictor: move one with .to(...)")
        if {id(p) for p in trained} & {id(p) for p in target.parameters()}:
            raise ValueError("target has weights of the predictor that train: give it its own, or freeze these")
        made = Adam(trained, learning_rate) if optimizer is None else callable(optimizer) and optimizer(trained)
        if not isinstance(made, Optimizer):
            raise ValueError(f"optimizer = {optimizer!r}: give a function from parameters to a torch.optim.Optimizer")
        self._object()
        if not isinstance(made, SGD):
            kernel = f"{type(made).__name__} trains with a tangent kernel of its own, so that the ratio is biased"
            self.meaning = replace(self.meaning, reasons=(*self.meaning.reasons, kernel))
        self.predictor, self.target = predictor, target.requires_grad_(False).eval()
        self.normaliser = RunningNormaliser(self.obs_shape) if normalise else None
        self.optimizer, self._held = made, [*predictor.parameters()]
        self.generator = torch.Generator().manual_seed(checks.whole("seed", seed, at_least=0))
        self._pending: Any = 0.0  # NaN if an accelerator has found any since the last update

    def forward(self, obs: Observations) -> Any:
        """The novelty of observations (batch, *obs_shape), half the mean squared error over outputs, without gradient.

        (batch,), of the kind of `obs`: a tensor of a tensor, else a NumPy array, which adds to rewards of that kind.

        Raises
        ------
        NotFittedError: The bonus normalises, and `observe` was never called.
        DivergenceError: The novelty is not finite. On an accelerator the next `update` raises it.
        """
        rows = self._rows(obs)
        with torch.no_grad():
            novelty = torch.cat([self._novelty(part) for part in parts(rows, _AT_ONCE)])
        largest = novelty.max()
        if novelty.device.type != "cpu":  # where asking would wait
            self._pending = self._pending + 0 * largest
        elif not isfinite(largest):
            raise DivergenceError(_DIVERGED)
        if isinstance(obs, Tensor):
            return novelty
        return novelty.to(torch.promote_types(novelty.dtype, torch.float32)).numpy(force=True)  # which has no bfloat16

    def errors(self, obs: Observations) -> Float[Tensor, "batch outputs"]:
        """Predictor minus target, (batch, outputs), with gradient. Raises NotFittedError as `forward`.

        Half its mean square is what `update` minimises: add it to the loss of an agent whose own optimiser has
        `predictor.parameters()`.
        """
        return self._errors(self._rows(obs))

    @torch.no_grad()
    def observe(self, obs: Observations) -> None:
        """Update the running mean and variance with observations (batch, *obs_shape). No other method changes them."""
        if self.normaliser is None:
            raise ValueError(
                "normalise = False: this bonus keeps no statistics to observe: make it with normalise=True"
            )
        self.normaliser.observe(self._rows(obs))

    @torch.enable_grad()
    def update(self, obs: Observations, *, epochs: int = 1, minibatch_size: int | None = None) -> float:
        """Train the predictor on observations (batch, *obs_shape), with one optimiser step per minibatch.

        epochs: Passes over the observations, >= 1.
        minibatch_size: Observations per step, >= 1; None for all.

        Returns the mean novelty of the observations, each measured before its step. Raises as `forward`, after the
        last step. With many environments, a random quarter of the observations keeps the predictor from learning too
        fast (Burda et al., 2019).
        """
        rows = self._rows(obs).detach()
        size = len(rows) if minibatch_size is None else checks.whole("minibatch_size", minibatch_size, at_least=1)
        self._bind()
        epochs, total, self._pending = checks.whole("epochs", epochs, at_least=1), self._pending, 0.0
        for _ in range(epochs):
            for minibatch in self._minibatches(rows, size):
                self.optimizer.zero_grad()
                for part in parts(minibatch, _AT_ONCE):
                    novelty = self._novelty(part).sum()
                    (novelty / len(minibatch)).backward()
                    total = total + novelty.detach()
                self.optimizer.step()
        mean = float(total) / len(rows) / epochs  # waits for the device
        if not isfinite(mean):
            raise DivergenceError(_DIVERGED)
        return mean

    def train(self, mode: bool = True) -> "ModuleBonus":
        """Set the predictor's mode; the target stays in eval mode."""
        super().train(mode)
        self.target.eval()
        return self

    def get_extra_state(self) -> Tensor:
        """What `state_dict` holds besides parameters and buffers, the states of the generator and the optimiser."""
        self._bind()
        file = BytesIO()
        torch.save({"generator": self.generator.get_state(), "optimizer": self.optimizer.state_dict()}, file)
        return torch.frombuffer(file.getbuffer(), dtype=torch.uint8).clone()

    def set_extra_state(self, state: Tensor) -> None:
        """The inverse of `get_extra_state`, for `load_state_dict`."""
        self._bind()
        loaded = torch.load(BytesIO(state.numpy(force=True).tobytes()), "cpu", weights_only=True)
        self.generator.set_state(loaded["generator"])
        self.optimizer.load_state_dict(loaded["optimizer"])

    def _apply(self, fn: Any, recurse: bool = True) -> "ModuleBonus":
        super()._apply(fn, recurse)
        self._bind(moved=True)
        return self

    def _bind(self, moved: bool = False) -> None:
        """Let the optimiser hold the predictor's weights: `.to` and `load_state_dict(assign=True)` may replace them."""
        now = [*self.predictor.parameters()]
        if moved or any(p is not held for p, held in zip(now, self._held, strict=True)):
            state, successor = self.optimizer.state_dict(), dict(zip(self._held, now, strict=True))
            for group in self.optimizer.param_groups:
                group["params"] = [successor[p] for p in group["params"]]
            self.optimizer.state.clear()
            self.optimizer.load_state_dict(state)  # which moves it to them
            self._held = now

    def _object(self) -> None:
        if self.meaning.factor != 1:
            warnings.warn(str(self.meaning), MismatchWarning, stacklevel=3)

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
        here = rows.is_floating_point() and rows.device.type == "cpu"
        if here and not all(part.isfinite().all() for part in parts(rows, _AT_ONCE)):
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

    def _novelty(self, rows: Shaped[Tensor, "batch *shape"]) -> Float[Tensor, " batch"]:
        return self._errors(rows).square().mean(1) / 2

    def _minibatches(self, rows: Shaped[Tensor, "batch *shape"], size: int) -> Iterator[Tensor]:
        if size >= len(rows):
            return iter([rows])
        order = torch.randperm(len(rows), generator=self.generator, device="cpu").to(rows.device)
        return (rows[chosen] for chosen in order.split(size))
