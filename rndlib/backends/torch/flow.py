"""Gradient flow of a block of bodies in PyTorch: the steps that `rndlib.flow` drives."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_map

from rndlib import flow
from rndlib.backends.torch.exponential import Spectrum, flow_integral
from rndlib.backends.torch.groups import groups, norms
from rndlib.backends.torch.linearise import Bodies, apply, linear_model, linearise, pull_back_
from rndlib.backends.torch.spectrum import largest_eigenvalue
from rndlib.network import MLP
from rndlib.pilots import Pilot
from rndlib.solvers import GradientFlow, Report

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
    """The parameters of a block of bodies after gradient flow, each on its own targets; see `rndlib.flow`."""

    def residual(state: State) -> np.ndarray:
        return norms(apply(net, state[0], X) + noise_std * state[1] - targets).cpu().numpy()

    def integrate(state: State, times: np.ndarray, going: np.ndarray) -> State:
        marked = torch.tensor(np.flatnonzero(going), device=X.device)
        params, offsets, y = tree_map(lambda whole: whole[marked], (*state, targets))
        for base, xi, own in groups(net, params, offsets, y):
            _integrate(net, base, xi, X, own, noise_std, spectrum, times)
        return tree_map(lambda whole, part: whole.index_copy(0, marked, part), state, (params, offsets))

    def extrapolate(coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        at = torch.tensor(probes, device=X.device)
        state: State = tree_map(lambda a, b: b + (b - a) / 3, coarse, fine)
        extrapolated, plain = (apply(net, params, at).cpu().numpy() for params, _ in (state, fine))
        return state, extrapolated, plain

    def join(marked: np.ndarray, ours: State, theirs: State) -> State:
        which = torch.tensor(marked, device=X.device)
        return tree_map(lambda a, b: torch.where(which.view(-1, *[1] * (a.dim() - 1)), a, b), ours, theirs)

    def largest() -> float:
        return largest_eigenvalue(net, params, X) + noise_std**2

    block = flow.Block((params, offsets), largest, residual, integrate, extrapolate, join)
    values = spectrum.values.cpu().numpy()
    state, report = flow.gradient_flow(block, solver, X.cpu().numpy(), targets.cpu().numpy(), values, pilot)
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
) -> None:
    """Evaluations of a group of bodies, in place, each at its row of `times`; see `rndlib.flow.Block`."""
    # A midpoint is written while `at` still has the weights of the one before.
    here, next_one, other = base, _clone(base), _clone(base)
    for over, ahead in times.tolist():
        at = linearise(net, here, X)
        # The residual that the linear model at `here` has at the step's start.
        f = at.preactivations[-1] if here is base else linear_model(net, at, base)
        r = f + noise_std * offsets - y
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
        for (params, _), v in zip(moving, vs, strict=True):
            pull_back_(net, at, v, params)
        if over:
            offsets.sub_(vs[-1], alpha=noise_std)


def _clone(params: Bodies) -> Bodies:
    return [(w.clone(), b.clone()) for w, b in params]
