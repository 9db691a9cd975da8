"""Minibatch training by optax: an epoch of one body after the other, in one compiled program."""

from functools import partial

import jax
import numpy as np
import optax
from jax import lax

from rndlib.training.backends.jax.linearise import Bodies, in_numpy, linearise, transposed
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import program
from rndlib.training.minibatches import MinibatchSteps
from rndlib.training.problem import Problem
from rndlib.training.weights import Params

# The rate multiplies what these return: it changes from step to step.
OPTIMIZERS = {"adam": optax.scale_by_adam(), "sgd": optax.identity()}

State = tuple[Bodies, optax.OptState]


class OptaxSteps(MinibatchSteps[State]):
    """Minibatch steps of a block of bodies, each on its own targets."""

    def __init__(self, problem: Problem, optimizer: str, pull: float):
        self.problem, self.pull, self.rule = problem, np.asarray(pull), _EPOCHS[optimizer]
        params = transposed(problem.start)
        self.start = params, jax.vmap(OPTIMIZERS[optimizer].init)(params)

    @in_float64
    def epoch(self, state: State, batches: np.ndarray, rates: np.ndarray) -> State:
        y, _ = self.problem.by_points
        return self.rule(self.problem.net, state, self.start[0], self.problem.X, y, batches, rates, self.pull)

    @in_float64
    def params(self, state: State) -> Params:
        return in_numpy(state[0])


def _epoch(optimizer, net, state, start, X, targets, batches, rates, pull):
    def one(body):
        state, start, y, batches = body

        def step(state, batch):
            params, memory = state
            rows, rate = batch
            f, at = linearise(net, params, X[rows])
            slope = at.pull_back((f - y[rows]) / len(rows))
            slope = jax.tree.map(lambda g, p, s: g + pull * (p - s), slope, params, start)
            update, memory = optimizer.update(slope, memory, params)
            return (jax.tree.map(lambda p, u: p - rate * u, params, update), memory), None

        return lax.scan(step, state, (batches, rates))[0]

    return lax.map(one, (state, start, targets, batches))


_EPOCHS = {name: program()(partial(_epoch, optimizer)) for name, optimizer in OPTIMIZERS.items()}
