"""Minibatch training by optax: an epoch of one body after the other, in one compiled program."""

from functools import partial

import jax
import numpy as np
import optax
from jax import lax

from rndlib.training.backends.jax.linearise import linearised, to_jax, to_numpy
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import program
from rndlib.training.problem import Problem
from rndlib.training.weights import Params

# The rate multiplies what these return: it changes from step to step.
OPTIMIZERS = {"adam": optax.scale_by_adam(), "sgd": optax.identity()}


class OptaxMinibatches:
    def __init__(self, problem: Problem, optimizer: str, pull: float):
        self.problem, self.pull, self.epochs = problem, np.asarray(pull), _EPOCHS[optimizer]
        self.start = to_jax(problem.net, problem.start)
        self.state = self.start, jax.vmap(OPTIMIZERS[optimizer].init)(self.start)

    @in_float64
    def epoch(self, batches: np.ndarray, rates: np.ndarray) -> None:
        net, X, (y, _) = self.problem.net, self.problem.X, self.problem.by_points
        self.state = self.epochs(net, self.state, self.start, X, y, batches, rates, self.pull)

    @in_float64
    def params(self) -> Params:
        return to_numpy(self.problem.net, self.state[0])


def _epoch(optimizer, net, state, start, X, targets, batches, rates, pull):
    def one(body):
        state, start, y, batches = body

        def step(state, batch):
            params, memory = state
            rows, rate = batch
            f, tangent = linearised(net, params, X[rows])
            slope = tangent.pull_back((f - y[rows]) / len(rows))
            slope = jax.tree.map(lambda g, p, s: g + pull * (p - s), slope, params, start)
            update, memory = optimizer.update(slope, memory, params)
            return (jax.tree.map(lambda p, u: p - rate * u, params, update), memory), None

        return lax.scan(step, state, (batches, rates))[0]

    return lax.map(one, (state, start, targets, batches))


_EPOCHS = {name: program()(partial(_epoch, optimizer)) for name, optimizer in OPTIMIZERS.items()}
