"""Gradient flow, the continuous-time limit of gradient descent (Eq. 3), by an exponential midpoint rule.

One step from theta, with residual r = f(X) - y, linearises at a point theta_m near its midpoint, and follows the linear
flow there over the whole step:

    theta_1 = theta - J_m' V(Theta_m, h) (r_m + J_m (theta - theta_m)),     V(Theta, h) = Theta^{-1} (I - e^{-h Theta}).

Each linear flow is exact, so stiffness costs nothing and a step may last any time, infinity included. The only error is
from the network's own curvature, and of second order. The linear flow of a step, followed further, leads to the
midpoint of the next, so that each step needs one linearisation. The number of steps is doubled until two successive
Richardson extrapolations agree to the required accuracy.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import AnyNetwork, Network
from rndlib.cores import parallel
from rndlib.network import MLP
from rndlib.theory import kernels
from rndlib.training import conditioning, matrices
from rndlib.training.backends import Backend
from rndlib.training.backends.linearised import chunked
from rndlib.training.exponential import dense, flow_integral
from rndlib.training.problem import Problem, Solver, Spectrum, Task, Trained, full_batch_blocks, relative
from rndlib.training.report import ConditionWarning, DivergenceError, Report
from rndlib.training.trees import mapped
from rndlib.training.weights import Params

DRAWS = 4
"""Number of initial networks whose tangent kernels are averaged where the infinite-width kernel is not known."""

PILOTS = 8
"""Number of bodies trained first, whose step sizes are a hint for the others."""

EXTRAPOLATED = 1 / 3
"""Weight of the difference from half the steps in an extrapolation of second order."""

MOST_STEPS = 8192  # relu, whose kinks leave no second order, needs thousands
MOST_NEWTON, RESIDUAL_FLOOR = 10, 1e-9
"""Most steps of Newton's method, and the training residual, relative to the first, at which training has converged."""

NODES = 400
"""Times at which the progress of training is tabulated."""


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


