"""Gradient flow by an exponential midpoint rule on a time grid that the exact kernel lays out.

One step from theta, with residual r = f(X) - y: linearise at theta and follow that linear flow to the step's
midpoint; linearise there, and follow this second linear flow over the whole step,

    theta_m = theta - J_0' V(Theta_0, h_m) r,             V(Theta, h) = Theta^{-1} (I - e^{-h Theta}),
    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included; what is left
is the network's own curvature, to second order. The whole integration is repeated with twice the steps, and two
successive ones give a Richardson extrapolation, until two successive extrapolations agree; the last is returned.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, exp, inf, log, sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib.backends.jax.exponential import Spectrum, flow_integral
from rndlib.backends.jax.linearise import Bodies, Params, apply, linearise, pull_back, push_forward
from rndlib.backends.jax.programs import WIDE, program
from rndlib.backends.jax.spectrum import largest_eigenvalue
from rndlib.network import MLP
from rndlib.solvers import CLOSE, DivergenceError, GradientFlow, Pilot, Report

FIRST_STEPS, MOST_STEPS = 1, 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON = 10
RESIDUAL_FLOOR = 1e-9
"""Training residual, relative to the first, at which training has converged."""

State = tuple[Bodies, Array]


@lru_cache(maxsize=64)
def clock(spectrum: tuple[float, ...], time: float) -> Callable[[int], np.ndarray]:
    """How to cut `time` into a number of steps: the way to each one's midpoint and its duration in turn, (2 steps,).

    `spectrum` has the kernel's eigenvalues. A mode with eigenvalue lambda moves while lambda t is of order one. So
    time is replaced by progress u(t) = sum_i w_i lambda_i t / (1 + lambda_i t), from 0 to 1, and steps are equal in u.
    The weights w_i ~ lambda_i^{-1/4} favour the slow modes, which move the parameters furthest. Midpoints are
    midpoints in u; as u is smooth in t, the rule stays second order.
    """
    eigenvalues = np.array(spectrum)
    weights = eigenvalues**-0.25 / np.sum(eigenvalues**-0.25)

    def progress(t: np.ndarray) -> np.ndarray:
        done = eigenvalues * t[:, None]
        return (weights * done / (1 + done)).sum(1)

    fine = np.concatenate([[0.0], np.geomspace(1e-8 / eigenvalues.max(), 1e8 / eigenvalues.min(), 20_001)])
    table = progress(fine)
    end = 1.0 if time == inf else progress(np.array([min(time, fine[-1])]))[0]

    def cut(steps: int) -> np.ndarray:
        times = np.interp(np.linspace(0, end, 2 * steps + 1), table, fine)
        times[-1] = time
        return times[1:] - np.repeat(times[:-1:2], 2)

    return cut


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
            # The residual that the linear model at `here` has at the step's start.
            r = f + push_forward(net, at, _minus(params, here[0])) + noise_std * offsets - y
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
    extrapolated, plain = (lax.map(lambda p: apply(net, p, probes), params) for params, _ in (state, fine))
    return state, extrapolated, plain


@program(**WIDE)
def _residual(net, state, X, targets, noise_std):
    params, offsets = state
    f = lax.map(lambda p: apply(net, p, X), params)
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
    """The parameters of a block of bodies after gradient flow, each on its own targets.

    Two extrapolations cost more than twice what the first of them did, and all they add is an estimate of its error.
    With a `pilot` from other bodies of the same description that estimate is made from how far the first one
    extrapolates, and the second is left to blocks where this is not small enough.

    Raises
    ------
    DivergenceError: a network left the finite numbers, or the accuracy was not reached within MOST_STEPS steps.
    """
    start = (params, offsets)
    noise = jnp.asarray(noise_std)

    def residual_of(state: State) -> np.ndarray:
        return np.asarray(_residual(net, state, X, targets, noise))

    first = np.maximum(residual_of(start), CLOSE * np.linalg.norm(np.asarray(targets), axis=(1, 2)))
    # Many heads on one body raise the top of the spectrum far above its limit; the grid must resolve that, too.
    largest = float(largest_eigenvalue(net, params, X, noise**2))
    cut = clock(_stretched(np.asarray(spectrum.values), largest), solver.time)
    probes = _around(np.asarray(X))
    evaluations = 0

    def integrate(state: State, durations: np.ndarray) -> State:
        nonlocal evaluations
        evaluations += len(durations)
        # Of one shape for every number of steps, so that all are one program.
        padded = np.zeros(2 * MOST_STEPS)
        padded[: len(durations)] = durations
        return _integrate(net, state, X, targets, noise, spectrum, padded, np.asarray(len(durations)))

    steps = pilot.steps // 2 if pilot else FIRST_STEPS
    coarse, last = integrate(start, cut(steps)), None
    # A safety factor of two: the probes stand in for points that the caller will choose.
    allowed = solver.rtol / 2
    while True:
        steps *= 2
        fine = integrate(start, cut(steps))
        state, extrapolated, plain = _extrapolate(net, coarse, fine, probes)
        reach = _distance(plain, extrapolated)
        if last is None:
            error = pilot.estimate(reach) if pilot else inf
        else:
            # Where the network is smooth, the extrapolation's error falls at least fourfold with twice the steps;
            # where it crosses the kinks of relu, twofold: its last change then is its error. How far it extrapolates
            # would serve a level earlier, but not reliably: with few steps it has come out fifty times too small.
            before, far = last
            error = _distance(before, extrapolated)
            pilot = Pilot(steps // 2, far, error)
        last = extrapolated, reach
        if error <= allowed:
            break
        if steps == MOST_STEPS:
            raise DivergenceError(
                f"gradient flow: estimated relative error {error:.1e} after {steps} steps, asked for rtol = "
                f"{solver.rtol:g}: widen the network, use fewer heads a body, or allow a larger rtol"
            )
        coarse = fine

    residual, newton = _relative(residual_of(state), first), 0
    while solver.time == inf and residual > RESIDUAL_FLOOR and newton < MOST_NEWTON:
        # One linear flow without an end, from where it is linearised: to the nearest interpolant of the linear model.
        state = integrate(state, np.array([inf]))
        residual = _relative(residual_of(state), first)
        newton += 1
    converged = residual <= RESIDUAL_FLOOR if solver.time == inf else bool(np.isfinite(residual))
    if not converged:
        raise DivergenceError(
            f"gradient flow: training residual {residual:.1e} of the first after {newton} Newton steps: the empirical "
            "tangent kernel is singular or nearly so: widen the network, use fewer heads a body, or drop close points"
        )
    return state[0], Report(solver.time, residual, error, evaluations, True, pilot)


def _stretched(eigenvalues: np.ndarray, largest: float) -> tuple[float, ...]:
    """The eigenvalues, stretched on a logarithmic scale so that the smallest stays and the largest is as given.

    To within a tenth, so that most blocks of a fit share a clock.
    """
    if largest > 0:
        largest = exp(ceil(10 * log(largest)) / 10)
    values = np.maximum(eigenvalues, 1e-12 * eigenvalues.max())
    spread = np.log(values.max() / values.min())
    return tuple(values * (largest / values.max()) ** (np.log(values / values.min()) / spread if spread > 0 else 1.0))


def _around(X: np.ndarray) -> np.ndarray:
    """Points with the data's mean and covariance that are not training points: mirrored ones, sums, differences.

    A single point says nothing of the covariance: there, points at its own distance from the origin (or 1) around it.
    """
    if len(X) == 1:
        size = np.sqrt(np.mean(X**2))
        return X + (size or 1.0) * np.eye(X.shape[1])
    mean = X.mean(0)
    centred, neighbour = X - mean, np.roll(X - mean, 1, axis=0)
    return mean + np.concatenate([-centred, (centred + neighbour) / sqrt(2), (centred - neighbour) / sqrt(2)])


def _distance(a: Array, b: Array) -> float:
    """Largest relative distance of two functions over the bodies, in the norm over probes and heads."""
    before, after = np.asarray(a), np.asarray(b)
    size = np.linalg.norm(after, axis=(1, 2))
    return float(np.max(np.linalg.norm(after - before, axis=(1, 2)) / np.where(size > 0, size, 1.0)))


def _relative(residual: np.ndarray, first: np.ndarray) -> float:
    return float(np.max(residual / np.where(first > 0, first, 1.0)))
