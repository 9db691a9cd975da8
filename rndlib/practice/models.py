"""The estimators of rndlib as contenders have them: the same in regression as in telling points from elsewhere."""

from rndlib.estimators import BayesianEnsemble, BayesianRND, DeepEnsemble
from rndlib.practice.task import Task
from rndlib.training.solvers import GradientFlow, StochasticGradient


def bayesian_rnd(task: Task, solver: GradientFlow | StochasticGradient) -> BayesianRND:
    """One body of many heads, with directions of their own as the heads are many for the width; not fitted yet."""
    return BayesianRND(
        task.net,
        task.sizes.heads,
        directions="independent",
        noise_std=task.noise_std,
        seed=task.seed,
        solver=solver,
    )


def bayesian_ensemble(task: Task) -> BayesianEnsemble:
    """Networks that each are a draw from the posterior, trained to convergence; not fitted yet."""
    return BayesianEnsemble(
        task.net,
        task.sizes.members,
        noise_std=task.noise_std,
        seed=task.seed,
        solver=GradientFlow(rtol=task.sizes.rtol),
    )


def deep_ensemble(task: Task) -> DeepEnsemble:
    """Networks trained by Adam in minibatches, each stopped where its loss on a tenth of the points is least.

    Trained to convergence, as in the theorems, they would fit the noise in the labels. Not fitted yet.
    """
    sizes = task.sizes
    solver = StochasticGradient(epochs=sizes.epochs, batch_size=sizes.batch, patience=20, progress=False)
    return DeepEnsemble(task.net, sizes.members, seed=task.seed, solver=solver)
