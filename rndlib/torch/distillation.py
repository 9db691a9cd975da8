"""Random network distillation in the loop of an agent, with a predictor and a target of your own."""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from io import BytesIO
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from rndlib import checks
from rndlib.estimators import NotFittedError
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch.meaning import explain, probes
from rndlib.torch.normalise import RunningNormaliser, parts
from rndlib.torch.observations import Reader
from rndlib.torch.optimiser import rebind, step_as_linear
from rndlib.training.solvers import DivergenceError

_AT_ONCE = 2**22
"""Numbers that go through the networks together, such as 148 stacks of four frames of 84 by 84."""
_READS = 10_000
"""Calls after which the bonus warns if nothing was trained: several rollouts of any algorithm."""
_DIVERGED = "the bonus is not finite: the predictor diverged; take a smaller learning rate and an earlier state_dict"


class ModuleBonus(nn.Module):
    """An exploration bonus from two modules: half the mean squared error of a predictor trained to match a target.

    Observations are numeric tensors or arrays with one or more leading dimensions, (*leading, *obs_shape), such as
    those of time and environment, or dictionaries of these. Both modules receive rows (batch, *obs_shape), normalised,
    in the dtype of the predictor's weights, and return (batch, outputs). `meaning` says what the bonus is; if it is not
    the variance of an ensemble, the constructor warns with `MismatchWarning`. Large batches go through the networks in
    parts, so frames of bytes may fill the memory: no method but `errors` converts more than some 4 million at a time.

    The target, and the initial predictor for `share`, are frozen and held in eval mode. All random draws come from one
    generator on the CPU, so they are the same on every device. `state_dict` has the states of the generator and the
    optimiser as well, in one tensor of bytes. No call but `update` waits for an accelerator, and that once.

    Parameters
    ----------
    obs_shape, keys: Shape of one observation, a number n for (n,), a space such as gymnasium's `Box` or `Dict`, or a
        mapping of names to shapes; and the entries that are read of a dictionary (`rndlib.torch.observations.Reader`).
    predictor, target: Modules that share no trainable weights. They become part of this one.
    normalise: Whether to centre and scale by the statistics of `observe`, and to clip at 5 standard deviations.
    learning_rate: Learning rate of Adam, which `update` uses, > 0. It means what it means for layers of `nn.Linear`,
        in the networks of Eq. 1 too (`rndlib.torch.optimiser.step_as_linear`).
    optimizer: Function that makes a `torch.optim.Optimizer` from parameters, instead of Adam. `update` minimises a mean
        over rows and outputs, so SGD at a rate r is the paper's gradient descent at r / (rows * outputs).
    max_grad_norm: Largest norm of the gradient of a step, > 0, to which longer ones are cut; None for any.
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
        obs_shape: Any,
        predictor: nn.Module,
        target: nn.Module,
        *,
        keys: Hashable | Iterable[Hashable] = None,
        normalise: bool = True,
        learning_rate: float = 1e-3,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
        max_grad_norm: float | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.reader = Reader(obs_shape, keys)
        checks.positive("learning_rate", learning_rate)
        self.max_grad_norm = None if max_grad_norm is None else checks.positive("max_grad_norm", max_grad_norm)
        self.meaning = explain(predictor, target, probes(self.reader.shape, whole=not normalise))
        trained = [p for p in predictor.parameters() if p.requires_grad]
        if not trained:
            raise ValueError("predictor has no weights that require gradients: give one that can be trained")
        if not {(p.dtype, p.device) for p in target.parameters()} <= {(p.dtype, p.device) for p in trained}:
            raise ValueError("target has weights of another type or device than predictor: move one with .to(...)")
        if {id(p) for p in trained} & {id(p) for p in target.parameters()}:
            raise ValueError("target has weights of the predictor that train: give it its own, or freeze these")
        make = partial(Adam, lr=learning_rate, fused=True) if optimizer is None else optimizer
        made = callable(make) and make(trained)
        if not isinstance(made, Optimizer):
            raise ValueError(f"optimizer = {optimizer!r}: give a function from parameters to a torch.optim.Optimizer")
        self._object()
        if not isinstance(made, SGD):
            kernel = f"{type(made).__name__} trains with a tangent kernel of its own, so that the ratio is biased"
            self.meaning = replace(self.meaning, reasons=(*self.meaning.reasons, kernel))
        self.predictor, self.target = predictor, target.requires_grad_(False).eval()
        self.initial = deepcopy(predictor).requires_grad_(False).eval()
        self.normaliser = RunningNormaliser(self.reader.shape) if normalise else None
        self.optimizer, self._held = made, [*predictor.parameters()]
        step_as_linear(made, predictor)
        self.generator = torch.Generator().manual_seed(checks.whole("seed", seed, at_least=0))
        self._reads = 0
        self._pending: Any = 0.0  # NaN if an accelerator has found any since the last update

    def forward(self, obs: Any) -> Any:
        """The novelty of observations (*leading, *obs_shape), half the mean squared error over outputs.

        (*leading,), without gradient, and of the kind of `obs`: a tensor of a tensor, else a NumPy array, which adds to
        rewards of that kind. Warns once if it is called many times and nothing was trained.

        Raises
        ------
        NotFittedError: The bonus normalises, and `observe` was never called.
        DivergenceError: The novelty is not finite. On an accelerator the next `update` raises it.
        """
        rows, leading = self._rows(obs)
        (novelty,) = self._novelties(rows, self.predictor)
        largest = novelty.max()
        if novelty.device.type != "cpu":  # where asking would wait
            self._pending = self._pending + 0 * largest
        elif not isfinite(largest):
            raise DivergenceError(_DIVERGED)
        if not torch.compiler.is_compiling():  # which would compile anew for every count
            self._count()
        return self._of_the_kind_of(obs, novelty.view(leading))

    def share(self, obs: Any) -> Any:
        """The share of the prior variance that is left: the novelty over that of the initial predictor, as `forward`.

        It is 1 before any training, falls towards 0 where the predictor learns, and stays about 1 elsewhere, whatever
        the network, its scale or the task. Comparing with the initial predictor, rather than with its expectation,
        leaves out the scatter of few heads, and works for any module. It costs half as much again as `forward`.

        >>> import numpy as np
        >>> from rndlib.torch import RNDBonus
        >>> bonus = RNDBonus(2, normalise=False)
        >>> bonus.share(np.ones((3, 2)))
        array([1., 1., 1.], dtype=float32)
        """
        rows, leading = self._rows(obs)
        left, prior = self._novelties(rows, self.predictor, self.initial)
        return self._of_the_kind_of(obs, (left / prior).view(leading))

    def errors(self, obs: Any) -> Float[Tensor, "*leading outputs"]:
        """Predictor minus target, (*leading, outputs), with gradient. Raises NotFittedError as `forward`.

        Half its mean square is what `update` minimises: add it to the loss of an agent whose own optimiser has
        `predictor.parameters()`, or `optimizer.param_groups` for the learning rates of this one.
        """
        rows, leading = self._rows(obs)
        return self._errors(rows, self.predictor)[0].unflatten(0, leading)

    @torch.no_grad()
    def observe(self, obs: Any) -> None:
        """Update the running mean and variance with observations (*leading, *obs_shape). Only this changes them."""
        if self.normaliser is None:
            raise ValueError(
                "normalise = False: this bonus keeps no statistics to observe: make it with normalise=True"
            )
        self.normaliser.observe(self._rows(obs)[0])

    @torch.enable_grad()
    def update(self, obs: Any, *, epochs: int = 1, minibatch_size: int | None = None) -> float:
        """Train the predictor on observations (*leading, *obs_shape), with one optimiser step per minibatch.

        epochs: Passes over the observations, >= 1.
        minibatch_size: Observations per step, >= 1; None for all.

        Returns the mean novelty of the observations, each measured before its step. Raises as `forward`, after the
        last step. With many environments, a random quarter of the observations keeps the predictor from learning too
        fast (Burda et al., 2019).
        """
        rows = self._rows(obs)[0].detach()
        size = len(rows) if minibatch_size is None else checks.whole("minibatch_size", minibatch_size, at_least=1)
        self._bind()
        epochs, total, self._pending = checks.whole("epochs", epochs, at_least=1), self._pending, 0.0
        for _ in range(epochs):
            for minibatch in self._minibatches(rows, size):
                self.optimizer.zero_grad()
                for part in parts(minibatch, _AT_ONCE):
                    novelty = _novelty(*self._errors(part, self.predictor)).sum()
                    (novelty / len(minibatch)).backward()
                    total = total + novelty.detach()
                if self.max_grad_norm is not None:
                    nn.utils.clip_grad_norm_(self._held, self.max_grad_norm)
                self.optimizer.step()
        mean = float(total) / len(rows) / epochs  # waits for the device
        if not isfinite(mean):
            raise DivergenceError(_DIVERGED)
        return mean

    def step(self, next_obs: Any, *, epochs: int = 1, minibatch_size: int | None = None) -> Any:
        """`observe`, the bonus as in `forward`, then `update`: all that a loop needs after a step or a rollout.

        The novelty is read before the predictor learns these observations, and all in the same normalisation.

        >>> import numpy as np
        >>> from rndlib.torch import RNDBonus
        >>> bonus, next_obs = RNDBonus(2), np.random.default_rng(0).normal(size=(128, 8, 2))
        >>> bonus.step(next_obs, epochs=4, minibatch_size=256).shape
        (128, 8)
        """
        if self.normaliser is not None:
            self.observe(next_obs)
        novelty = self(next_obs)
        self.update(next_obs, epochs=epochs, minibatch_size=minibatch_size)
        return novelty

    def train(self, mode: bool = True) -> "ModuleBonus":
        """Set the predictor's mode; what is frozen stays in eval mode."""
        super().train(mode)
        self.target.eval()
        self.initial.eval()
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
            rebind(self.optimizer, self._held, now)
            self._held = now

    def _object(self) -> None:
        if self.meaning.factor != 1:
            warnings.warn(str(self.meaning), MismatchWarning, stacklevel=3)

    def _count(self) -> None:
        self._reads += 1
        if self._reads != _READS:
            return
        pairs = zip(self.predictor.parameters(), self.initial.parameters(), strict=True)
        if all(now.equal(before) for now, before in pairs):
            warnings.warn(f"the bonus was read {_READS} times and never trained: call update or step", stacklevel=4)

    def _rows(self, obs: Any) -> tuple[Shaped[Tensor, "rows *shape"], torch.Size]:
        rows, leading = self.reader(obs)
        return rows.to(self._like.device), leading

    @property
    def _like(self) -> Tensor:
        return next(self.predictor.parameters())

    def _errors(
        self, rows: Shaped[Tensor, "batch *shape"], *functions: nn.Module
    ) -> list[Float[Tensor, "batch outputs"]]:
        """Functions minus the target."""
        if self.normaliser is not None:
            if not self.normaliser.count:
                raise NotFittedError(
                    "this bonus has seen nothing to normalise by: call observe(obs) first, on a random agent's "
                    "observations for instance, or make it with normalise=False"
                )
            rows = self.normaliser(rows)
        rows = rows.to(self._like.dtype)
        ours, theirs = [u(rows) for u in functions], self.target(rows)
        if ours[0].shape != theirs.shape or theirs.ndim != 2 or len(theirs) != len(rows):
            raise ValueError(
                f"predictor and target return {tuple(ours[0].shape)} and {tuple(theirs.shape)} for {len(rows)} "
                "observations: give modules that both return (batch, outputs)"
            )
        return [of - theirs for of in ours]

    @torch.no_grad()
    def _novelties(self, rows: Shaped[Tensor, "rows *shape"], *functions: nn.Module) -> list[Float[Tensor, " rows"]]:
        each = [[_novelty(errors) for errors in self._errors(part, *functions)] for part in parts(rows, _AT_ONCE)]
        return each[0] if len(each) == 1 else [torch.cat(of) for of in zip(*each, strict=True)]

    def _of_the_kind_of(self, obs: Any, novelty: Tensor) -> Any:
        if isinstance(self.reader.entries(obs)[0], Tensor):
            return novelty
        return novelty.to(torch.promote_types(novelty.dtype, torch.float32)).numpy(force=True)  # which has no bfloat16

    def _minibatches(self, rows: Shaped[Tensor, "rows *shape"], size: int) -> Iterator[Tensor]:
        if size >= len(rows):
            return iter([rows])
        order = torch.randperm(len(rows), generator=self.generator, device="cpu").to(rows.device)
        return (rows[chosen] for chosen in order.split(size))


def _novelty(errors: Float[Tensor, "batch outputs"]) -> Float[Tensor, " batch"]:
    return errors.square().mean(1) / 2
