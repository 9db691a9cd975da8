"""Gradient flow of a block of bodies in PyTorch: the steps that `rndlib.training.flow.integration` drives."""

from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_map

from rndlib.network import MLP
from rndlib.training.backends.torch.exponential import Spectrum, flow_integral
from rndlib.training.backends.torch.groups import groups, norms
from rndlib.training.backends.torch.linearise import Bodies, apply, linear_model, linearise, pull_back_
from rndlib.training.backends.torch.spectrum import largest_eigenvalue
from rndlib.training.flow import integration
from rndlib.training.pilots import Pilot
from rndlib.training.solvers import GradientFlow, Report

State = tuple[Bodies, Tensor]


def gradient_flow(
    net: MLP,
    solver: GradientFlow,
    params: Bodies,
    offsets: Float[Tensor, "bodies n heads"],
    X: Float[Tensor, "n d"],
    targets: Float[Tensor, "bodies n heads"],
    noise_std: float,
    spectrum: Spectrum,
    pilot: Pilot | None = None,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after gradient flow, each on its own targets (`rndlib.training.flow`)."""

    start = params, offsets

    def parts(state: State, marks: np.ndarray, single: bool) -> Any:
        """Which bodies are marked, and copies of their parameters, offsets and targets."""
        marked = torch.tensor(np.flatnonzero(marks), device=X.device)
        dtype = torch.float32 if single else torch.float64
        return marked, tree_map(lambda whole: whole[marked].to(dtype), (*state, targets))

    def spread(marked: Tensor, shift: Any) -> Any:
        """That of the marked bodies for all of them, zero for the others."""
        return tree_map(
            lambda whole, part: torch.zeros_like(whole, dtype=part.dtype).index_copy(0, marked, part), start, shift
        )

    def integrate(times: np.ndarray, going: np.ndarray, single: bool) -> tuple[State, np.ndarray]:
        marked, (params, offsets, y) = parts(start, going, single)
        before, first = tree_map(Tensor.clone, (params, offsets)), np.zeros(len(going))
        sizes = [
            _integrate(net, base, xi, X.to(y.dtype), own, noise_std, spectrum, times)
            for base, xi, own in groups(net, params, offsets, y)
        ]
        first[going] = torch.cat(sizes).cpu().numpy()
        return spread(marked, tree_map(torch.sub, (params, offsets), before)), first

    def newton(state: State, left: np.ndarray, going: np.ndarray, single: bool) -> State:
        marked, (params, _, y) = parts(state, going, single)
        residual = torch.tensor(left, device=X.device)[marked]
        shifts = [
            _newton(net, base, X.to(y.dtype), r, noise_std, spectrum) for base, r, _ in groups(net, params, residual, y)
        ]
        return spread(marked, tree_map(lambda *groups: torch.cat(groups), *shifts))

    def extrapolate(coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        dtype = fine[1].dtype
        at = torch.tensor(probes, dtype=dtype, device=X.device)
        shift: State = tree_map(lambda a, b: b + (b - a) / 3, coarse, fine)

        def functions(shift: State) -> np.ndarray:
            there = tree_map(lambda a, b: a.to(dtype) + b, start[0], shift[0])
            return apply(net, there, at).double().cpu().numpy()

        return shift, functions(shift), functions(fine)

    def join(marked: np.ndarray, ours: State, theirs: State) -> State:
        which = torch.tensor(marked, device=X.device)
        return tree_map(lambda a, b: torch.where(which.view(-1, *[1] * (a.dim() - 1)), a, b), ours, theirs)

    def largest() -> float:
        return largest_eigenvalue(net, params, X) + noise_std**2

    def moved(state: State, shift: State) -> tuple[State, np.ndarray]:
        there: State = tree_map(torch.add, state, shift)
        return there, (apply(net, there[0], X) + noise_std * there[1] - targets).cpu().numpy()

    block = integration.Block(start, largest, integrate, extrapolate, join, moved, newton)
    values = spectrum.values.cpu().numpy()
    state, report = integration.gradient_flow(block, solver, X.cpu().numpy(), targets.cpu().numpy(), values, pilot)
    return state[0], report


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

    See `integration.Block`. They are in the precision of `base`, but for what is in the space of the training set's
    functions.
    """
    first = None
    # A midpoint is written while `at` still has the weights of the one before.
    here, next_one, other = base, _clone(base), _clone(base)
    for over, ahead in times.tolist():
        at = linearise(net, here, X)
        # The residual that the linear model at `here` has at the step's start.
        f = at.preactivations[-1] if here is base else linear_model(net, at, base)
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
            pull_back_(net, at, v, params)
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
    pull_back_(net, at, v, shift)
    return shift, -noise_std * v


def _clone(params: Bodies) -> Bodies:
    return [(w.clone(), b.clone()) for w, b in params]
