"""Gradient flow of a block of bodies by an exponential midpoint rule, with error control.

One step from theta, with residual r = f(X) - y, linearises at a point theta_m near its midpoint, and follows the linear
flow there over the whole step:

    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)),     V(Theta, h) = Theta^{-1} (I - e^{-h Theta}).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included. The only error is
from the network's own curvature, and of second order. The linear flow of a step, followed further, leads to the
midpoint of the next, so that each step needs one linearisation. The number of steps is doubled until two successive
Richardson extrapolations agree to the required accuracy.

An `MLP` is linearised in float32, where its rounding is too small to count. Its parameters, the residual from which an
integration starts, and all linear algebra are in float64: how exactly training points are fitted does not depend on it.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib.any_network import AnyNetwork, Network
from rndlib.network import MLP
from rndlib.training import conditioning
from rndlib.training.backends import Backend
from rndlib.training.backends.linearised import chunked
from rndlib.training.clock import clock
from rndlib.training.exponential import dense, flow_integral
from rndlib.training.probes import probes
from rndlib.training.problem import Problem, Spectrum, relative
from rndlib.training.report import DivergenceError, Report
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

EXTRAPOLATED = 1 / 3
"""Weight of the difference from half the steps in an extrapolation of second order."""

MOST_STEPS = 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON, RESIDUAL_FLOOR = 10, 1e-9
"""Most steps of Newton's method, and the training residual, relative to the first, at which training has converged."""

SINGLE_RTOL, SINGLE_STIFFNESS, SINGLE_STEPS = 4e-4, 2.0**18, 256
"""The least rtol, the largest stiffness ratio, and the most steps for which networks are linearised in float32. Within
these limits it changes the trained function by at most 2e-5. A network that needs more steps magnifies rounding."""


class Hint(NamedTuple):
    """What other bodies of the same network needed: a number of steps, and the relative error that these left.

    `reach` is how far the extrapolation from that many steps moves the function. With few steps it may do harm, and
    `weight` is 0 in place of 1/3.
    """

    steps: int
    reach: float
    error: float
    weight: float

    def joined(self, other: "Hint") -> "Hint":
        """Of two groups of bodies: that of the one that needed more steps, or the larger numbers at equal steps."""
        if self.steps != other.steps:
            return max(self, other)
        return Hint(self.steps, max(self.reach, other.reach), *max(self[2:], other[2:]))

    def estimate(self, reach: np.ndarray) -> np.ndarray:
        """Estimated relative errors of bodies that take as many steps and extrapolate this far.

        Linear in `reach` up to the known one, and quadratic beyond, with a safety factor of 4 for a small sample.
        """
        further = reach / self.reach if self.reach > 0 else np.ones_like(reach)
        return 4 * self.error * further * np.maximum(1.0, further)


