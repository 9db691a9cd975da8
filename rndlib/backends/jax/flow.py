"""Gradient flow of a block of bodies in JAX: the compiled programs that `rndlib.flow` drives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib import flow
from rndlib.backends.jax.exponential import Spectrum, flow_integral
from rndlib.backends.jax.linearise import Bodies, Params, apply, linearise, pull_back, push_forward, scaled
from rndlib.backends.jax.programs import WIDE, program
from rndlib.backends.jax.spectrum import largest_eigenvalue
from rndlib.network import MLP
from rndlib.solvers import GradientFlow, Pilot, Report

State = tuple[Bodies, Array]


def _minus(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.subtract, a, b)


@program(**WIDE)
def _integrate(net, state, X, targets, noise_std, spectrum, durations, count):
    """`count` steps of half a step each: to a midpoint, over the step, to the next midpoint, and so on.

    `durations` has the times of both, in turn. Both start where the step does, at `base`; what differs is where the
    network is linearised, at `here`.
    """
    noise = noise_std**2

    def one(body):
        state, y = body

        def half_step(i, carry):
            base, here = carry
            params, offsets = base
            f, at = linearise(net, here[0], X)
            # r is the residual that the linear model at `here` has at the step's start, where it is on the way to a
            # midpoint. The branch is given the change as an array: XLA would compute it anew for every point.
            change = scaled(net, _minus(params, here[0]))
            moved = lax.cond(i % 2, partial(push_forward, at), lambda _: jnp.zeros_like(f), change)
            r = f + moved + noise_std * offsets - y
            v = flow_integral(at, r, durations[i], noise, spectrum)
            new = _minus(params, pull_back(net, at, v)), offsets - noise_std * v
            return jax.tree.map(lambda old, new: jnp.where(i % 2, new, old), base, new), new

        return lax.fori_loop(0, count, half_step, (state, state))[1]

    # One body after the other: what it needs then stays in the cache, and none waits for another's solves. Nor must
    # eigenproblems be batched: jaxlib 0.10 hands those of a batch to the few threads that run the programs asking for
    # them, and two such programs at once wait for each other for good.
    return lax.map(one, (state, targets))


@program(**WIDE)
def _extrapolate(net, coarse, fine, probes):
    """The state that two integrations extrapolate to, and the functions at the probes of it and of the finer one."""
    state = jax.tree.map(lambda a, b: b + (b - a) / 3, coarse, fine)
    extrapolated, plain = (lax.map(lambda p: apply(net, scaled(net, p), probes), params) for params, _ in (state, fine))
    return state, extrapolated, plain


@program(**WIDE)
def _residual(net, state, X, targets, noise_std):
    params, offsets = state
    f = lax.map(lambda p: apply(net, scaled(net, p), X), params)
    return jnp.sqrt(jnp.sum((f + noise_std * offsets - targets) ** 2, axis=(1, 2)))


def gradient_flow(
    net: MLP,
    solver: GradientFlow,
    params: Bodies,
    offsets: Float[Array, "bodies n heads"],
    X: Float[Array, "n d"],
    targets: Float[Array, "bodies n heads"],
    noise_std: float,
    spectrum: Spectrum,
    pilot: Pilot | None = None,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after gradient flow, each on its own targets; see `rndlib.flow`."""
    noise = jnp.asarray(noise_std)

    def residual(state: State) -> np.ndarray:
        return np.asarray(_residual(net, state, X, targets, noise))

    def integrate(state: State, durations: np.ndarray) -> State:
        # Of one shape for every number of steps, so that all are one program.
        padded = np.zeros(2 * flow.MOST_STEPS)
        padded[: len(durations)] = durations
        return _integrate(net, state, X, targets, noise, spectrum, padded, np.asarray(len(durations)))

    def extrapolate(coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        state, extrapolated, plain = _extrapolate(net, coarse, fine, probes)
        return state, np.asarray(extrapolated), np.asarray(plain)

    def largest() -> float:
        return largest_eigenvalue(net, params, X) + noise_std**2

    block = flow.Block((params, offsets), largest, residual, integrate, extrapolate)
    state, report = flow.gradient_flow(
        block, solver, np.asarray(X), np.asarray(targets), np.asarray(spectrum.values), pilot
    )
    return state[0], report
