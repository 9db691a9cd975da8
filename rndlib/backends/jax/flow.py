"""Gradient flow of a block of bodies in JAX: the compiled programs that `rndlib.flow` drives."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib import flow
from rndlib.backends.jax.exponential import Spectrum, flow_integral
from rndlib.backends.jax.linearise import (
    Bodies,
    Given,
    Params,
    apply,
    linearise,
    pull_back,
    pull_back_each,
    push_forward,
    scaled,
)
from rndlib.backends.jax.programs import WIDE, program
from rndlib.backends.jax.spectrum import largest_eigenvalue
from rndlib.exponential import dense
from rndlib.network import MLP
from rndlib.pilots import Pilot
from rndlib.solvers import GradientFlow, Report

State = tuple[Bodies, Given]


def _minus(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.subtract, a, b)


@program(**WIDE)
def _integrate(net, state, X, targets, noise_std, spectrum, times, counts):
    """So many evaluations of every body, each at its row of `times`; see `rndlib.flow.Block`."""
    noise = noise_std**2

    def one(body):
        state, y, count = body

        def evaluate(i, carry):
            (params, offsets), here = carry
            f, at = linearise(net, here, X)
            # r is the residual that the linear model at `here` has at the step's start, where it may be linearised. The
            # branch is given the change as an array: XLA would compute it anew for every point.
            away = (i > 0) & (times[i - 1, 1] > 0)
            change = scaled(net, _minus(params, here))
            moved = lax.cond(away, partial(push_forward, at), lambda _: jnp.zeros_like(f), change)
            r = f + moved + noise_std * offsets - y
            over, ahead = times[i]
            if dense(*r.shape):
                v = flow_integral(at, r, jnp.stack([over, over + ahead]), noise, spectrum)
                change = pull_back_each(net, at, v)
                new, here = (jax.tree.map(lambda p, c, k=k: p - c[k], params, change) for k in (0, 1))
                return (new, offsets - noise_std * v[0]), here
            v = flow_integral(at, r, over + ahead, noise, spectrum)
            here = _minus(params, pull_back(net, at, v))
            there = here, offsets - noise_std * v
            return jax.tree.map(lambda old, new: jnp.where(ahead > 0, old, new), (params, offsets), there), here

        return lax.fori_loop(0, count, evaluate, (state, state[0]))[0]

    # One body after the other: what it needs then stays in the cache, and none waits for another's solves. Nor must
    # eigenproblems be batched: jaxlib 0.10 hands those of a batch to the few threads that run the programs asking for
    # them, and two such programs at once wait for each other for good.
    return lax.map(one, (state, targets, counts))


@program(**WIDE)
def _extrapolate(net, coarse, fine, probes):
    """The state that two integrations extrapolate to, and the functions at the probes of it and of the finer one."""
    state = jax.tree.map(lambda a, b: b + (b - a) / 3, coarse, fine)
    extrapolated, plain = (lax.map(lambda p: apply(net, scaled(net, p), probes), params) for params, _ in (state, fine))
    return state, extrapolated, plain


@program()
def _join(net, marked, ours, theirs):
    def choose(ours, theirs):
        return jnp.where(marked.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)

    return jax.tree.map(choose, ours, theirs)


@program(**WIDE)
def _residual(net, state, X, targets, noise_std):
    params, offsets = state
    f = lax.map(lambda p: apply(net, scaled(net, p), X), params)
    return jnp.sqrt(jnp.sum((f + noise_std * offsets - targets) ** 2, axis=(1, 2)))


def gradient_flow(
    net: MLP,
    solver: GradientFlow,
    params: Bodies,
    offsets: Float[np.ndarray, "bodies n heads"],
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies n heads"],
    noise_std: float,
    spectrum: Spectrum,
    pilot: Pilot | None = None,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after gradient flow, each on its own targets; see `rndlib.flow`."""
    noise = np.asarray(noise_std)

    def residual(state: State) -> np.ndarray:
        return np.asarray(_residual(net, state, X, targets, noise))

    def integrate(state: State, times: np.ndarray, going: np.ndarray) -> State:
        rows = _padded(times.tobytes())
        return _integrate(net, state, X, targets, noise, spectrum, rows, np.where(going, len(times), 0))

    def extrapolate(coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        state, extrapolated, plain = _extrapolate(net, coarse, fine, probes)
        return state, np.asarray(extrapolated), np.asarray(plain)

    def join(marked: np.ndarray, ours: State, theirs: State) -> State:
        return _join(net, marked, ours, theirs)

    def largest() -> float:
        return largest_eigenvalue(net, params, X) + noise_std**2

    block = flow.Block((params, offsets), largest, residual, integrate, extrapolate, join)
    state, report = flow.gradient_flow(block, solver, X, targets, np.asarray(spectrum.values), pilot)
    return state[0], report


@lru_cache(maxsize=8)
def _padded(times: bytes) -> Float[Array, "rows 2"]:
    """Rows of times, of one shape for every number of steps, so that all are one program; most blocks share theirs."""
    padded = np.zeros((2 * flow.MOST_STEPS, 2))
    padded.ravel()[: len(times) // padded.itemsize] = np.frombuffer(times)
    return jnp.asarray(padded)
