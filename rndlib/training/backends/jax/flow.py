"""Gradient flow of a block of bodies in JAX: the compiled programs that `rndlib.training.flow.integration` drives."""

from functools import lru_cache
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from rndlib.training.backends.jax.exponential import flow_integral
from rndlib.training.backends.jax.linearise import Bodies, Given, apply, in_numpy, linearise, scaled, transposed
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE, program
from rndlib.training.backends.jax.spectrum import largest_eigenvalue
from rndlib.training.flow.exponential import Spectrum, dense
from rndlib.training.flow.integration import MOST_STEPS, NEWTON, FlowSteps
from rndlib.training.problem import Problem
from rndlib.training.weights import Params

State = tuple[Bodies, Given]
Tree = TypeVar("Tree")


def _plus(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.add, a, b)


def _minus(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, a, b)


@program(**WIDE)
def _integrate(net, start, X, targets, noise_std, spectrum, times, counts, known, given):
    """How far so many evaluations of every body lead, each at its row of `times`, and the first residual's norm.

    See `FlowSteps.integrate`. Evaluations are in the precision of X, except for what is in the space of the training
    set's functions. Where `given` says so, the first residual is the one that is `known`.
    """
    noise, dtype = noise_std.astype(jnp.float64) ** 2, X.dtype

    def one(body):
        start, y, count, known = body
        params, offsets = jax.tree.map(lambda a: a.astype(dtype), start)

        def evaluate(i, carry):
            (shift, xi), here, first = carry
            f, at = linearise(net, _plus(params, here), X)
            # r is the residual that the linear model at `here` has at the step's start, where it may be linearised. The
            # branch is given the change as an array: XLA would compute it anew for every point.
            away = (i > 0) & (times[i - 1, 1] > 0)
            change = scaled(net, _minus(shift, here))
            moved = lax.cond(away, at.push_forward, lambda _: jnp.zeros_like(f), change)
            r = (f + moved + noise_std * (offsets + xi) - y).astype(jnp.float64)
            r = jnp.where(given & (i == 0), known, r)
            first = jnp.where(i == 0, jnp.linalg.norm(r), first)
            over, ahead = times[i]
            if dense(*r.shape):
                v = flow_integral(at, r, jnp.stack([over, over + ahead]), noise, spectrum).astype(dtype)
                change = at.pull_back_each(v)
                new, here = (jax.tree.map(lambda p, c, k=k: p - c[k], shift, change) for k in (0, 1))
                return (new, xi - noise_std * v[0]), here, first
            v = flow_integral(at, r, over + ahead, noise, spectrum).astype(dtype)
            here = _minus(shift, at.pull_back(v))
            there = here, xi - noise_std * v
            return jax.tree.map(lambda old, new: jnp.where(ahead > 0, old, new), (shift, xi), there), here, first

        none = jax.tree.map(jnp.zeros_like, (params, offsets))
        shift, _, first = lax.fori_loop(0, count, evaluate, (none, none[0], jnp.zeros(())))
        return shift, first

    # One body after the other: what it needs then stays in the cache, and none waits for another's solves. Nor must
    # eigenproblems be batched: jaxlib 0.10 hands those of a batch to the few threads that run the programs asking for
    # them, and two such programs at once wait for each other for good.
    return lax.map(one, (start, targets, counts, known))


@program(**WIDE)
def _extrapolate(net, start, coarse, fine, probes):
    """How far two integrations extrapolate to, and the functions at the probes there and of the finer one."""
    shift = jax.tree.map(lambda a, b: b + (b - a) / 3, coarse, fine)
    dtype = shift[1].dtype
    params, probes = jax.tree.map(lambda a: a.astype(dtype), (start[0], probes))

    def functions(shift):
        return lax.map(lambda p: apply(net, scaled(net, p), probes), _plus(params, shift[0]))

    return shift, functions(shift), functions(fine)


@program()
def _join(net, marked, ours, theirs):
    def choose(ours, theirs):
        return jnp.where(marked.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)

    return jax.tree.map(choose, ours, theirs)


@program(**WIDE)
def _moved(net, state, shift, X, targets, noise_std):
    params, offsets = _plus(state, shift)
    f = lax.map(lambda p: apply(net, scaled(net, p), X), params)
    return (params, offsets), f + noise_std * offsets - targets


class JaxFlow(FlowSteps[State]):
    """The steps of gradient flow for a block of bodies, each on its own targets (`rndlib.training.flow`)."""

    def __init__(self, problem: Problem, spectrum: Spectrum):
        self.net, self.X, self.spectrum = problem.net, problem.X, spectrum
        self.noise_std = np.asarray(problem.noise_std)
        self.targets, offsets = problem.by_points
        self.start = transposed(problem.start), offsets

    @in_float64
    def largest(self) -> float:
        return largest_eigenvalue(self.net, self.start[0], self.X) + float(self.noise_std) ** 2

    @in_float64
    def integrate(self, times: np.ndarray, going: np.ndarray, single: bool) -> tuple[State, Array]:
        return self._evaluated(self.start, times, going, single)

    @in_float64
    def newton(self, state: State, left: np.ndarray, going: np.ndarray, single: bool) -> State:
        return self._evaluated(state, NEWTON, going, single, left)[0]

    @in_float64
    def extrapolate(self, coarse: State, fine: State, probes: np.ndarray) -> tuple[State, np.ndarray, np.ndarray]:
        shift, extrapolated, plain = _extrapolate(self.net, self.start, coarse, fine, probes)
        return shift, np.asarray(extrapolated, float), np.asarray(plain, float)

    @in_float64
    def join(self, marked: np.ndarray, ours: State, theirs: State) -> State:
        return _join(self.net, marked, ours, theirs)

    @in_float64
    def moved(self, state: State, shift: State) -> tuple[State, np.ndarray]:
        there, left = _moved(self.net, state, shift, self.X, self.targets, self.noise_std)
        return there, np.asarray(left)

    @in_float64
    def params(self, state: State) -> Params:
        return in_numpy(state[0])

    def _evaluated(
        self, state: State, times: np.ndarray, marked: np.ndarray, single: bool, known: np.ndarray | None = None
    ) -> tuple[State, Array]:
        with np.errstate(over="ignore"):  # What is beyond float32 makes NaN in training.
            given = (self.X, self.targets, self.noise_std)
            x, y, std = (np.asarray(a, np.float32 if single else float) for a in given)
        rows, counts = _padded(times.tobytes()), np.where(marked, len(times), 0)
        unknown = np.zeros(self.targets.shape)
        first = (unknown, np.asarray(False)) if known is None else (known, np.asarray(True))
        return _integrate(self.net, state, x, y, std, self.spectrum, rows, counts, *first)


@lru_cache(maxsize=8)
def _padded(times: bytes) -> Float[Array, "rows 2"]:
    """Rows of times, of one shape for every number of steps, so that all are one program; most blocks share theirs."""
    padded = np.zeros((2 * MOST_STEPS, 2))
    padded.ravel()[: len(times) // padded.itemsize] = np.frombuffer(times)
    return jnp.asarray(padded)
