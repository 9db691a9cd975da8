"""Gradient flow by an exponential midpoint rule, with error control, over any array library.

One step from theta, with residual r = f(X) - y: linearise at a point theta_m near the step's midpoint, and follow this
linear flow over the whole step,

    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)),     V(Theta, h) = Theta^{-1} (I - e^{-h Theta}).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included; what is left
is the network's own curvature, to second order. The midpoint is found by a linear flow, too: that of the
network linearised at theta, or that of the previous step, followed further. The latter saves every other linearisation
at a small cost in accuracy, but needs V at a second time. So it is used where an eigendecomposition gives V at both
times, and the former where each V is a solve of its own. The first step has no previous one to follow.

The number of steps is doubled until two successive Richardson extrapolations agree to the accuracy asked for.

A backend carries the steps out. Which steps, in which precision (`rndlib.training.flow.precision`), and when they are
accurate enough, is decided here, so that all backends take the same ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from math import inf, sqrt
from operator import or_
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from rndlib.training.flow import conditioning, precision
from rndlib.training.flow.exponential import dense
from rndlib.training.flow.time_grid import clock, stretched
from rndlib.training.pilots import Pilot
from rndlib.training.problem import Problem
from rndlib.training.report import DivergenceError, Report, reference_residual
from rndlib.training.weights import Params

FIRST_STEPS, MOST_STEPS = 1, 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON, NEWTON = 10, np.array([[inf, 0.0]])
RESIDUAL_FLOOR = 1e-9
"""Training residual, relative to the first, at which training has converged."""

State = TypeVar("State")
Functions = Float[np.ndarray, "bodies probes heads"]
Residuals = Float[np.ndarray, "bodies n heads"]
Marks = Bool[np.ndarray, " bodies"]


class FlowSteps(ABC, Generic[State]):
    """A block of bodies in training, as an array library holds it, and the steps that it can take.

    A state holds the parameters and offsets of every body.

    start: the state before training. It is in float64; what it is shifted by may be in float32, which keeps what is
        small.
    """

    start: State

    @abstractmethod
    def largest(self) -> float:
        """The largest eigenvalue of the tangent kernels at the start, noise included, over the bodies."""

    @abstractmethod
    def integrate(
        self, times: Float[np.ndarray, "evaluations 2"], going: Marks, single: bool
    ) -> tuple[State, ArrayLike]:
        """How far evaluations of network and tangent kernel lead from the start, for the marked bodies; others stay.

        Each evaluation has a row of two times: over how long the state follows its linear flow, 0 for not at all, and
        how much longer the way to the next evaluation is, 0 for none. With many unknowns (not
        `rndlib.training.flow.exponential.dense`) one of the two is 0. Steps are in float32 where `single`.

        Returns the shift, and the norm of each body's residual f(X) + noise_std xi - y at the start.
        """

    @abstractmethod
    def extrapolate(
        self, coarse: State, fine: State, probes: Float[np.ndarray, "probes d"]
    ) -> tuple[State, Functions, Functions]:
        """The shift that two shifts, the second of twice the steps, extrapolate to; and the functions at the probes,
        of the extrapolation and of the finer shift."""

    @abstractmethod
    def join(self, marked: Marks, ours: State, theirs: State) -> State:
        """Of two shifts, the first for the marked bodies and the second for the others."""

    @abstractmethod
    def moved(self, state: State, shift: State) -> tuple[State, Residuals]:
        """A state, shifted, and its residual."""

    @abstractmethod
    def newton(self, state: State, left: Residuals, going: Marks, single: bool) -> State:
        """How far one linear flow without an end leads, for the marked bodies: to the nearest interpolant of the linear
        model at a state with the residual `left`. In float32 where `single`, except for the residual."""

    @abstractmethod
    def params(self, state: State) -> Params:
        """A state's parameters, in NumPy."""


def gradient_flow(
    block: FlowSteps[Any],
    problem: Problem,
    time: float,
    rtol: float,
    eigenvalues: Float[np.ndarray, " n"],
    pilot: Pilot | None = None,
) -> tuple[Params, Report, Pilot | None]:
    """The parameters of a block of bodies after gradient flow to `time`, a report, and advice to other bodies.

    `eigenvalues` are those of the infinite-width kernel on X, noise included.

    A second extrapolation more than doubles the cost, and only adds an error estimate. With a `pilot` from other bodies
    of the same description, the error is estimated from how far the first one extrapolates, and only bodies whose
    estimate is too large go on. The pilot also says how many steps to take, and whether to extrapolate, which with few
    steps may do harm. Its time grid is reused; the error estimate covers it. Bodies without a pilot go on together
    until all of them are accurate enough, so that their advice holds for all.

    Raises
    ------
    DivergenceError: a network left the finite numbers, or the accuracy was not reached within MOST_STEPS steps.
    """
    if precision.single(time, rtol, eigenvalues, pilot.steps if pilot else FIRST_STEPS):
        with suppress(DivergenceError):  # Rounding may be why it failed.
            return _gradient_flow(block, problem, time, rtol, eigenvalues, pilot, single=True)
    return _gradient_flow(block, problem, time, rtol, eigenvalues, pilot, single=False)


