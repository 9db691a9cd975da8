"""The ways to leave the paper's limit, step by step. Each setting changes one thing of its problem with ten points.

Notebook 08 shows them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from rndlib import datasets
from rndlib.network import MLP
from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.practice.crowds import HEADS
from rndlib.paper.practice.settings import DATA, DATA_SEED, PAPER, POINTS, Setting
from rndlib.theory import kernels
from rndlib.training.solvers import GradientDescent, GradientFlow


def _net(**changes: Any) -> Setting:
    return Setting(replace(PAPER, **changes))


def _points(n: int, networks: int = 2048, net: MLP = PAPER) -> Setting:
    data = datasets.toy(DATA_SEED, n, POINTS)
    return Setting(net, data.X, data.y, data.X_test, networks=networks)


def _close(distance: float) -> Setting:
    """A further training point, so far from the first, with its label."""
    further = DATA.X[:1] + distance * np.eye(3)[:1]
    return Setting(X=np.concatenate([DATA.X, further]), y=np.append(DATA.y, DATA.y[0]))


def _descent(part: float, steps: int) -> Setting:
    """Gradient descent at part of the rate from which it diverges at infinite width."""
    largest = float(np.linalg.eigvalsh(kernels.kernel(PAPER, DATA.X).ntk)[-1])
    return Setting(solver=GradientDescent(part * 2 / largest, steps), networks=512)


def _own(name: str, *options: Any) -> Setting:
    """A network of another architecture, against its mean tangent kernel."""
    from rndlib.paper.practice import architectures

    net = getattr(architectures, name)(128, *options)
    return Setting(net, networks=512, kernel=partial(kernels.empirical, net, draws=64))


def _loop(optimizer: str, steps: int, batch_size: int | None = None, standard: int | None = None, **options: float):
    """A loop in PyTorch, on 128 units in the paper's parametrisation or on `standard` ones in PyTorch's."""
    from torch import optim

    from rndlib.paper.practice import loops
    from rndlib.torch import Module

    net = replace(PAPER, width=128)
    descent = partial(getattr(optim, optimizer), **options)
    if standard is None:
        loop = loops.Loop(partial(loops.Paper, net), descent, steps, "head", batch_size)
        return Setting(net, networks=512, loop=loop)
    build = partial(loops.standard, 3, standard)
    scaled, raw = Module(build), Module(build, scales=1.0)

    def kernel(X1: np.ndarray, X2: np.ndarray | None = None) -> kernels.Kernel:
        """The law at the start, and the tangent kernel of training the weights themselves."""
        at_start, trained = (kernels.empirical(own, X1, X2, draws=64) for own in (scaled, raw))
        return replace(trained, nngp=at_start.nngp)

    loop = loops.Loop(build, descent, steps, "head", batch_size)
    prior = partial(kernels.empirical, scaled, draws=64)
    return Setting(net, networks=512, loop=loop, kernel=kernel, prior=prior)


def _batches(size: int, rate: float) -> Setting:
    """Stochastic gradient descent with momentum, for the same training time at every rate."""
    return replace(_loop("SGD", round(180 / rate), size, lr=rate, momentum=0.9), networks=256)


Verdict = Literal["safe", "biased", "meaningless"]


@dataclass(frozen=True)
class Departure:
    """A way to leave the theorems' limit: what is changed, how far it is, and what that does, in words.

    `row` names it in the map, `label` on an axis.
    """

    row: str
    label: str
    settings: Mapping[str, Callable[[], Setting]]
    why: str
    advice: str


DEPARTURES: dict[str, Departure] = {
    "width": Departure(
        "width",
        "width n",
        {str(n): partial(_net, width=n) for n in (1024, 256, 64, 16)},
        "A finite network has a tangent kernel of its own, so each member makes something else of the labels.",
        "Widen the network; at 10 points, 256 units keep both within a tenth.",
    ),
    "depth": Departure(
        "layers",
        "layers L",
        {
            "2": Setting,
            "3": lambda: replace(_net(depth=3), networks=1024),
            "5": lambda: replace(_net(depth=5), networks=256),
        },
        "Kernels fluctuate by the order of L/n.",
        "Make a deeper network wider.",
    ),
    "activation": Departure(
        "activation",
        "activation",
        {name: partial(_net, activation=name) for name in ("silu", "tanh", "erf", "gelu", "relu")},
        "The derivative of ReLU jumps, so its kernel moves where training carries a unit across the jump.",
        "Take a smooth activation, or 16 times the width.",
    ),
    "heads": Departure(
        "heads per unit",
        "heads per unit K/n, of 256 units",
        {str(Fraction(heads, PAPER.width)): partial(Setting, heads=heads) for heads in HEADS},
        "The heads of one body compete for its hidden weights, and share one psi.",
        "Spread the heads over bodies.",
    ),
    "labels": Departure(
        "labels, times",
        "scale of the labels, relative to the outputs at the start",
        {str(s): partial(lambda s: Setting(y=s * DATA.y), s) for s in (0, 0.25, 1, 2, 4, 16)},
        "What kernels of their own make of the labels grows as the square of the labels; RND has none.",
        "Scale the outputs up, or the labels down: only their ratio counts.",
    ),
    "time": Departure(
        "training time",
        "training time t",
        {"inf": Setting}
        | {str(t): partial(lambda t: Setting(solver=GradientFlow(t, rtol=0.05)), t) for t in (100, 10, 1, 0.1)},
        "Both sides of the first equality start from the same law and shrink alike; a posterior needs the end.",
        "Train to convergence where the variance of the posterior is wanted.",
    ),
    "points": Departure(
        "points",
        "training points N",
        {"10": Setting, "20": partial(_points, 20), "40": partial(_points, 40, 512)},
        "The labels of more points are harder for the kernel: y' Theta^-1 y is 10 at 10 points, and 3086 at 40.",
        "Compare with the law, not with an ensemble of narrow networks; or linearise.",
    ),
    "narrow": Departure(
        "points, 16 units",
        "training points N of 16 units, which have 81 parameters",
        {str(n): partial(_points, n, 256, replace(PAPER, width=16)) for n in (10, 20, 40)},
        "With few parameters for each equation, networks reach the targets far from where they started; those of 80 "
        "points do not reach them (DivergenceError).",
        "Have ten parameters for each training point, and more for an ensemble.",
    ),
    "distance": Departure(
        "distance, times",
        "distance of the test points, times",
        {"1": Setting, "3": lambda: Setting(X_test=3 * DATA.X_test), "10": lambda: Setting(X_test=10 * DATA.X_test)},
        "Far from the data, networks are nearly linear in x, as their kernels are.",
        "Nothing to do.",
    ),
    "duplicates": Departure(
        "closest points",
        "distance of the two closest points",
        {str(d): partial(_close, d) for d in (0.3, 0.1, 0.03)},
        "Two points that nearly agree make the kernel nearly singular, and what labels ask of it harder.",
        "Drop points that nearly repeat others, or give noise_std > 0.",
    ),
    "noise": Departure(
        "noise told, times",
        "noise that Bayesian RND is told of, over the noise there is (0.2)",
        {
            str(times): partial(lambda times: Setting(noise_std=0.2, told_noise_std=0.2 * times, networks=1024), times)
            for times in (0, 0.5, 1, 2, 4)
        },
        "The error is the posterior's for the noise that training was told of; standard RND has no noise.",
        "Estimate the noise first.",
    ),
    "rate": Departure(
        "rate over the edge",
        "rate of gradient descent, over the one at which it diverges",
        {"0.1": partial(_descent, 0.1, 8000), "0.5": partial(_descent, 0.5, 4000), "0.7": partial(_descent, 0.7, 3000)},
        "In the limit any rate below the edge finds the same solution; networks with larger kernels diverge earlier.",
        "Stay below half the edge.",
    ),
    **{
        f"batches_of_{size}": Departure(
            f"rate, batches of {size}",
            f"rate on batches of {size} points, with momentum 0.9, of 128 units",
            {str(rate): partial(_batches, size, rate) for rate in (0.03, 0.06, 0.12, 0.24)},
            "Every network can reach its targets, so the noise of minibatches ends with the error. Large steps remain.",
            "Lower the rate.",
        )
        for size in (2, 5)
    },
    "optimizer": Departure(
        "optimiser",
        "optimiser, of 128 units",
        {
            "momentum": partial(_loop, "SGD", 1500, lr=0.3, momentum=0.9),
            "batches of 5": partial(_loop, "SGD", 2000, 5, lr=0.15, momentum=0.9),
            "batches of 2": partial(_loop, "SGD", 3000, 2, lr=0.06, momentum=0.9),
            "Adam": partial(_loop, "Adam", 2000, lr=0.01),
            "decay 1e-5": partial(_loop, "SGD", 1500, lr=0.3, momentum=0.9, weight_decay=1e-5),
            "decay 1e-4": partial(_loop, "SGD", 1500, lr=0.3, momentum=0.9, weight_decay=1e-4),
            "decay 1e-3": partial(_loop, "SGD", 1500, lr=0.3, momentum=0.9, weight_decay=1e-3),
        },
        "Momentum and minibatches stay in the span of the gradients and find the same solution in the limit; Adam "
        "leaves it; decay makes networks forget how they started, which is what varies.",
        "Take no weight decay, and with Adam read the number as a novelty.",
    ),
    "parametrisation": Departure(
        "PyTorch's own width",
        "PyTorch's own parametrisation and initial weights, width n",
        {
            "128": partial(_loop, "SGD", 4000, standard=128, lr=0.02, momentum=0.9),
            "1024": partial(_loop, "SGD", 4000, standard=1024, lr=0.003, momentum=0.9),
        },
        "Initial outputs are small beside labels of unit scale, and training moves the last layer first.",
        "Use the paper's parametrisation: rndlib.torch.Module does it for a module as it is.",
    ),
    "architecture": Departure(
        "architecture",
        "architecture, of 128 units (attention: its scores over n or sqrt n)",
        {
            "residual": partial(_own, "residual"),
            "layer norm": partial(_own, "normalised"),
            "attention / n": partial(_own, "attention", 1.0),
            "attention / sqrt n": partial(_own, "attention", 0.5),
        },
        "Any network with a Gaussian limit is covered; attention with scores over sqrt(n) has none.",
        "Compare with kernels.empirical of the network.",
    ),
}


def verdict(ratio: Estimate) -> Verdict:
    """Whether a number can be read as what it should be: within a quarter, within a factor of 2, or neither."""
    away = max(abs(np.log(ratio.low)), abs(np.log(ratio.high)))
    return "safe" if away <= np.log(1.25) else "biased" if abs(np.log(ratio.value)) <= np.log(2) else "meaningless"