@dataclass(frozen=True)
class GradientFlow(Solver):
    """Gradient flow `d theta/dt = -grad L`, with `L = 1/2 ||f(X) - y||^2` summed over points and heads (Eq. 3).

    Parameters
    ----------
    time: Training time t, learning rate 1; `math.inf` trains to convergence.
    rtol: Allowed relative error of the trained function, in the norm over probe points near the data; > 0.
    memory: Bytes for the N x N matrices of one body, six at the same time. If they do not fit, `fit` raises a
        ValueError that says how much is needed; a linearised network that trains to convergence then forms none.

    >>> from rndlib import MLP, RND, GradientFlow, datasets
    >>> model = RND(MLP(3, width=64), heads=4, solver=GradientFlow(time=1.0)).fit(datasets.toy(0).X)
    >>> model.report.time, model.report.residual < 1
    (1.0, True)
    """

    time: float = inf
    rtol: float = 1e-3
    memory: int = 2**32

    def __post_init__(self):
        object.__setattr__(self, "time", checks.duration("time", self.time))
        object.__setattr__(self, "rtol", checks.positive("rtol", self.rtol))
        object.__setattr__(self, "memory", checks.whole("memory", self.memory, at_least=1))

    def train(self, task: Task, backend: Backend) -> Trained:
        from tqdm import tqdm

        spectrum = self._spectrum(task.net, task.X, task.noise_std)
        conditioning.announce(task, conditioning.factor(spectrum.values, self.time))
        # Hidden without a terminal, and where training ends before anybody asks.
        with tqdm(unit="evaluation", leave=False, disable=None, delay=3) as bar:

            def train(block: list[int], hint: Hint | None = None) -> tuple[Params, Report, Hint | None]:
                return self.run(task.problem(block), backend, spectrum, hint, bar.update)

            blocks = full_batch_blocks(task)
            first = -(-PILOTS // len(blocks[0]))
            results = parallel(train, blocks[:first])
            if blocks[first:]:
                hint = reduce(Hint.joined, [hint for *_, hint in results if hint])
                results += parallel(lambda block: train(block, hint), blocks[first:])
        return Trained.joined(task.bodies, blocks, [(params, report) for params, report, _ in results])

    def run(
        self,
        problem: Problem,
        backend: Backend,
        spectrum: Spectrum,
        hint: Hint | None = None,
        tick: Callable[[int], object] = lambda count: None,
    ) -> tuple[Params, Report, Hint | None]:
        """Train one block of bodies. Returns the parameters, the report, and a hint for further bodies.

        `tick` is told the number of evaluations after every integration. Without a hint, bodies continue together until
        all are accurate enough. With one, the error is estimated from the distance of the first extrapolation, and only
        bodies whose estimate is too large continue.

        Raises DivergenceError for infinite or NaN values, or if MOST_STEPS steps are not accurate enough.
        """
        with backend.settings():
            return _Integration(problem, backend, spectrum, self, tick).run(hint)

    def _spectrum(self, net: Network, X: Float[np.ndarray, "n *shape"], noise_std: float) -> Spectrum:
        """The infinite-width kernel on X, noise included; refused if singular, with a warning if nearly so.

        For a network of the user's own, the mean tangent kernel of a few draws stands in for it.
        """
        if not matrices.fit(len(X), self.memory):
            raise ValueError(
                f"{matrices.refusal(len(X), self.memory)}, StochasticGradient, or RND or BayesianRND with "
                "linearised=True, which forms none to train to convergence"
            )
        if self.time == inf and noise_std == 0:
            checks.distinct("X", X)
        kernel = kernels.kernel(net, X) if isinstance(net, MLP) else kernels.empirical(net, X, draws=DRAWS)
        values, vectors = np.linalg.eigh(kernel.ntk + noise_std**2 * np.eye(len(X)))
        if self.time == inf and values[0] <= len(X) * np.finfo(float).eps * values[-1]:
            raise ValueError(
                f"X: the tangent kernel of its rows is singular in float64 (eigenvalues from {values[0]:.1e} to "
                f"{values[-1]:.1e}), so training to convergence has no limit: {conditioning.remedies(values[-1])}, or "
                "take a deeper network"
            )
        advice = conditioning.advice(values, self.time)
        if advice and net.hidden_parameters:  # Without a hidden layer there is no curvature: gradient flow is exact.
            warnings.warn(
                f"X with noise_std = {noise_std:g}: {advice}; training takes long and may miss rtol = {self.rtol:g}",
                ConditionWarning,
                stacklevel=5,
            )
        return Spectrum(values, vectors)


class _Integration:
    """Gradient flow of a block of bodies, whose arrays stay with the array library until it is over."""

    def __init__(
        self, problem: Problem, backend: Backend, spectrum: Spectrum, flow: GradientFlow, tick: Callable[[int], object]
    ):
        net, X = problem.net, problem.X
        self.problem, self.backend, self.flow, self.tick = problem, backend, flow, tick
        self.bodies, heads, n = problem.targets.shape
        self.cut = clock(spectrum.values, flow.time, heads / net.width)
        places = np.concatenate([X, probes(X, isinstance(net, AnyNetwork))])
        self.probes = slice(n, len(places))
        self.shared = X, chunked(np, places, backend.chunk(net, X)), np.asarray(problem.noise_std), tuple(spectrum)
        y, offsets = problem.by_points
        self.own = problem.start, offsets, y
        self.together = problem.body_bytes if dense(n, heads) else 0
        self.evaluations, self.left = np.zeros(self.bodies, int), np.zeros(self.bodies)
        advice = conditioning.advice(spectrum.values, flow.time)
        self.further = f"; {advice}" if advice else ""
        # Changes of parameters and offsets: the last plain integration, and what is kept for each body.
        self.coarse = self.kept = mapped(np.zeros_like, (problem.start, offsets))

    def advance(self, times: np.ndarray, going: np.ndarray, fresh: bool = True, weight: float = 0.0) -> Any:
        """Functions at the probes after an integration, and as kept: its extrapolation by `weight` where `going`."""
        rows = np.zeros((2 * MOST_STEPS, 2))  # one shape, so that all numbers of steps share a program
        rows[: len(times)] = times
        shared = *self.shared, rows, np.asarray(not fresh), np.asarray(weight)
        own = *self.own, self.kept, self.coarse, np.where(going, len(times), 0)
        self.coarse, self.kept, *found = self.backend.each(_advance, self.problem.net, shared, own, self.together)
        plain, kept, self.left = self.backend.arrays(tuple(found))
        self.evaluations[going] += len(times)
        self.tick(len(times))
        return plain[:, self.probes], kept[:, self.probes]

    def run(self, hint: Hint | None) -> tuple[Params, Report, Hint | None]:
        everything = np.ones(self.bodies, bool)
        self.advance(np.zeros((0, 2)), everything)
        first = self.left
        errors, hint = self._integrate(hint)
        remaining, newton = relative(self.left, first, self.problem.targets), 0
        enough = RESIDUAL_FLOOR if self.flow.time == inf else np.finfo(float).max
        while not (remaining <= enough).all() and self.flow.time == inf and newton < MOST_NEWTON:
            # Steps alone do not reach RESIDUAL_FLOOR.
            self.advance(np.array([[inf, 0.0]]), ~(remaining <= enough), fresh=False)
            remaining, newton = relative(self.left, first, self.problem.targets), newton + 1
        if not (remaining <= enough).all():
            raise DivergenceError(
                f"gradient flow: training residual {remaining.max():.1e} of the first after {newton} Newton steps: the "
                "empirical tangent kernel is singular or nearly so: widen the network, use fewer heads per body, or "
                f"drop close points{self.further}"
            )
        params = mapped(lambda a, b: a + b, self.problem.start, self.backend.arrays(self.kept[0]))
        evaluations = int(self.evaluations.max())
        return params, Report(self.flow.time, float(remaining.max()), float(errors.max()), evaluations, True), hint

    def _integrate(self, hint: Hint | None) -> tuple[np.ndarray, Hint | None]:
        """Estimated errors of the bodies, once all are small enough, and the hint that the first bodies give."""
        rtol, going, errors = self.flow.rtol, np.ones(self.bodies, bool), np.full(self.bodies, inf)
        steps = hint.steps // 2 if hint else 1
        before, _ = self.advance(self._times(steps), going)
        last, reach, found = None, errors, hint
        while True:
            steps *= 2
            weight = hint.weight if hint and last is None else EXTRAPOLATED
            plain, kept = self.advance(self._times(steps), going, weight=weight)
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
            going = ~(errors <= rtol / 2)
            if not going.any():
                return errors, found
            last, before = kept, plain
            if 2 * steps > MOST_STEPS:
                off = errors.max()
                found = "is not finite" if np.isnan(off) else f"has an estimated relative error of {off:.1e}"
                raise DivergenceError(
                    f"gradient flow: the trained function {found} after {steps} steps, asked for rtol = {rtol:g}: "
                    f"widen the network, use fewer heads per body, or allow a larger rtol{self.further}"
                )

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
    """`_Integration.advance` of one body, or of several."""
    X, places, noise_std, spectrum, times, follow, weight = shared
    params, offsets, y, kept, coarse, count = own
    xp, spectrum = lib.xp, Spectrum(*spectrum)

    def evaluate(i: Any, carry: Any) -> Any:
        (shift, xi), here = carry
        tangent = lib.linearise(net, mapped(lambda p, s: p + s, params, here), X)
        # The residual at the step's start, by the linear model at `here`.
        moved = tangent.jvp(mapped(lambda a, b: a - b, shift, here))
        r = tangent.value + moved + noise_std * (offsets + xi) - y
        over, ahead = times[i]
        v = flow_integral(tangent, r, xp.stack([over, over + ahead]), noise_std**2, spectrum, lib)
        end, midpoint = (mapped(lambda a, b: a - b, shift, tangent.vjp(v[k])) for k in range(2))
        return (end, xi - noise_std * v[0]), midpoint

    def values(shift: Any) -> Any:
        moved = mapped(lambda p, s: p + s, params, shift[0])
        return lib.over_points(lambda x: lib.values(net, moved, x), places)

    def chosen(new: Any, old: Any) -> Any:
        return xp.where((count > 0).reshape(*count.shape, *[1] * (new.ndim - count.ndim)), new, old)

    start = mapped(lambda a: xp.where(follow, a, 0.0), kept)
    plain = lib.loop(count.max(), evaluate, (start, start[0]))[0]
    kept = mapped(lambda a, b, c: chosen(a + weight * (a - b), c), plain, coarse, kept)
    at_plain, at_kept, n = values(plain), values(kept), len(X)
    r = at_kept[..., :n, :] + noise_std * (offsets + kept[1]) - y
    return plain, kept, at_plain, at_kept, lib.norm(r)


def clock(
    eigenvalues: Float[np.ndarray, " n"], time: float, heads: float = 0.0
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Cut `time` into any number of steps: the times to each step's midpoint, and over the whole step.

    `eigenvalues` are the kernel's. A mode with eigenvalue lambda moves while lambda t is of order one. So time is
    replaced by progress u(t) = sum_i w_i lambda_i t / (1 + lambda_i t), from 0 to 1, and steps and midpoints are equal
    in u. The weights w_i ~ lambda_i^{-1/4} favour the slow modes, which move the parameters furthest.

    heads : many heads per unit of a body's width raise the largest eigenvalue far above its limit, as in a Wishart
        matrix. The eigenvalues are stretched on a logarithmic scale, with the smallest in its place.
    """
    values = np.maximum(eigenvalues, 1e-12 * eigenvalues.max())
    spread = np.log(values.max() / values.min())
    values = values * (1 + sqrt(heads)) ** (2 * np.log(values / values.min()) / spread if spread > 0 else 2.0)
    weights = values**-0.25 / np.sum(values**-0.25)

    def progress(t: np.ndarray) -> np.ndarray:
        done = values * t[:, None]
        return (weights * done / (1 + done)).sum(1)

    nodes = np.append(0.0, np.geomspace(1e-8 / values.max(), 1e8 / values.min(), NODES))
    table = progress(nodes)
    end = 1.0 if time == inf else np.interp(time, nodes, table)

    def cut(steps: int) -> tuple[np.ndarray, np.ndarray]:
        times = np.interp(np.linspace(0, end, 2 * steps + 1), table, nodes)
        times[-1] = time
        return times[1::2] - times[:-1:2], times[2::2] - times[:-1:2]

    return cut


def probes(X: np.ndarray, own: bool = False) -> np.ndarray:
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


def _distances(before: np.ndarray, after: np.ndarray) -> Float[np.ndarray, " bodies"]:
    """Relative distance of two functions of every body, in the norm over probes and heads."""
    size = np.linalg.norm(after, axis=(1, 2))
    return np.linalg.norm(after - before, axis=(1, 2)) / np.where(size > 0, size, 1.0)
