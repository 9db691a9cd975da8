"""Minibatch training by optax: an epoch of one body after the other, in one compiled program."""

from functools import partial

import jax
import numpy as np
import optax
from jax import lax
from jaxtyping import Float

from rndlib.network import MLP
from rndlib.training import minibatches
from rndlib.training.backends.jax.linearise import Bodies, in_numpy, linearise, pull_back
from rndlib.training.backends.jax.programs import program
from rndlib.training.solvers import StochasticGradient

# The rate multiplies what these return: it changes from step to step.
OPTIMIZERS = {"adam": optax.scale_by_adam(), "sgd": optax.identity()}

State = tuple[Bodies, optax.OptState]


def block(
    net: MLP,
    solver: StochasticGradient,
    params: Bodies,
    X: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "bodies n heads"],
    noise_std: float,
    functions,
) -> minibatches.Block[State]:
    """A block of bodies for `rndlib.training.minibatches`, each on its own targets."""
    rule = _EPOCHS[solver.optimizer]
    pull = np.asarray(noise_std**2 / (len(X) - solver.held_out(len(X))))

    def epoch(state: State, batches: np.ndarray, rates: np.ndarray) -> State:
        return rule(net, state, params, X, targets, batches, rates, pull)

    start = params, jax.vmap(OPTIMIZERS[solver.optimizer].init)(params)
    return minibatches.Block(start, epoch, lambda state: in_numpy(state[0]), functions)


def _epoch(optimizer, net, state, start, X, targets, batches, rates, pull):
    def one(body):
        state, start, y, batches = body

        def step(state, batch):
            params, memory = state
            rows, rate = batch
            f, at = linearise(net, params, X[rows])
            slope = pull_back(net, at, (f - y[rows]) / len(rows))
            slope = jax.tree.map(lambda g, p, s: g + pull * (p - s), slope, params, start)
            update, memory = optimizer.update(slope, memory, params)
            return (jax.tree.map(lambda p, u: p - rate * u, params, update), memory), None

        return lax.scan(step, state, (batches, rates))[0]

    return lax.map(one, (state, start, targets, batches))


_EPOCHS = {name: program()(partial(_epoch, optimizer)) for name, optimizer in OPTIMIZERS.items()}
