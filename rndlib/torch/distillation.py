"""Random network distillation in the loop of an agent, with a predictor and a target of your own."""

import warnings
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from io import BytesIO
from math import isfinite
from operator import is_not
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.optim import Optimizer

from rndlib import checks
from rndlib.estimators import NotFittedError
from rndlib.theory.mismatch import MismatchWarning
from rndlib.torch.batches import batch, minibatches, parts
from rndlib.torch.function import misfit
from rndlib.torch.meaning import but, explain, probes
from rndlib.torch.normalise import RunningNormaliser
from rndlib.torch.observations import Reader, Rows
from rndlib.torch.optimiser import made
from rndlib.training.solvers import DivergenceError

_READS = 10_000
"""Calls after which the bonus warns if nothing was trained: several rollouts of any algorithm."""
_DIVERGED = "the bonus is not finite: the predictor diverged; take a smaller learning rate and an earlier state_dict"


class ModuleBonus(nn.Module):
    """An exploration bonus from two modules: half the mean squared error of a predictor trained to match a target.

    Observations are numeric tensors or arrays with one or more leading dimensions, (*leading, *obs_shape), such as
    those of time and environment, or dictionaries of these. Both modules receive rows (batch, *obs_shape), normalised,
    in the dtype of the predictor's weights, and return (batch, outputs). `meaning` says what the bonus is; if the two
    do not give an ensemble's variance, the constructor warns with `MismatchWarning`. Large batches go through the
    networks in parts, so frames of bytes may fill the memory: no method but `errors` converts more than some 4 million
    at a time.

    The target, and the initial predictor for `share`, are frozen and held in eval mode. The predictor stays in the mode
    that it came in, whatever the mode of the bonus. All random draws come from one generator on the CPU, so they are
    the same on every device. `state_dict` has the states of the generator and the optimiser as well, in one tensor of
    bytes. No call but `update` waits for an accelerator, and that once.

    Parameters
    ----------
    obs_shape, keys: Shape of one observation, a number n for (n,), a space such as gymnasium's `Box` or `Dict`, or a
        mapping of names to shapes; and the entries that are read of a dictionary (`rndlib.torch.observations.Reader`).
    predictor, target: Modules that share no trainable weights. They become part of this one.
    normalise: Whether to centre and scale by the statistics of `observe`, and to clip at 5 standard deviations.
    learning_rate: Learning rate of Adam, which `update` uses, > 0; None for 1e-3, or with an `optimizer`.
    optimizer: Function that makes a `torch.optim.Optimizer` from parameters, instead of Adam. `update` minimises a mean
        over rows and outputs. So SGD at a rate r is gradient descent at r / (rows * outputs), for networks of Eq. 1 the
        paper's, with the factors outside of the weights.
    max_grad_norm: Largest norm of the gradient of a step, > 0, to which longer ones are cut; None for any.
    gamma: Discount factor, 0 or more, to learn a value: then the bonus is the uncertainty of a value function, and
        `update` needs transitions. None for none.
    seed: Seed of the generator, >= 0.

    Raises
    ------
    ValueError: An argument is out of range, the modules cannot serve, or `optimizer` comes with a `learning_rate`.

    >>> from torch import nn
    >>> from rndlib.torch import ModuleBonus
    >>> def network():
    ...     return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 16))
    >>> bonus = ModuleBonus((1, 8, 8), network(), network())
    >>> bonus.meaning.verdict, bonus.meaning.factor
    ('biased', 1.0)
    >>> print(bonus.meaning.reasons[-1])
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
        learning_rate: float | None = None,
        optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
        max_grad_norm: float | None = None,
        gamma: float | None = None,
        seed: int = 0,
    ):
        super().__init__()
        self.reader = Reader(obs_shape, keys)
        self.max_grad_norm = None if max_grad_norm is None else checks.positive("max_grad_norm", max_grad_norm)
        self.gamma = None if gamma is None else checks.non_negative("gamma", gamma)
        self.generator = torch.Generator().manual_seed(checks.whole("seed", seed, at_least=0))
        trained, fixed = [p for p in predictor.parameters() if p.requires_grad], [*target.parameters()]
        checks.require(bool(trained), "predictor has no weights that require gradients: give one that can be trained")
        if not {(p.dtype, p.device) for p in fixed} <= {(p.dtype, p.device) for p in trained}:
            raise ValueError("target has weights of another type or device than predictor: move one with .to(...)")
        if {*map(id, trained)} & {*map(id, fixed)}:
            raise ValueError("target has weights of the predictor that train: give it its own, or freeze these")
        self.optimizer = made(optimizer, learning_rate, predictor)
        self.meaning = explain(predictor, target.eval(), probes(self.reader.shape, not normalise), self.optimizer)
        if self.max_grad_norm is not None:
            cut = "cutting gradients depends on the error, so that training is not linear in it"
            self.meaning = but(self.meaning, "biased", cut)
        self._object()
        self.predictor, self.target = predictor, target.requires_grad_(False)
        self.initial = deepcopy(predictor).requires_grad_(False).eval()
        self.normaliser = RunningNormaliser(self.reader.shape) if normalise else None
        self._held = [*predictor.parameters()]
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
        novelty = self._half_squares(rows, self.predictor)
        if not torch.compiler.is_compiling():  # which would compile anew for every count
            self._reads += 1
            if self._reads == _READS and all(map(torch.equal, self.predictor.parameters(), self.initial.parameters())):
                warnings.warn(f"the bonus was read {_READS} times and never trained: call update or step", stacklevel=4)
        return self.reader.like(obs, novelty, leading)

    def share(self, obs: Any) -> Any:
        """The fraction of the prior variance that remains: the novelty over that of the initial predictor.

        Its shape and kind are those of `forward`, and it costs twice as much. It is 1 before any training, falls
        towards 0 where the predictor learns, and stays about 1 elsewhere, whatever the network, its scale or the task.
        Comparing with the initial predictor, rather than with its expectation, leaves out the scatter of few heads, and
        works for any module.

        >>> import numpy as np
        >>> from rndlib.torch import RNDBonus
        >>> bonus = RNDBonus(2, normalise=False)
        >>> bonus.share(np.ones((3, 2)))
        array([1., 1., 1.], dtype=float32)
        """
        rows, leading = self._rows(obs)
        left, prior = (self._half_squares(rows, function) for function in (self.predictor, self.initial))
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
            raise ValueError("normalise = False: this bonus keeps no statistics to observe: give normalise=True")
        self.normaliser.observe(self._rows(obs)[0])

    @torch.inference_mode(False)
    @torch.enable_grad()
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
        g(x) - gamma (1 - terminated) g(x') of the target g, whose value is g (`rndlib.laws.value_rnd_error`). Training
        reduces the error minus gamma times the error at `next_obs`, so states that lead to novel ones stay novel.

        next_obs: With `gamma`, the observations (*leading, *obs_shape) that follow; those at the end of an episode, and
            not the first of the next.
        terminated: Booleans (*leading), whether the episode ended there, so that nothing follows; None for never; False
            for truncated episodes.
        epochs: Passes over the observations, >= 1.
        minibatch_size: Observations per step, >= 1; None for all.

        Returns the mean loss, each measured before its step: without `gamma`, the mean novelty of the observations.
        Raises as `forward`, after the last step. With many environments, a random quarter of the observations keeps the
        predictor from learning too fast (Burda et al., 2019).
        """
        seen = batch(self._rows(obs), None if next_obs is None else self._rows(next_obs), terminated, self.gamma)
        n = len(seen[0])
        size = n if minibatch_size is None else checks.whole("minibatch_size", minibatch_size, at_least=1)
        epochs, total, self._pending = checks.whole("epochs", epochs, at_least=1), self._pending, 0.0
        if any(map(is_not, self.predictor.parameters(), self._held)):
            self._bind()
        for _ in range(epochs):
            for minibatch in minibatches(seen, size, self.generator):
                self.optimizer.zero_grad()
                for part in parts(*minibatch):
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
        if self.gamma is not None and obs is None:
            raise ValueError(f"obs = None with gamma = {self.gamma!r}: give step(next_obs, obs), where obs came before")
        rows, leading = self._rows(next_obs)
        after = rows.unflatten(0, leading)  # read and moved to the device once, for all three
        if self.normaliser is not None:
            self.observe(after)
        novelty = self(after).flatten()
        seen = (after, None) if self.gamma is None and obs is None else (obs, after)
        self.update(*seen, terminated, epochs=epochs, minibatch_size=minibatch_size)
        return self.reader.like(next_obs, novelty, leading)

    def train(self, mode: bool = True) -> "ModuleBonus":
        """Set the bonus's own mode, and leave its networks, of which `meaning` holds as they are, in theirs."""
        self.training = mode
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
        state, now = self.optimizer.state_dict(), [*self.predictor.parameters()]
        successor = dict(zip(self._held, now, strict=True))
        for group in self.optimizer.param_groups:  # which may have others, such as an encoder's that a user has added
            group["params"] = [successor.get(p, p) for p in group["params"]]
        self.optimizer.state.clear()
        self.optimizer.load_state_dict(state)  # which moves it to them
        self._held = now

    def _object(self) -> None:
        if self.meaning.factor != 1:
            warnings.warn(str(self.meaning), MismatchWarning, stacklevel=3)

    def _rows(self, obs: Any) -> Rows:
        rows, leading = self.reader(obs)
        return rows.to(self._held[0].device), leading

    def _errors(self, rows: Shaped[Tensor, "batch *shape"], function: nn.Module) -> Float[Tensor, "batch outputs"]:
        """A function minus the target, in 32 bits at least."""
        if self.normaliser is not None:
            if not self.normaliser.count:
                raise NotFittedError("no statistics to normalise by: call observe(obs) first, or give normalise=False")
            rows = self.normaliser(rows)
        rows = rows.to(self._held[0].dtype)
        torch.clear_autocast_cache()  # which has weights as they were before a step, or without a gradient
        ours, theirs = function(rows), self.target(rows)
        if wrong := misfit(ours, theirs, len(rows)):
            raise ValueError(f"predictor and target {wrong}: give modules that both return (batch, outputs)")
        if theirs.dtype.itemsize < 4:  # whose difference, and its square, would lose what is left
            ours, theirs = ours.float(), theirs.float()
        return ours - theirs

    @torch.no_grad()
    def _half_squares(self, rows: Shaped[Tensor, "rows *shape"], function: nn.Module) -> Float[Tensor, " rows"]:
        """Half the mean squared error, if finite: `update` asks that of an accelerator, for which it waits anyway."""
        halves = torch.cat([self._errors(part, function).square_().mean(1).div_(2) for (part,) in parts(rows)])
        if halves.device.type != "cpu":
            self._pending = self._pending + 0 * halves.max()
        elif not isfinite(halves.max()):
            raise DivergenceError(_DIVERGED)
        return halves

    def _loss(self, rows: Shaped[Tensor, "part *shape"], *after: Shaped[Tensor, "part *_"]) -> Float[Tensor, ""]:
        """The sum of half the mean square of the error, or of the temporal difference, at each of some rows."""
        errors = self._errors(rows, self.predictor)
        if after:
            following, discounts = after
            with torch.no_grad():
                held = self._errors(following, self.predictor)
            errors = errors - discounts.to(held.dtype) * held
        return errors.square().sum() / (2 * errors.shape[1])
