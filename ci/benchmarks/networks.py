"""Networks of the user's own: what training, kernels and samples cost beside other libraries, and the largest case."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import images, own_kernels, own_samples, own_training
from benchmarks.growth import alone
from benchmarks.section import Asked, Case, Section
from rndlib import BayesianRND, kernels
from rndlib.running.costs import Row

GOAL_TRAINING, GOAL_KERNEL, GOAL_MEMORY, GOAL_LARGEST = 20.0, 3.0, 10.0, 4096

SIZES, QUICK_SIZES = (20, 100, 150), (20,)
TEST, CHANNELS, QUICK_CHANNELS = 200, 32, 8
SECONDS, QUICK_SECONDS = 5.0, 0.5
KERNELS, QUICK_KERNELS = ((100, 16), (100, 64)), ((30, 16),)
"""Images and channels."""

SAMPLED, QUICK_SAMPLED = ((100, 64), (500, 64)), ((30, 16),)
"""Images and samples."""

LARGEST, LARGEST_SAMPLES, LARGEST_MEMORY = (1000, 236), 8, 2**30
WAYS = "kernels.empirical", "linearised samples"


def _cases(asked: Asked) -> Iterator[Case]:
    quick, channels = asked.quick, QUICK_CHANNELS if asked.quick else CHANNELS
    for n in QUICK_SIZES if quick else SIZES:
        seconds = QUICK_SECONDS if quick else SECONDS
        yield partial(own_training.rows, n, TEST, channels, seconds, GOAL_TRAINING)
    for n, wide in QUICK_KERNELS if quick else KERNELS:
        yield partial(own_kernels.rows, n, wide, GOAL_KERNEL, GOAL_MEMORY)
    for n, samples in QUICK_SAMPLED if quick else SAMPLED:
        for noise_std in own_samples.WAYS:
            yield partial(own_samples.rows, n, TEST, channels, samples, noise_std)
    if not quick:
        yield partial(_largest, *LARGEST)


SECTION = Section(
    "networks",
    "Networks of the user's own",
    "Two convolutions and an affine layer in the parametrisation of Eq. 1, on scikit-learn's digits: *Function* in "
    f"JAX, *Module* in PyTorch. *Training* goes on until the test function is within {own_training.ACCURACY:g} of the "
    "converged flow's, in float32. Its peers are full-batch loops at 0.95 of the largest stable rate; the tuned one "
    "has the rate and momentum that are best for the network's own kernel, which a user does not know. Their steps "
    "are those of the linear model, their seconds are scaled from *timed*, and *error* is that of networks trained "
    f"for these steps, where that takes at most {own_training.TRAINED:g} seconds. Seconds are those of one network; "
    f"rndlib trains {own_training.MEMBERS} at a time. *Its kernel* is in float64, and the error is the distance from "
    "a stored Jacobian's; *of patches* is of the function as rndlib rewrites it, without JAX's own convolutions. "
    "*Samples* have *variance* over that of the exact posterior, the mean over test points. NUQLS is its published "
    "method, written anew; it has no noise. Where it goes *to* a variance, seconds are scaled to the steps after "
    "which its law has that. MiB are peaks of processes of their own. *goal* is the project's, for the ratio in the "
    "row.",
    _cases,
    (
        "Training 20 times as fast. rndlib is 6 and 8 times as fast as gradient descent at N = 100 and 150, and "
        "slower at N = 20. Networks of this size are far from their linear model on these images: the flow takes 70 "
        "and 135 evaluations, each of which forms and factors a tangent kernel of its own, and costs as much as "
        "ten steps of descent. Loops with momentum take fewer steps, but they do not follow the flow: their "
        "functions are half their own size away from its limit, where 0.01 was asked.",
        "A tenth of the memory. At 75,009 weights the peers take 1.4 to 3.5 times the memory, at 4,929 weights 0.6 "
        "to 3.2 times. The whole Jacobian of the larger case has 57 MiB, and most of every peak is the compiler's, "
        "so at this size no way of forming the kernel could take a tenth. What bounds rndlib is the argument "
        "`memory`: the Jacobian of the largest case would have 7.5 GiB.",
        "Three times as fast as neural-tangents, in one case: 44 times and more as users call it, but 0.5 and 1.2 "
        "times where it is given the function as rndlib rewrites it, of patches.",
    ),
)


def _largest(n: int, channels: int) -> list[Row]:
    shared: Row = {"N": n, "weights": images.function(channels).parameters(1), "by": "rndlib, Function"}
    found: list[Row] = []
    for way in WAYS:
        measured = alone(prepare, way, n, channels, cold=True)
        goal: Row = {"MiB": measured.memory / 2**20, "goal": f"under {GOAL_LARGEST} MiB"}
        found.append({"task": f"the largest: {way}", **shared, "seconds": float(np.median(measured.seconds)), **goal})
    return found


def prepare(way: str, n: int, channels: int) -> Callable[[], object]:
    """A call that does it once, with `LARGEST_MEMORY` for derivatives or with `LARGEST_SAMPLES`."""
    net, (X, y, X_test) = images.function(channels), images.digits(n, 100)
    if way == WAYS[0]:
        return lambda: kernels.empirical(net, X, draws=1, memory=LARGEST_MEMORY)
    model = BayesianRND(net, LARGEST_SAMPLES, linearised=True, noise_std=0.1)
    return lambda: model.fit(X, y).predict(X_test, return_std=True)
