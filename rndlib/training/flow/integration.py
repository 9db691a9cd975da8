"""Gradient flow by an exponential midpoint rule, with error control, over any array library.

One step from theta, with residual r = f(X) - y, linearises at a point theta_m near its midpoint, and follows the linear
flow there over the whole step:

    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)),     V(Theta, h) = Theta^{-1} (I - e^{-h Theta}).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included. The only error is
from the network's own curvature, and of second order. A linear flow leads to the midpoint, too: that of the network
linearised at theta, or that of the previous step, followed further. The latter saves every other linearisation at a
small cost in accuracy, but needs V at a second time. So it is used if one kernel matrix gives V at both times, and
the former if each V needs its own solve.

The number of steps is doubled until two successive Richardson extrapolations agree to the required accuracy. Steps,
precision and accuracy are decided here, so all backends (`rndlib.training.steps`) take the same steps.
"""

from collections.abc import Sequence
from functools import reduce
from math import inf, sqrt
from operator import or_

import numpy as np
from jaxtyping import Float

from rndlib.any_network import AnyNetwork
from rndlib.training.flow import conditioning, precision
from rndlib.training.flow.exponential import dense
from rndlib.training.flow.time_grid import clock, stretched
from rndlib.training.lanczos import largest_eigenvalue
from rndlib.training.pilots import Pilot
from rndlib.training.problem import Problem, Spectrum, State
from rndlib.training.protocols import Backend, Marks, Times
from rndlib.training.report import DivergenceError, Report
from rndlib.training.residuals import relative, residual, sizes
from rndlib.training.trees import chosen, mapped
from rndlib.training.weights import Params

FIRST_STEPS, MOST_STEPS = 1, 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON, NEWTON = 10, np.array([[inf, 0.0]])
RESIDUAL_FLOOR = 1e-9
"""Training residual, relative to the first, at which training has converged."""

Functions = Float[np.ndarray, "bodies heads probes"]