def _gradient_flow(
    block: FlowSteps[Any],
    problem: Problem,
    time: float,
    rtol: float,
    eigenvalues: Float[np.ndarray, " n"],
    pilot: Pilot | None,
    single: bool,
) -> tuple[Params, Report, Pilot | None]:
    """`gradient_flow` in one precision; in float32, with at most `precision.MOST_STEPS` steps, and none after NaN."""
    # Many heads on one body raise the largest eigenvalue far above its limit; the grid must resolve that, too.
    largest = pilot.largest if pilot else block.largest()
    cut = clock(stretched(eigenvalues, largest), time)
    probes = _around(problem.X)
    advice = conditioning.advice(eigenvalues, time)
    further = f"; {advice}" if advice else ""
    bodies, heads, n_samples = problem.targets.shape
    ahead, leads = dense(n_samples, heads), pilot is None
    evaluations, errors, going = np.zeros(bodies, int), np.full(bodies, inf), np.ones(bodies, bool)

    def integrate(steps: int, going: Marks) -> tuple[Any, ArrayLike]:
        times = _times(cut(steps), ahead)
        evaluations[going] += len(times)
        return block.integrate(times, going, single)

    allowed, most = _allowed(rtol), min(MOST_STEPS, precision.MOST_STEPS) if single else MOST_STEPS
    steps = pilot.steps // 2 if pilot else FIRST_STEPS
    (coarse, first), last = integrate(steps, going), None
    shift = coarse
    while True:
        steps *= 2
        fine, _ = integrate(steps, going)
        new, extrapolated, plain = block.extrapolate(coarse, fine, probes)
        reach = _distances(plain, extrapolated)
        if last is None:
            if pilot:
                errors = np.array([pilot.estimate(far) for far in reach])
                new = new if pilot.extrapolates else fine
        else:
            # With twice the steps, the extrapolation's error falls at least fourfold where the network is smooth, and
            # twofold where it crosses the kinks of relu: its last change then bounds its error. Agreement with the
            # previous finer integration is enough, too, except for many heads on a narrow body. How far it extrapolates
            # would be an estimate one level earlier, but with few steps it can be fifty times too small.
            far, *before = last
            error, by_finer = (_distances(functions, extrapolated) for functions in before)
            pilot = Pilot(steps // 2, _most(far, going), _most(error, going), _most(by_finer, going), largest)
            errors[going] = (np.minimum(error, by_finer) if ahead else error)[going]
        shift = new if going.all() else block.join(going, new, shift)
        last = reach, extrapolated, plain
        inaccurate = ~(errors <= allowed)
        if not inaccurate.any():
            break
        if 2 * steps > most or (single and np.isnan(errors).any()):
            raise DivergenceError(
                f"gradient flow: estimated relative error {errors.max():.1e} after {steps} steps, asked for rtol = "
                f"{rtol:g}: widen the network, use fewer heads a body, or allow a larger rtol{further}"
            )
        if not leads:
            going = inaccurate
        coarse = fine

    first = reference_residual(np.asarray(first, float), _sizes(problem.by_points[0]))
    state, left = block.moved(block.start, shift)
    residual, newton = _sizes(left) / first, 0
    # Steps alone do not come down to RESIDUAL_FLOOR.
    enough = RESIDUAL_FLOOR if time == inf else np.finfo(float).max
    while time == inf and (residual > enough).any() and newton < MOST_NEWTON:
        evaluations[residual > enough] += 1
        state, left = block.moved(state, block.newton(state, left, residual > enough, single))
        residual = _sizes(left) / first
        newton += 1
    if not (residual <= enough).all():
        raise DivergenceError(
            f"gradient flow: training residual {residual.max():.1e} of the first after {newton} Newton steps: the "
            "empirical tangent kernel is singular or nearly so: widen the network, use fewer heads a body, or drop "
            f"close points{further}"
        )
    report = Report(time, float(residual.max()), float(errors.max()), int(evaluations.max()), True)
    return block.params(state), report, pilot


def followed(pilots: Sequence[Pilot], rtol: float) -> Pilot:
    """The advice of several blocks to those that follow, of which half should need no more steps."""
    pilot = reduce(or_, pilots)
    return pilot.finer(_allowed(rtol), float(np.median([p.reach * (p.steps / pilot.steps) ** 2 for p in pilots])))


def _allowed(rtol: float) -> float:
    # A safety factor of two: the probes stand in for points that the caller will choose.
    return rtol / 2


def _times(cut: Float[np.ndarray, " half_steps"], ahead: bool) -> Float[np.ndarray, "evaluations 2"]:
    """The rows of `FlowSteps.integrate` for steps that last so long, each after the way to its midpoint.

    `ahead` has the linear flow of a step followed on to the next midpoint; without, there is an evaluation between.
    """
    to_midpoint, over = cut[::2], cut[1::2]
    if ahead:
        return np.stack([np.append(0.0, over), np.append(to_midpoint, 0.0)], axis=1)
    rows = np.zeros((len(cut), 2))
    rows[::2, 1], rows[1::2, 0] = to_midpoint, over
    return rows


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


def _distances(before: Functions, after: Functions) -> Float[np.ndarray, " bodies"]:
    """Relative distance of two functions of every body, in the norm over probes and heads."""
    size = _sizes(after)
    return _sizes(after - before) / np.where(size > 0, size, 1.0)


def _sizes(values: Float[np.ndarray, "bodies _points heads"]) -> Float[np.ndarray, " bodies"]:
    return np.linalg.norm(values, axis=(1, 2))


def _most(values: Float[np.ndarray, " bodies"], going: Marks) -> float:
    return float(values[going].max())
