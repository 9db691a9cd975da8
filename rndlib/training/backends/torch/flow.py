"""Gradient flow of a block of bodies in PyTorch: the steps that `rndlib.training.flow.integration` drives."""

from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_map

from rndlib.network import MLP
from rndlib.training.backends.torch.exponential import flow_integral
from rndlib.training.backends.torch.groups import groups, norms
from rndlib.training.backends.torch.linearise import Bodies, apply, linearise
from rndlib.training.backends.torch.spectrum import largest_eigenvalue
from rndlib.training.flow.exponential import Spectrum
from rndlib.training.flow.integration import FlowSteps
from rndlib.training.weights import Params

State = tuple[Bodies, Tensor]


class TorchFlow(FlowSteps[State]):
    """The steps of gradient flow for a block of bodies, each on its own targets (`rndlib.training.flow`)."""

    def __init__(self, net: MLP, start: State, X: Tensor, targets: Tensor, noise_std: float, spectrum: Spectrum):
        self.net, self.start, self.X, self.targets = net, start, X, targets
        self.noise_std, self.spectrum = noise_std, spectrum

    @torch.no_grad()
    def largest(self) -> float:
        return largest_eigenvalue(self.net, self.start[0], self.X) + self.noise_std**2

    @torch.no_grad()
    def integrate(self, times: np.ndarray, going: np.ndarray, single: bool) -> tuple[State, np.ndarray]:
        marked, (params, offsets, y) = self._parts(self.start, going, single)
        before, first = tree_map(Tensor.clone, (params, offsets)), np.zeros(len(going))
        sizes = [
            _integrate(self.net, base, xi, self.X.to(y.dtype), own, self.noise_std, self.spectrum, times)
            for base, xi, own in groups(self.net, params, offsets, y)
        ]
        first[going] = torch.cat(sizes).cpu().numpy()
        return self._spread(marked, tree_map(torch.sub, (params, offsets), before)), first

    @torch.no_grad()
    def newton(self, state: State, left: np.ndarray, going: np.ndarray, single: bool) -> State:
        marked, (params, _, y) = self._parts(state, going, single)
        residual = torch.tensor(left, device=self.X.device)[marked]
        shifts = [
            _newton(self.net, base, self.X.to(y.dtype), r, self.noise_std, self.spectrum)
            for base, r, _ in groups(self.net, params, residual, y)
        ]
        return self._spread(marked, tree_map(lambda *groups: torch.cat(groups), *shifts))

    @torch.no_grad()
    def extrapolate(self, coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        dtype = fine[1].dtype
        at = torch.tensor(probes, dtype=dtype, device=self.X.device)
        shift: State = tree_map(lambda a, b: b + (b - a) / 3, coarse, fine)

        def functions(shift: State) -> np.ndarray:
            there = tree_map(lambda a, b: a.to(dtype) + b, self.start[0], shift[0])
            return apply(self.net, there, at).double().cpu().numpy()

        return shift, functions(shift), functions(fine)

    def join(self, marked: np.ndarray, ours: State, theirs: State) -> State:
        which = torch.tensor(marked, device=self.X.device)
        return tree_map(lambda a, b: torch.where(which.view(-1, *[1] * (a.dim() - 1)), a, b), ours, theirs)

    @torch.no_grad()
    def moved(self, state: State, shift: State) -> tuple[State, np.ndarray]:
        there: State = tree_map(torch.add, state, shift)
        left = apply(self.net, there[0], self.X) + self.noise_std * there[1] - self.targets
        return there, left.cpu().numpy()

    def params(self, state: State) -> Params:
        return tree_map(lambda a: a.cpu().numpy(), state[0])

    def _parts(self, state: State, marks: np.ndarray, single: bool) -> Any:
        """Which bodies are marked, and copies of their parameters, offsets and targets."""
        marked = torch.tensor(np.flatnonzero(marks), device=self.X.device)
        dtype = torch.float32 if single else torch.float64
        return marked, tree_map(lambda whole: whole[marked].to(dtype), (*state, self.targets))

    def _spread(self, marked: Tensor, shift: Any) -> Any:
        """The shift of the marked bodies, with zeros for the others."""
        return tree_map(
            lambda whole, part: torch.zeros_like(whole, dtype=part.dtype).index_copy(0, marked, part), self.start, shift
        )


def _integrate(
    net: MLP,
    base: Bodies,
    offsets: Tensor,
    X: Tensor,
    y: Tensor,
    noise_std: float,
    spectrum: Spectrum,
    times: np.ndarray,
) -> Float[Tensor, " bodies"]:
    """Evaluations of a group of bodies, in place, each at its row of `times`, and the first residual's norms.

    See `FlowSteps`. They are in the precision of `base`, but for what is in the space of the training set's
    functions.
    """
    first = None
    # A midpoint is written while `at` still has the weights of the one before.
    here, next_one, other = base, _clone(base), _clone(base)
    for over, ahead in times.tolist():
        at = linearise(net, here, X)
        # The residual that the linear model at `here` has at the step's start.
        f = at.values if here is base else at.linear_model(base)
        r = (f + noise_std * offsets - y).double()
        first = norms(r) if first is None else first
        here, next_one, other = base, other, next_one
        moving = []
        if ahead:
            here = next_one
            for (w, b), (w_base, b_base) in zip(here, base, strict=True):
                w.copy_(w_base)
                b.copy_(b_base)
            moving.append((here, over + ahead))
        if over:
            moving.append((base, over))
        vs = flow_integral(at, r, [h for _, h in moving], noise_std**2, spectrum)
        vs = [v.to(y.dtype) for v in vs]
        for (params, _), v in zip(moving, vs, strict=True):
            at.pull_back_(v, params)
        if over:
            offsets.sub_(vs[-1], alpha=noise_std)
    assert first is not None
    return first


def _newton(
    net: MLP, base: Bodies, X: Tensor, r: Float[Tensor, "bodies n heads"], noise_std: float, spectrum: Spectrum
) -> State:
    at = linearise(net, base, X)
    v = flow_integral(at, r, [inf], noise_std**2, spectrum)[0].to(X.dtype)
    shift = tree_map(torch.zeros_like, base)
    at.pull_back_(v, shift)
    return shift, -noise_std * v


def _clone(params: Bodies) -> Bodies:
    return [(w.clone(), b.clone()) for w, b in params]
