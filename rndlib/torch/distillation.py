"""Random network distillation in the loop of an agent, with a predictor and a target of your own."""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from io import BytesIO
from math import isfinite, prod
from operator import is_not
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.optim import LBFGS, Adam, Optimizer

from rndlib import checks
from rndlib.estimators import NotFittedError
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch.meaning import explain, probes
from rndlib.torch.normalise import RunningNormaliser
from rndlib.torch.observations import Reader
from rndlib.torch.optimiser import descend_as_eq_1, rebind
from rndlib.training.solvers import DivergenceError

_AT_ONCE = 2**22
"""Numbers that go through the networks together, such as 148 stacks of four frames of 84 by 84."""
_READS = 10_000
"""Calls after which the bonus warns if nothing was trained: several rollouts of any algorithm."""
_DIVERGED = "the bonus is not finite: the predictor diverged; take a smaller learning rate and an earlier state_dict"

Rows = tuple[Tensor, torch.Size]
"""Observations as rows, and the leading dimensions that they had."""


class ModuleBonus(nn.Module):
    """An exploration bonus from two modules: half the mean squared error of a predictor trained to match a target.

    Observations are numeric tensors or arrays with one or more leading dimensions, (*leading, *obs_shape), such as
    those of time and environment, or dictionaries of these. Both modules receive rows (batch, *obs_shape), normalised,
    in the dtype of the predictor's weights, and return (batch, outputs). `meaning` says what the bonus is; if the two
    do not give an ensemble's variance, the constructor warns with `MismatchWarning`. Large batches go through the
    networks in parts, so frames of bytes may fill the memory: no method but `errors` converts more than some 4 million
    at a time.

    The target, and the initial predictor for `share`, are frozen and held in eval mode. All random draws come from one
    generator on the CPU, so they are the same on every device. `state_dict` has the states of the generator and the
    optimiser as well, in one tensor of bytes. No call but `update` waits for an accelerator, and that once.

    Parameters
    ----------
    obs_shape, keys: Shape of one observation, a number n for (n,), a space such as gymnasium's `Box` or `Dict`, or a
        mapping of names to shapes; and the entries that are read of a dictionary (`rndlib.torch.observations.Reader`).
    predictor, target: Modules that share no trainable weights. They become part of this one.
    normalise: Whether to centre and scale by the statistics of `observe`, and to clip at 5 standard deviations.
    learning_rate: Learning rate of Adam, which `update` uses, > 0.
    optimizer: Function that makes a `torch.optim.Optimizer` from parameters, instead of Adam. `update` minimises a mean
        over rows and outputs. So SGD at a rate r is gradient descent at r / (rows * outputs), for networks of Eq. 1 the
        paper's, with the factors outside of the weights.
    max_grad_norm: Largest norm of the gradient of a step, > 0, to which longer ones are cut; None for any.
    gamma: Discount factor, 0 or more, to learn a value: then the bonus is the uncertainty of a value function, and
        `update` needs transitions. None for none.
    seed: Seed of the generator, >= 0.

    >>> from torch import nn
    >>> from rndlib.torch import ModuleBonus
    >>> def network():
    ...     return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 16))
    >>> bonus = ModuleBonus((1, 8, 8), network(), network())
    >>> bonus.meaning.verdict, bonus.meaning.factor
    ('biased', 1.0)
    >>> print("\\n".join(bonus.meaning.reasons))
    predictor and target are independent draws from one law of one architecture, as far as trials show
    Adam divides by the size of gradients, and so trains with a tangent kernel of its own
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
        gamma: float | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.reader = Reader(obs_shape, keys)
        checks.positive("learning_rate", learning_rate)
        self.max_grad_norm = None if max_grad_norm is None else checks.positive("max_grad_norm", max_grad_norm)
        self.gamma = None if gamma is None else checks.non_negative("gamma", gamma)
        self.generator = torch.Generator().manual_seed(checks.whole("seed", seed, at_least=0))
        trained = [p for p in predictor.parameters() if p.requires_grad]
        if not trained:
            raise ValueError("predictor has no weights that require gradients: give one that can be trained")
        if not {(p.dtype, p.device) for p in target.parameters()} <= {(p.dtype, p.device) for p in trained}:
            raise ValueError("target has weights of another type or device than predictor: move one with .to(...)")
        if {id(p) for p in trained} & {id(p) for p in target.parameters()}:
            raise ValueError("target has weights of the predictor that train: give it its own, or freeze these")
        make = partial(Adam, lr=learning_rate, fused=True) if optimizer is None else optimizer
        made = callable(make) and make(trained)
        if not isinstance(made, Optimizer) or isinstance(made, LBFGS):
            raise ValueError(
                f"optimizer = {optimizer!r}: give a function from parameters to a torch.optim.Optimizer whose steps "
                "take a gradient alone"
            )
        descend_as_eq_1(made, predictor)
        whole = not normalise
        self.meaning = explain(predictor, target.eval(), probes(self.reader.shape, whole), made)
        if self.max_grad_norm is not None and self.meaning.factor is not None:
            cut = "cutting gradients depends on the error, so that training is not linear in it"
            self.meaning = replace(self.meaning, verdict="biased", reasons=(*self.meaning.reasons, cut))
        self._object()
        self.predictor, self.target = predictor, target.requires_grad_(False)
        self.initial = deepcopy(predictor).requires_grad_(False).eval()
        self.normaliser = RunningNormaliser(self.reader.shape) if normalise else None
        self.optimizer, self._held = made, [*predictor.parameters()]
        self.register_load_state_dict_post_hook(self._bind)
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
        return self.reader.like(obs, self._novelty(rows), leading)

    def share(self, obs: Any) -> Any:
        """The share of the prior variance that is left: the novelty over that of the initial predictor, as `forward`.

        It is 1 before any training, falls towards 0 where the predictor learns, and stays about 1 elsewhere, whatever
        the network, its scale or the task. Comparing with the initial predictor, rather than with its expectation,
        leaves out the scatter of few heads, and works for any module. It costs twice as much as `forward`.

        >>> import numpy as np
        >>> from rndlib.torch import RNDBonus
        >>> bonus = RNDBonus(2, normalise=False)
        >>> bonus.share(np.ones((3, 2)))
        array([1., 1., 1.], dtype=float32)
        """
        rows, leading = self._rows(obs)
        left, prior = self._finite(self._half_squares(rows, self.predictor)), self._half_squares(rows, self.initial)
        return self.reader.like(obs, left / prior.clamp_(min=torch.finfo(prior.dtype).tiny), leading)

    def errors(self, obs: Any) -> Float[Tensor, "*leading outputs"]:
        """Predictor minus target, (*leading, outputs), with gradient. Raises NotFittedError as `forward`.

        Half its mean square is what `update` minimises: add it to the loss of an agent whose own optimiser has
        `predictor.parameters()`.
        """
        rows, leading = self._rows(obs)
        return self._errors(rows, self.predictor).unflatten(0, leading)

    @torch.no_grad()
    def observe(self, obs: Any) -> None:
        """Update the running mean and variance with observations (*leading, *obs_shape). Only this changes them."""
        if self.normaliser is None:
            raise ValueError(
                "normalise = False: this bonus keeps no statistics to observe: make it with normalise=True"
            )
        self.normaliser.observe(self._rows(obs)[0])

    def update(
        self,
        obs: Any,
        next_obs: Any = None,
        terminated: Any = None,
        *,
        epochs: int = 1,
        minibatch_size: int | None = None,
    ) -> float:
        """Train the predictor on observations (*leading, *obs_shape), with one optimiser step per minibatch.

        With `gamma`, on transitions: from `obs` to `next_obs`, by semi-gradients, for the rewards
        g(x) - gamma (1 - terminated) g(x') of the target g, whose value is g (`rndlib.laws.value_rnd_error`). What
        becomes small is the error less gamma times that at `next_obs`, so states stay novel that lead to novel ones.

        next_obs: With `gamma`, the observations (*leading, *obs_shape) that follow; those at the end of an episode, and
            not the first of the next.
        terminated: Truth values (*leading), whether the episode ended there, so that nothing follows; None is never.
            Where it was only cut off, more would follow.
        epochs: Passes over the observations, >= 1.
        minibatch_size: Observations per step, >= 1; None for all.

        Returns the mean loss, each measured before its step: without `gamma`, the mean novelty of the observations.
        Raises as `forward`, after the last step. With many environments, a random quarter of the observations keeps the
        predictor from learning too fast (Burda et al., 2019).
        """
        after = None if next_obs is None else self._rows(next_obs)
        return self._learn(self._rows(obs), after, terminated, epochs, minibatch_size)

    def step(
        self,
        next_obs: Any,
        obs: Any = None,
        terminated: Any = None,
        *,
        epochs: int = 1,
        minibatch_size: int | None = None,
    ) -> Any:
        """`observe`, the bonus as in `forward`, then `update`: all that a loop needs after a step or a rollout.

        The novelty is that of `next_obs`, read before the predictor learns, and all in the same normalisation. With
        `gamma`, `obs` are the observations before, and `terminated` is as in `update`.

        >>> import numpy as np
        >>> from rndlib.torch import RNDBonus
        >>> bonus, next_obs = RNDBonus(2), np.random.default_rng(0).normal(size=(128, 8, 2))
        >>> bonus.step(next_obs, epochs=4, minibatch_size=256).shape
        (128, 8)
        """
        came_to = self._rows(next_obs)
        novelty = self._observed(came_to[0])
        alone = self.gamma is None and obs is None
        start, after = (came_to, None) if alone else (self._rows(obs), came_to)
        self._learn(start, after, terminated, epochs, minibatch_size)
        return self.reader.like(next_obs, novelty, came_to[1])

    def train(self, mode: bool = True) -> "ModuleBonus":
        """Set the predictor's mode; what is frozen stays in eval mode."""
        super().train(mode)
        self.target.eval()
        self.initial.eval()
        return self

    def get_extra_state(self) -> Tensor:
        """What `state_dict` holds besides parameters and buffers, the states of the generator and the optimiser."""
        file = BytesIO()
        torch.save({"generator": self.generator.get_state(), "optimizer": self.optimizer.state_dict()}, file)
        return torch.frombuffer(file.getbuffer(), dtype=torch.uint8).clone()

    def set_extra_state(self, state: Tensor) -> None:
        """The inverse of `get_extra_state`, for `load_state_dict`."""
        loaded = torch.load(BytesIO(state.numpy(force=True).tobytes()), "cpu", weights_only=True)
        self.generator.set_state(loaded["generator"])
        self.optimizer.load_state_dict(loaded["optimizer"])

    def _apply(self, fn: Any, recurse: bool = True) -> "ModuleBonus":
        super()._apply(fn, recurse)
        self._bind()
        return self

    def _bind(self, *_: Any) -> None:
        """Let the optimiser hold the predictor's weights: `.to` and `load_state_dict(assign=True)` may replace them."""
        now = [*self.predictor.parameters()]
        rebind(self.optimizer, self._held, now)
        self._held = now

    def _object(self) -> None:
        if self.meaning.factor != 1:
            warnings.warn(str(self.meaning), MismatchWarning, stacklevel=3)

    # What follows is of rows, which are read and checked once.

    def _rows(self, obs: Any) -> Rows:
        rows, leading = self.reader(obs)
        return rows.to(self._held[0].device), leading

    def _parts(self, rows: Shaped[Tensor, "rows *shape"]) -> Sequence[Shaped[Tensor, "part *shape"]]:
        size = max(1, _AT_ONCE // prod(self.reader.shape))
        return rows.split(size) if len(rows) > size else (rows,)

    def _errors(self, rows: Shaped[Tensor, "batch *shape"], function: nn.Module) -> Float[Tensor, "batch outputs"]:
        """A function minus the target, in 32 bits at least."""
        normaliser = self.normaliser
        if normaliser is not None:
            if not normaliser.count:
                raise NotFittedError(
                    "this bonus has seen nothing to normalise by: call observe(obs) first, on a random agent's "
                    "observations for instance, or make it with normalise=False"
                )
            rows = normaliser(rows)
        rows = rows.to(self._held[0].dtype)
        torch.clear_autocast_cache()  # which has weights as they were before a step, or without a gradient
        ours, theirs = function(rows), self.target(rows)
        shapes = [tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__ for f in (ours, theirs)]
        if shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != len(rows):
            raise ValueError(
                f"predictor and target return {shapes[0]} and {shapes[1]} for {len(rows)} observations: give modules "
                "that both return (batch, outputs)"
            )
        if theirs.dtype.itemsize < 4:  # whose difference, and its square, would lose what is left
            ours, theirs = ours.float(), theirs.float()
        return ours - theirs

    @torch.no_grad()
    def _half_squares(self, rows: Shaped[Tensor, "rows *shape"], function: nn.Module) -> Float[Tensor, " rows"]:
        each = [self._errors(part, function).square_().mean(1).div_(2) for part in self._parts(rows)]
        return each[0] if len(each) == 1 else torch.cat(each)

    def _novelty(self, rows: Shaped[Tensor, "rows *shape"]) -> Float[Tensor, " rows"]:
        novelty = self._finite(self._half_squares(rows, self.predictor))
        if not torch.compiler.is_compiling():  # which would compile anew for every count
            self._reads += 1
            if self._reads == _READS and all(map(torch.equal, self.predictor.parameters(), self.initial.parameters())):
                warnings.warn(f"the bonus was read {_READS} times and never trained: call update or step", stacklevel=4)
        return novelty

    def _finite(self, novelty: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The same, or DivergenceError; on an accelerator, where asking would wait, the next `update` raises it."""
        if novelty.device.type != "cpu":
            self._pending = self._pending + 0 * novelty.max()
        elif not isfinite(novelty.max()):
            raise DivergenceError(_DIVERGED)
        return novelty

    def _observed(self, rows: Shaped[Tensor, "rows *shape"]) -> Float[Tensor, " rows"]:
        """The novelty of rows that the statistics have just taken in."""
        if self.normaliser is not None:
            self.normaliser.observe(rows)
        return self._novelty(rows)

    @torch.inference_mode(False)
    @torch.enable_grad()
    def _learn(
        self, start: Rows, after: Rows | None, terminated: Any, epochs: int, minibatch_size: int | None
    ) -> float:
        batch = self._batch(start, after, terminated)
        n = len(batch[0])
        size = n if minibatch_size is None else checks.whole("minibatch_size", minibatch_size, at_least=1)
        epochs, total, self._pending = checks.whole("epochs", epochs, at_least=1), self._pending, 0.0
        if any(map(is_not, self.predictor.parameters(), self._held)):
            self._bind()
        for _ in range(epochs):
            for minibatch in self._minibatches(batch, size):
                self.optimizer.zero_grad()
                for part in zip(*map(self._parts, minibatch), strict=True):
                    loss = self._loss(*part)
                    (loss / len(minibatch[0])).backward()
                    total = total + loss.detach()
                if self.max_grad_norm is not None:
                    nn.utils.clip_grad_norm_(self._held, self.max_grad_norm)
                self.optimizer.step()
        mean = float(total) / n / epochs  # waits for the device
        if not isfinite(mean):
            raise DivergenceError(_DIVERGED)
        return mean

    def _batch(self, start: Rows, after: Rows | None, terminated: Any) -> tuple[Tensor, ...]:
        """What is trained on: rows, and with `gamma` the rows that follow and their discounts."""
        rows, leading = start
        # What inference mode made cannot take part in a gradient.
        rows = rows.clone() if rows.is_inference() else rows.detach()
        if self.gamma is None:
            given = after is not None or terminated is not None
            checks.require(not given, "gamma = None: give gamma to use next_obs and terminated")
            return (rows,)
        if after is None:
            raise ValueError(f"next_obs = None with gamma = {self.gamma!r}: give what follows obs")
        following, others = after
        checks.require(others == leading, f"next_obs has leading dimensions {tuple(others)}, obs {tuple(leading)}")
        ends = torch.as_tensor(False if terminated is None else terminated, device=rows.device).bool()
        fits = terminated is None or ends.shape == leading
        checks.require(fits, f"terminated has shape {tuple(ends.shape)}: give {tuple(leading)}, that of the bonus")
        return rows, following, self.gamma * (~ends).double().expand(leading).reshape(-1, 1)

    def _minibatches(self, batch: tuple[Tensor, ...], size: int) -> Iterator[tuple[Tensor, ...]]:
        n = len(batch[0])
        if size >= n:
            return iter([batch])
        order = torch.randperm(n, generator=self.generator, device="cpu").to(batch[0].device)
        return (tuple(each[chosen] for each in batch) for chosen in order.split(size))

    def _loss(
        self,
        rows: Shaped[Tensor, "batch *shape"],
        following: Shaped[Tensor, "batch *shape"] | None = None,
        discounts: Float[Tensor, "batch 1"] | None = None,
    ) -> Float[Tensor, ""]:
        """The sum of half the mean square of the error, or of the temporal difference, at each of some rows."""
        errors = self._errors(rows, self.predictor)
        if following is not None and discounts is not None:
            with torch.no_grad():
                held = self._errors(following, self.predictor)
            errors = errors - discounts.to(held.dtype) * held
        return errors.square().sum() / (2 * errors.shape[1])
