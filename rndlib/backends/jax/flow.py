"""Gradient flow by an exponential midpoint rule on a time grid that the exact kernel lays out.

One step from theta, with residual r = f(X) - y: linearise at theta and follow that linear flow to the step's
midpoint; linearise there, and follow this second linear flow over the whole step,

    theta_m = theta - J_0' V(Theta_0, h_m) r,             V(Theta, h) = Theta^{-1} (I - e^{-h Theta}),
    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included; what is left
is the network's own curvature, to second order. The whole integration is repeated with twice the steps, and two
successive ones give a Richardson extrapolation, until two successive extrapolations agree; the last is returned.
"""

from functools import partial
from math import inf, sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib.backends.jax.exponential import Spectrum, flow_integral
from rndlib.backends.jax.linearise import Bodies, Params, apply, linearise, pull_back, push_forward
from rndlib.backends.jax.spectrum import largest_eigenvalue
from rndlib.network import MLP
from rndlib.solvers import CLOSE, DivergenceError, GradientFlow, Report

FIRST_STEPS, MOST_STEPS = 1, 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON = 10
RESIDUAL_FLOOR = 1e-9
"""Training residual, relative to the first, at which training has converged."""

State = tuple[Bodies, Array]


def grid(eigenvalues: np.ndarray, time: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Durations of `steps` steps, and of the way to each one's midpoint, each (steps,).

    A mode of the kernel with eigenvalue lambda moves while lambda t is of order one. So time is replaced by progress
    u(t) = sum_i w_i lambda_i t / (1 + lambda_i t), from 0 to 1, and steps are equal in u. The weights
    w_i ~ lambda_i^{-1/4} favour the slow modes, which move the parameters furthest. Midpoints are midpoints in u;
    as u is smooth in t, the rule stays second order.
    """
    values = eigenvalues
    weights = values**-0.25 / np.sum(values**-0.25)

    def progress(t: np.ndarray) -> np.ndarray:
        done = values * t[:, None]
        return (weights * done / (1 + done)).sum(1)

    fine = np.concatenate([[0.0], np.geomspace(1e-8 / values.max(), 1e8 / values.min(), 20_001)])
    end = 1.0 if time == inf else progress(np.array([min(time, fine[-1])]))[0]
    times = np.interp(np.linspace(0, end, 2 * steps + 1), progress(fine), fine)
    times[-1] = time
    return np.diff(times[::2]), times[1::2] - times[:-1:2]


def _minus(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.subtract, a, b)


def _step(
    net: MLP,
    X: Array,
    y: Array,
    noise_std: Array,
    spectrum: Spectrum,
    state: tuple[Params, Array],
    h: Array,
    half: Array,
):
    noise = noise_std**2
    params, offsets = state
    f, at = linearise(net, params, X)
    v = flow_integral(at, f + noise_std * offsets - y, half, noise, spectrum)
    to_middle = pull_back(net, at, v)
    middle, middle_offsets = _minus(params, to_middle), offsets - noise_std * v
    f, at = linearise(net, middle, X)
    # The residual that the linear model at the midpoint has at the step's start.
    start = f + noise_std * middle_offsets - y + push_forward(net, at, to_middle) + noise * v
    v = flow_integral(at, start, h, noise, spectrum)
    return _minus(params, pull_back(net, at, v)), offsets - noise_std * v


@partial(jax.jit, static_argnames="net")
def _integrate(net, state, X, targets, noise_std, spectrum, durations, halves, steps):
    def one(state, y):
        def step(i, state):
            return _step(net, X, y, noise_std, spectrum, state, durations[i], halves[i])

        return lax.fori_loop(0, steps, step, state)

    return jax.vmap(one)(state, targets)


@partial(jax.jit, static_argnames="net")
def _newton(net, state, X, targets, noise_std, spectrum):
    """An infinite step of the linearised flow: the nearest interpolant of the linear model."""

    def one(state, y):
        params, offsets = state
        f, at = linearise(net, params, X)
        v = flow_integral(at, f + noise_std * offsets - y, jnp.asarray(jnp.inf), noise_std**2, spectrum)
        return _minus(params, pull_back(net, at, v)), offsets - noise_std * v

    return jax.vmap(one)(state, targets)


@partial(jax.jit, static_argnames="net")
def _residual(net, state, X, targets, noise_std):
    params, offsets = state
    f = jax.vmap(lambda p: apply(net, p, X))(params)
    return jnp.sqrt(jnp.sum((f + noise_std * offsets - targets) ** 2, axis=(1, 2)))


@partial(jax.jit, static_argnames="net")
def _probe(net, state, probes):
    return jax.vmap(lambda p: apply(net, p, probes))(state[0])


def gradient_flow(
    net: MLP,
    solver: GradientFlow,
    params: Bodies,
    offsets: Float[Array, "bodies n heads"],
    X: Float[Array, "n d"],
    targets: Float[Array, "bodies n heads"],
    noise_std: float,
    spectrum: Spectrum,
) -> tuple[Bodies, Report]:
    """The parameters of a block of bodies after gradient flow, each on its own targets.

    Raises
    ------
    DivergenceError: a network left the finite numbers, or the accuracy was not reached within MOST_STEPS steps.
    """
    start = (params, offsets)
    first = jnp.maximum(_residual(net, start, X, targets, noise_std), CLOSE * jnp.linalg.norm(targets, axis=(1, 2)))
    probes = _around(X)
    # Many heads on one body raise the top of the spectrum far above its limit; the grid must resolve that, too.
    values = _stretched(np.asarray(spectrum.values), float(jnp.max(largest_eigenvalue(net, params, X, noise_std**2))))
    evaluations = 0

    def integrate(steps: int) -> State:
        nonlocal evaluations
        evaluations += 2 * steps
        durations, halves = (np.zeros(MOST_STEPS), np.zeros(MOST_STEPS))
        durations[:steps], halves[:steps] = grid(values, solver.time, steps)
        return _integrate(net, start, X, targets, noise_std, spectrum, durations, halves, steps)

    steps, error = FIRST_STEPS, inf
    coarse, state, extrapolated = integrate(steps), start, None
    # A safety factor of two: the probes stand in for points that the caller will choose.
    while not error <= solver.rtol / 2:
        if steps == MOST_STEPS:
            raise DivergenceError(
                f"gradient flow: estimated relative error {error:.1e} after {steps} steps, asked for rtol = "
                f"{solver.rtol:g}: widen the network, use fewer heads a body, or allow a larger rtol"
            )
        steps *= 2
        fine = integrate(steps)
        state = jax.tree.map(lambda a, b: b + (b - a) / 3, coarse, fine)
        previous, extrapolated = extrapolated, _probe(net, state, probes)
        # Where the network is smooth, the extrapolation's error falls at least fourfold with twice the steps; where it
        # crosses the kinks of relu, twofold: its last change then is its error. The change from `coarse` to `fine`
        # would serve a level earlier, but not reliably: with few steps it has come out fifty times too small.
        if previous is not None:
            error = _distance(previous, extrapolated)
        coarse = fine

    residual = _relative(_residual(net, state, X, targets, noise_std), first)
    newton = 0
    while solver.time == inf and residual > RESIDUAL_FLOOR and newton < MOST_NEWTON:
        state = _newton(net, state, X, targets, noise_std, spectrum)
        residual = _relative(_residual(net, state, X, targets, noise_std), first)
        newton += 1
    converged = residual <= RESIDUAL_FLOOR if solver.time == inf else bool(np.isfinite(residual))
    if not converged:
        raise DivergenceError(
            f"gradient flow: training residual {residual:.1e} of the first after {newton} Newton steps: the empirical "
            "tangent kernel is singular or nearly so: widen the network, use fewer heads a body, or drop close points"
        )
    return state[0], Report(solver.time, residual, error, evaluations + newton, True)


def _stretched(eigenvalues: np.ndarray, largest: float) -> np.ndarray:
    """The eigenvalues, stretched on a logarithmic scale so that the smallest stays and the largest is as given."""
    values = np.maximum(eigenvalues, 1e-12 * eigenvalues.max())
    spread = np.log(values.max() / values.min())
    return values * (largest / values.max()) ** (np.log(values / values.min()) / spread if spread > 0 else 1.0)


def _around(X: Array) -> Array:
    """Points with the data's mean and covariance that are not training points: mirrored ones, sums, differences.

    A single point says nothing of the covariance: there, points at its own distance from the origin (or 1) around it.
    """
    if len(X) == 1:
        size = jnp.sqrt(jnp.mean(X**2))
        return X + jnp.where(size > 0, size, 1.0) * jnp.eye(X.shape[1])
    mean = X.mean(0)
    centred, neighbour = X - mean, jnp.roll(X - mean, 1, axis=0)
    return mean + jnp.concatenate([-centred, (centred + neighbour) / sqrt(2), (centred - neighbour) / sqrt(2)])


def _distance(a: Array, b: Array) -> float:
    """Largest relative distance of two functions over the bodies, in the norm over probes and heads."""
    size = jnp.linalg.norm(b, axis=(1, 2))
    return float(jnp.max(jnp.linalg.norm(b - a, axis=(1, 2)) / jnp.where(size > 0, size, 1.0)))


def _relative(residual: Array, first: Array) -> float:
    return float(jnp.max(residual / jnp.where(first > 0, first, 1.0)))
