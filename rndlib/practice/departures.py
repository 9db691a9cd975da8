"""Settings that leave the paper's limit step by step, and what each makes of its two equalities.

The first is that half the mean squared RND error is the variance of an ensemble that is trained in the same way
(Corollary 3.2). The second is that the mean square of the Bayesian RND error is the variance of the posterior
(Theorem 4.2). Both are ratios that should be 1. Each setting changes one thing of the paper's problem with ten points.
Notebook 08 shows them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from rndlib import datasets
from rndlib.any_network import Network
from rndlib.estimators import RND, BayesianRND, DeepEnsemble
from rndlib.evidence.estimate import Estimate
from rndlib.evidence.statistics import over_times, to_law
from rndlib.network import MLP
from rndlib.theory import kernels, laws, reference
from rndlib.theory.dynamics import gain
from rndlib.training import initial
from rndlib.training.solvers import GradientDescent, GradientFlow, Solver

DATA_SEED = 2
POINTS = 32  # test points
PAPER = MLP(3, width=256, depth=2, activation="silu", sigma_w=1.5, sigma_b=0.1)
DATA = datasets.toy(DATA_SEED, n_test=POINTS)


@dataclass(frozen=True)
class Setting:
    """What is trained, on what, and how. The labels are those of the ensemble; RND has none.

    Of each kind, `networks` are trained. RND has as many heads in all, with `heads` on each body. `loop` trains in
    place of the solver. `kernel` and `prior` are those of the law of the ensemble and of the posterior, where they are
    not those of `net`. The posterior has observation noise `noise_std`, and Bayesian RND is told of `told_noise_std`.
    """

    net: Network = PAPER
    X: Float[np.ndarray, "n *shape"] = field(default_factory=lambda: DATA.X)
    y: Float[np.ndarray, " n"] = field(default_factory=lambda: DATA.y)
    X_test: Float[np.ndarray, "t *shape"] = field(default_factory=lambda: DATA.X_test)
    solver: Solver = field(default_factory=partial(GradientFlow, rtol=0.05))
    networks: int = 2048
    heads: int = 1
    loop: Any = None
    kernel: reference.Network | None = None
    prior: reference.Network | None = None
    noise_std: float = 0.0
    told_noise_std: float = 0.0


@dataclass(frozen=True)
class Ratios:
    """What should be 1, with intervals.

    rnd: half the RND error over the variance of the ensemble.
    bayesian: the Bayesian RND error over the variance of the posterior.
    rnd_to_law, ensemble_to_law: the two sides of the first, over their common law.
    """

    rnd: Estimate
    bayesian: Estimate
    rnd_to_law: Estimate
    ensemble_to_law: Estimate


def measure(setting: Setting, seed: int = 0) -> Ratios:
    """Train all networks of a setting, and compare. Raises DivergenceError."""
    X, y, points = setting.X, setting.y, setting.X_test
    kernel: Any = setting.kernel or setting.net  # AnyNetwork always comes with a kernel
    prior = setting.prior or kernel
    variance = laws.ensemble(kernel, X, y, points).var
    posterior = laws.posterior(prior, X, y, points, noise_std=setting.noise_std).var
    if setting.loop is not None:
        count = setting.networks
        functions = setting.loop.functions(X, y, points, count, seed)
        halves = setting.loop.errors(X, points, count, seed) ** 2 / 2
        squares = setting.loop.errors(X, points, count, seed, bayesian=True) ** 2
    else:
        options: dict[str, Any] = {"seed": seed, "solver": setting.solver}
        bodies = max(2, setting.networks // setting.heads)
        functions = DeepEnsemble(setting.net, setting.networks, **options).fit(X, y).functions(points)
        halves, squares = (
            model(setting.net, setting.heads, bodies, **options).fit(X).variances(points, bodies)
            for model in (RND, partial(BayesianRND, noise_std=setting.told_noise_std))
        )
    deviations = (functions - functions.mean(axis=0)) ** 2 * len(functions) / (len(functions) - 1)
    logs = (
        over_times(np.sqrt(2 * halves)[None], functions[None], variance[None]),  # errors with these halves
        to_law(squares, posterior),
        to_law(halves, variance),
        to_law(deviations, variance),
    )
    return Ratios(*(Estimate(*(float(np.exp(end[0])) for end in (of.estimate, of.low, of.high))) for of in logs))


def own_regressions(
    net: MLP,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    X_test: Float[np.ndarray, "t d"],
    networks: int,
    seed: int = 0,
    of_limit: bool = False,
) -> Float[np.ndarray, "networks t"]:
    """What training would make of untrained networks if each kept the tangent kernel that it starts with.

    With `of_limit`, each has the kernel of infinite width in place of its own.
    """
    places = np.concatenate([X, X_test])
    start = initial.functions(net, places, networks, seed=seed)[:, 0]
    if of_limit:
        return regression(net, X, y, X_test, start)
    own = np.add(*initial.tangent_kernels(net, places, networks, seed=seed))[:, 0, 0]
    return np.stack([_regression(kernel, f, y) for kernel, f in zip(own, start, strict=True)])


def regression(
    net: MLP,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    X_test: Float[np.ndarray, "t d"],
    start: Float[np.ndarray, "networks places"],
) -> Float[np.ndarray, "networks t"]:
    """The kernel regression at infinite width from initial functions at X and X_test, in this order."""
    kernel = kernels.kernel(net, np.concatenate([X, X_test])).ntk
    return np.stack([_regression(kernel, f, y) for f in start])


def _regression(kernel: np.ndarray, start: np.ndarray, y: np.ndarray) -> np.ndarray:
    n = len(y)
    weights = gain(kernel[:n, :n], kernel[:n, n:], inf, None)
    return start[n:] - weights.T @ (start[:n] - y)


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
    from rndlib.practice import architectures

    net = getattr(architectures, name)(128, *options)
    return Setting(net, networks=512, kernel=partial(kernels.empirical, net, draws=64))


def _loop(optimizer: str, steps: int, batch_size: int | None = None, standard: int | None = None, **options: float):
    """A loop in PyTorch, on 128 units in the paper's parametrisation or on `standard` ones in PyTorch's."""
    from torch import optim

    from rndlib.practice import loops
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


def linearised_heads() -> dict[str, list[float]]:
    """What the law of many heads, for linearised training, predicts for the departure "heads"."""
    per_unit = [heads / PAPER.width for heads in (1, 4, 16, 64, 256)]
    rnd, bayesian = laws.rnd_error, laws.bayesian_rnd_error
    return {
        f"linearised {name}": [
            float(np.mean(law(PAPER, DATA.X, DATA.X_test, heads_per_width=c).var / law(PAPER, DATA.X, DATA.X_test).var))
            for c in per_unit
        ]
        for name, law in {"RND": rnd, "Bayesian RND": bayesian}.items()
    }


def movement() -> dict[str, list[float]]:
    """How far training moves the tangent kernel of all heads at X, relative to itself, in the departure "heads".

    By kind of model.
    """
    return {
        name: [moved(model, heads) for heads in (1, 4, 16, 64, 256)]
        for name, model in {"RND": RND, "Bayesian RND": BayesianRND}.items()
    }


def moved(model: Any, heads: int) -> float:
    """The same for one model and number of heads: a Frobenius norm over pairs of heads and points, mean over bodies."""
    bodies = max(4, 64 // heads)
    start, end = (
        model(PAPER, heads, bodies, solver=GradientFlow(time, rtol=0.05)).fit(DATA.X).tangent_kernels(DATA.X)
        for time in (1e-9, inf)
    )
    norms = (np.linalg.norm(of.reshape(len(of), -1), axis=1) for of in (end - start, start))
    return float(np.mean(np.divide(*norms)))


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
        {
            "1/256": Setting,
            "1/64": lambda: Setting(heads=4),
            "1/16": lambda: Setting(heads=16),
            "1/4": lambda: Setting(heads=64),
            "1": lambda: Setting(heads=256),
        },
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