class Integration:
    """Gradient flow of a block of bodies to a time, within `backend.settings`.

    Arrays stay with the array library until it is over. `tick` is told the number of evaluations of network and kernel
    after every integration.
    """

    def __init__(
        self,
        problem: Problem,
        backend: Backend,
        spectrum: Spectrum,
        time: float,
        rtol: float,
        tick: Callable[[int], object] = lambda count: None,
    ):
        net, X = problem.net, problem.X
        self.problem, self.backend, self.time, self.rtol, self.tick = problem, backend, time, rtol, tick
        self.bodies, n, heads = problem.targets.shape
        self.cut = clock(spectrum.values, time, heads / net.width)
        self.single = (
            isinstance(net, MLP)
            and net.hidden_parameters > 0
            and rtol >= SINGLE_RTOL
            and conditioning.factor(spectrum.values, time) <= SINGLE_STIFFNESS
            and 1e-16 < float(spectrum.values[-1]) < 1e16  # the square of the functions' size, within float32's range
        )
        around = probes(X, isinstance(net, AnyNetwork))
        self.probes, chunks = len(around), chunked(np, around, backend.chunk(net, X))
        self.places = [backend.tensors(chunks, dtype) for dtype in ("float64", "float32")]
        self.shared = X, np.asarray(problem.noise_std), spectrum
        self.own = problem.start, problem.offsets, problem.targets
        self.together = problem.body_bytes if dense(n, heads, backend) else 0
        self.evaluations, self.first, self.left = (np.zeros(self.bodies, kind) for kind in (int, float, float))
        advice = conditioning.advice(spectrum.values, time)
        self.further = f"; {advice}" if advice else ""
        # Changes of parameters and offsets: the last plain integration, and what is kept for each body.
        self.coarse = self.kept = mapped(np.zeros_like, (problem.start, problem.offsets))

    def advance(self, steps: int, going: np.ndarray, weight: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Integrate from the start in so many steps, and keep the extrapolation by `weight` of bodies that are `going`.

        Without steps, take one of Newton's method from what is kept. Returns functions at the probes, of the
        integration itself and of what is kept.
        """
        times = self._times(steps) if steps else np.array([[inf, 0.0]])
        rows = np.zeros((2 * MOST_STEPS, 2))  # one shape, so that all numbers of steps share a program
        rows[: len(times)] = times
        self.single &= steps <= SINGLE_STEPS
        shared = *self.shared, self.places[self.single], rows, np.asarray(steps == 0), np.asarray(weight)
        own = *self.own, self.kept, self.coarse, np.where(going, len(times), 0)
        self.coarse, self.kept, *found = self.backend.each(_advance, self.problem.net, shared, own, self.together)
        plain, kept, first, self.left = self.backend.arrays(tuple(found))
        self.first = first if steps else self.first
        self.evaluations[going] += len(times)
        self.tick(len(times))
        return plain[:, : self.probes], kept[:, : self.probes]

    def run(self, hint: Hint | None = None) -> tuple[Params, Report, Hint | None]:
        """Train. Returns the parameters, the report, and a hint for further bodies.

        Without a hint, bodies continue together until all are accurate enough. With one, the error is estimated from
        the distance of the first extrapolation, and only bodies whose estimate is too large continue.

        Raises DivergenceError for infinite or NaN values, or if MOST_STEPS steps are not accurate enough.
        """
        going, errors = np.ones(self.bodies, bool), np.full(self.bodies, inf)
        steps = hint.steps // 2 if hint else 1
        before, _ = self.advance(steps, going)
        last, reach, found = None, errors, hint
        while True:
            steps *= 2
            plain, kept = self.advance(steps, going, hint.weight if hint and last is None else EXTRAPOLATED)
            if last is not None:
                # With twice the steps, the extrapolation's error falls at least fourfold for smooth networks, and
                # twofold across the kinks of relu: its last change then bounds its error. Agreement with the previous
                # plain integration is enough, too, except for many heads on a narrow body.
                error, plainly = _distances(last, kept), _distances(before, kept)
                errors[going] = (np.minimum(error, plainly) if self.together else error)[going]
                best = min((error[going].max(), EXTRAPOLATED), (plainly[going].max(), 0.0))
                found = Hint(steps // 2, float(reach[going].max()), float(best[0]), best[1])
            reach = _distances(before, plain) * EXTRAPOLATED
            if last is None and hint:
                errors = hint.estimate(reach)
            # A safety factor of two: the probes stand in for points that the caller will choose.
            going = ~(errors <= self.rtol / 2)
            if not going.any():
                return *self._converged(errors), found
            last, before = kept, plain
            if 2 * steps > MOST_STEPS:
                off = errors.max()
                found = "is not finite" if np.isnan(off) else f"has an estimated relative error of {off:.1e}"
                raise DivergenceError(
                    f"gradient flow: the trained function {found} after {steps} steps, asked for rtol = {self.rtol:g}: "
                    f"widen the network, use fewer heads per network, or allow a larger rtol{self.further}"
                )

    def _converged(self, errors: Float[np.ndarray, " bodies"]) -> tuple[Params, Report]:
        """Parameters and report, from what is kept and its errors. Steps of Newton's method end an infinite time."""
        remaining, newton = relative(self.left, self.first, self.problem.targets), 0
        enough = RESIDUAL_FLOOR if self.time == inf else np.finfo(float).max
        while not (remaining <= enough).all() and self.time == inf and newton < MOST_NEWTON:
            self.advance(0, ~(remaining <= enough))  # Steps alone do not reach RESIDUAL_FLOOR.
            remaining, newton = relative(self.left, self.first, self.problem.targets), newton + 1
        if not (remaining <= enough).all():
            raise DivergenceError(
                f"gradient flow: training residual {remaining.max():.1e} of its initial value after {newton} "
                "Newton steps: the empirical tangent kernel is singular or nearly so: widen the network, use fewer "
                f"heads per network, or drop close points{self.further}"
            )
        params = mapped(lambda a, b: a + b, self.problem.start, self.backend.arrays(self.kept[0]))
        evaluations = int(self.evaluations.max())
        return params, Report(self.time, float(remaining.max()), float(errors.max()), evaluations, True)

    def _times(self, steps: int) -> Float[np.ndarray, "evaluations 2"]:
        """Of each evaluation, how long its linear flow is followed, and how much longer to the next midpoint.

        If each V needs solves of its own, an evaluation at the start of a step leads to the midpoint, in place of the
        one before it: that is more accurate.
        """
        to_midpoint, over = self.cut(steps)
        if self.together:
            return np.stack([np.append(0.0, over), np.append(to_midpoint, 0.0)], axis=1)
        nothing = np.zeros(steps)
        return np.stack([nothing, to_midpoint, over, nothing], axis=1).reshape(-1, 2)


def _advance(lib: Backend, net: Network, shared: Any, own: Any) -> Any:
    """`Integration.advance` of one body, or of several. The network is linearised in the precision of `places`."""
    X, noise_std, spectrum, places, times, newton, weight = shared
    params, offsets, y, kept, coarse, count = own
    xp, dtype = lib.xp, str(places.dtype).removeprefix("torch.")

    def rounded(tree: Any) -> Any:
        return mapped(lambda a: lib.cast(a, dtype), tree)

    def added(a: Any, b: Any) -> Any:
        return mapped(lambda a, b: a + b, a, b)

    def residual(state: Any) -> Any:
        return lib.values(net, added(params, state[0]), X) + noise_std * (offsets + state[1]) - y

    def at_probes(state: Any) -> Any:
        moved = rounded(added(params, state[0]))
        return lib.over_points(lambda x: lib.values(net, moved, x), places)

    start = mapped(lambda a: xp.where(newton, a, 0.0), kept)
    first = residual(start)

    def evaluate(i: Any, carry: Any) -> Any:
        (shift, xi), here = carry
        tangent = lib.linearise(net, rounded(added(params, here)), rounded(X))
        tangent = tangent.held() if dense(y.shape[-2], y.shape[-1], lib) else tangent
        # The residual at the step's start, by the linear model at `here`. The branch takes the change as an array,
        # because XLA would otherwise compute it anew for every point.
        away = rounded(mapped(lambda a, b: a - b, shift, here))
        r = lib.cond(
            i > 0,
            lambda away: lib.cast(tangent.value + tangent.jvp(away), "float64") + noise_std * (offsets + xi) - y,
            lambda _: first,
            away,
        )
        over, ahead = times[i]
        v = flow_integral(tangent, r, xp.stack([over, over + ahead]), noise_std**2, spectrum, lib)
        back = (tangent.vjp(lib.cast(v[k], dtype)) for k in range(2))
        end, midpoint = (mapped(lambda a, b: a - b, shift, change) for change in back)
        return (end, xi - noise_std * v[0]), midpoint

    def chosen(new: Any, old: Any) -> Any:
        return xp.where((count > 0).reshape(*count.shape, *[1] * (new.ndim - count.ndim)), new, old)

    plain = lib.loop(count.max(), evaluate, (start, start[0]))[0]
    kept = mapped(lambda a, b, c: chosen(a + weight * (a - b), c), plain, coarse, kept)
    at_plain = at_probes(plain)
    at_kept = lib.cond(weight == 0, lambda _: at_plain, at_probes, kept)
    return plain, kept, at_plain, at_kept, lib.norm(first), lib.norm(residual(kept))


def _distances(before: np.ndarray, after: np.ndarray) -> Float[np.ndarray, " bodies"]:
    """Relative distance of two functions of every body, in the norm over probes and heads."""
    size = np.linalg.norm(after, axis=(1, 2))
    return np.linalg.norm(after - before, axis=(1, 2)) / np.where(size > 0, size, 1.0)