def gradient_flow(
    backend: Backend,
    problem: Problem,
    time: float,
    rtol: float,
    spectrum: Spectrum,
    pilot: Pilot | None = None,
    single: bool = False,
) -> tuple[Params, Report, Pilot | None]:
    """The parameters of a block of bodies after gradient flow to `time`, a report, and advice to other bodies.

    `spectrum` is that of the infinite-width kernel on X, noise included. With `single`, steps are in float32.

    A second extrapolation more than doubles the cost, and only adds an error estimate. With a `pilot` from other
    bodies, the error is estimated from the distance that the first one extrapolates, and only bodies whose estimate is
    too large continue. The pilot also sets the number of steps, the time grid, and whether to extrapolate, which can do
    harm with few steps. Bodies without a pilot continue together until all are accurate enough.

    Raises DivergenceError for infinite or NaN values, or if MOST_STEPS steps (in float32, `precision.MOST_STEPS`) are
    not accurate enough.
    """
    # Many heads on one body raise the largest eigenvalue far above its limit; the grid must resolve that, too.
    largest = pilot.largest if pilot else largest_eigenvalue(problem, backend)
    cut = clock(stretched(spectrum.values, largest), time)
    probes = _around(problem.X, isinstance(problem.net, AnyNetwork))
    advice = conditioning.advice(spectrum.values, time)
    further = f"; {advice}" if advice else ""
    bodies, heads, n_samples = problem.targets.shape
    follows_on, is_pilot = dense(n_samples, heads), pilot is None
    evaluations, errors, going = np.zeros(bodies, int), np.full(bodies, inf), np.ones(bodies, bool)
    state = problem.state
    left = first = residual(problem, backend, state)

    def integrate(steps: int, going: Marks) -> State:
        times = _times(cut(steps), follows_on)
        evaluations[going] += len(times)
        return backend.integrate(problem, state, left, spectrum, times, going, single)

    def functions(shift: State) -> Functions:
        dtype = shift[1].dtype
        params = mapped(lambda a, b: a.astype(dtype) + b, state[0], shift[0])
        return backend.functions(problem.net, params, probes, dtype.name)

    # A safety factor of two: the probes stand in for points that the caller will choose.
    allowed, most_steps = rtol / 2, min(MOST_STEPS, precision.MOST_STEPS) if single else MOST_STEPS
    steps = pilot.steps // 2 if pilot else FIRST_STEPS
    shift = coarse = integrate(steps, going)
    # In the memory order of the backend's arrays, because sums of arrays of two orders are slow.
    state = mapped(lambda a, like: np.add(a, 0.0, out=np.empty_like(like, dtype=float)), state, coarse)
    last = None
    while True:
        steps *= 2
        fine = integrate(steps, going)
        new = mapped(lambda a, b: b + (b - a) / 3, coarse, fine)
        extrapolated, plain = functions(new), functions(fine)
        reach = _distances(plain, extrapolated)
        if last is None:
            if pilot:
                errors = np.array([pilot.estimate(distance) for distance in reach])
                new = new if pilot.extrapolates else fine
        else:
            # With twice the steps, the extrapolation's error falls at least fourfold for smooth networks, and twofold
            # across the kinks of relu: its last change then bounds its error. Agreement with the previous finer
            # integration is enough, too, except for many heads on a narrow body.
            reached, *before = last
            error, plain_error = (_distances(values, extrapolated) for values in before)
            most = [float(distances[going].max()) for distances in (reached, error, plain_error)]
            pilot = Pilot(steps // 2, *most, largest=largest)
            errors[going] = (np.minimum(error, plain_error) if follows_on else error)[going]
        shift = new if going.all() else chosen(going, new, shift)
        last = reach, extrapolated, plain
        inaccurate = ~(errors <= allowed)
        if not inaccurate.any():
            break
        if 2 * steps > most_steps or (single and np.isnan(errors).any()):
            off = errors.max()
            found = "is not finite" if np.isnan(off) else f"has an estimated relative error of {off:.1e}"
            raise DivergenceError(
                f"gradient flow: the trained function {found} after {steps} steps, asked for rtol = {rtol:g}: widen "
                f"the network, use fewer heads per body, or allow a larger rtol{further}"
            )
        if not is_pilot:
            going = inaccurate
        coarse = fine

    state = mapped(np.add, state, shift)
    # Steps alone do not reach RESIDUAL_FLOOR.
    enough, newton = RESIDUAL_FLOOR if time == inf else np.finfo(float).max, 0
    while True:
        left = residual(problem, backend, state)
        remaining = relative(left, first, problem.targets)
        going = remaining > enough
        if time < inf or not going.any() or newton == MOST_NEWTON:
            break
        evaluations[going] += 1
        state = mapped(np.add, state, backend.integrate(problem, state, left, spectrum, NEWTON, going, single))
        newton += 1
    if not (remaining <= enough).all():
        raise DivergenceError(
            f"gradient flow: training residual {remaining.max():.1e} of the first after {newton} Newton steps: the "
            "empirical tangent kernel is singular or nearly so: widen the network, use fewer heads per body, or drop "
            f"close points{further}"
        )
    return state[0], Report(time, float(remaining.max()), float(errors.max()), int(evaluations.max()), True), pilot


def followed(pilots: Sequence[Pilot], rtol: float) -> Pilot:
    """The joint advice of several blocks to the next ones, of which half should need no more steps."""
    pilot = reduce(or_, pilots)
    return pilot.finer(rtol / 2, float(np.median([p.reach * (p.steps / pilot.steps) ** 2 for p in pilots])))


def _times(cut: Float[np.ndarray, " half_steps"], follows_on: bool) -> Times:
    """The rows of `Backend.integrate` for steps of these lengths, each after the way to its midpoint.

    `follows_on`: whether the linear flow of a step is followed to the next midpoint, or an evaluation comes between.
    """
    to_midpoint, over = cut[::2], cut[1::2]
    if follows_on:
        return np.stack([np.append(0.0, over), np.append(to_midpoint, 0.0)], axis=1)
    rows = np.zeros((len(cut), 2))
    rows[::2, 1], rows[1::2, 0] = to_midpoint, over
    return rows


def _around(X: np.ndarray, own: bool = False) -> np.ndarray:
    """Points with the data's mean and covariance that are not training points: mirrored ones, sums, differences.

    For a single point: points around it, at its own distance from the origin (or 1).

    own : for a network of the user's own, which may take whole numbers alone, every coordinate keeps its values: they
        are permuted over the points.
    """
    if own:
        return np.concatenate([np.random.default_rng(seed).permuted(X, axis=0) for seed in range(3)])
    if len(X) == 1:
        size = np.sqrt(np.mean(X**2))
        return X + (size or 1.0) * np.eye(X.size).reshape(-1, *X.shape[1:])
    mean = X.mean(0)
    centred, neighbour = X - mean, np.roll(X - mean, 1, axis=0)
    return mean + np.concatenate([-centred, (centred + neighbour) / sqrt(2), (centred - neighbour) / sqrt(2)])


def _distances(before: Functions, after: Functions) -> Float[np.ndarray, " bodies"]:
    """Relative distance of two functions of every body, in the norm over probes and heads."""
    size = sizes(after)
    return sizes(after - before) / np.where(size > 0, size, 1.0)
