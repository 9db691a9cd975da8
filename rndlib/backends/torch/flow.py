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
from rndlib.solvers import GradientFlow, Pilot, Report

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

    def integrate(state: State, durations: np.ndarray) -> State:
        params, offsets = _clone(state[0]), state[1].clone()
        for base, xi, y in groups(net, params, offsets, targets):
            _integrate(net, base, xi, X, y, noise_std, spectrum, durations)
        return params, offsets

    def extrapolate(coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        at = torch.tensor(probes, device=X.device)
        state: State = tree_map(lambda a, b: b + (b - a) / 3, coarse, fine)
        extrapolated, plain = (apply(net, params, at).cpu().numpy() for params, _ in (state, fine))
        return state, extrapolated, plain

    def largest() -> float:
        return largest_eigenvalue(net, params, X) + noise_std**2

    block = flow.Block((params, offsets), largest, residual, integrate, extrapolate)
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
    durations: np.ndarray,
) -> None:
    """Half-steps of a group of bodies, in place: to a midpoint, over the step, to the next midpoint, and so on.

    Both start where the step does, at `base`; what differs is where the network is linearised, at `here`.
    """
    here, ahead = base, _clone(base)
    for index, duration in enumerate(durations.tolist()):
        at = linearise(net, here, X)
        # The residual that the linear model at `here` has at the step's start.
        f = at.preactivations[-1] if here is base else linear_model(net, at, base)
        v = flow_integral(at, f + noise_std * offsets - y, duration, noise_std**2, spectrum)
        if index % 2 or index + 1 == len(durations):
            here = base
            offsets.sub_(v, alpha=noise_std)
        else:
            here = ahead
            for (w, b), (w_base, b_base) in zip(ahead, base, strict=True):
                w.copy_(w_base)
                b.copy_(b_base)
        pull_back_(net, at, v, here)


def _clone(params: Bodies) -> Bodies:
    return [(w.clone(), b.clone()) for w, b in params]
