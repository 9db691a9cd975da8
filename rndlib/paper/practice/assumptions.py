"""The settings of notebook 08. Each violates one assumption of the paper, in its problem with ten points.

`rndlib/advice.toml` has them in words.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from rndlib import datasets
from rndlib.network import MLP
from rndlib.paper.many_heads import head_variance
from rndlib.paper.practice.settings import DATA, DATA_SEED, PAPER, POINTS, Setting
from rndlib.theory import kernels, laws
from rndlib.training.solvers import GradientDescent, GradientFlow


def _net(networks: int = 2048, **changes: Any) -> Setting:
    return Setting(replace(PAPER, **changes), networks=networks)


def _points(n: int, networks: int = 2048, net: MLP = PAPER) -> Setting:
    data = datasets.toy(DATA_SEED, n, POINTS)
    return Setting(net, data.X, data.y, data.X_test, networks=networks)


def _close(distance: float) -> Setting:
    """A further training point, so far from the first, with its label."""
    further = DATA.X[:1] + distance * np.eye(3)[:1]
    return Setting(X=np.concatenate([DATA.X, further]), y=np.append(DATA.y, DATA.y[0]))


def _descent(part: float, steps: int) -> Setting:
    """Gradient descent at part of the learning rate from which it diverges at infinite width."""
    largest = float(np.linalg.eigvalsh(kernels.kernel(PAPER, DATA.X).ntk)[-1])
    return Setting(solver=GradientDescent(part * 2 / largest, steps), networks=512)


def _own(name: str, *options: Any) -> Setting:
    """A network of another architecture, against its mean tangent kernel."""
    from rndlib.paper.practice import architectures

    net = getattr(architectures, name)(128, *options)
    return Setting(net, networks=512, kernel=partial(kernels.empirical, net, draws=64))


def _loop(optimizer: str, steps: int, batch_size: int | None = None, **options: float) -> Setting:
    """A loop in PyTorch, on 128 units in the paper's parametrisation."""
    from torch import optim

    from rndlib.paper.practice import loops

    net = replace(PAPER, width=128)
    loop = loops.Loop(
        partial(loops.Paper, net), partial(getattr(optim, optimizer), **options), steps, "head", batch_size
    )
    return Setting(net, networks=512, loop=loop)


def _batches(size: int, rate: float) -> Setting:
    """Stochastic gradient descent with momentum, for the same training time at every learning rate."""
    return replace(_loop("SGD", round(180 / rate), size, lr=rate, momentum=0.9), networks=256)


def _standard(width: int, rate: float) -> Setting:
    """A loop in PyTorch, on a network in PyTorch's parametrisation."""
    from torch import optim

    from rndlib.paper.practice import loops
    from rndlib.torch import Module

    build = partial(loops.standard, 3, width)
    scaled, raw = Module(build), Module(build, scales=1.0)

    def kernel(X1: np.ndarray, X2: np.ndarray | None = None) -> kernels.Kernel:
        """The limiting distribution at initialisation, and the tangent kernel of training the weights themselves."""
        at_start, trained = (kernels.empirical(own, X1, X2, draws=64) for own in (scaled, raw))
        return replace(trained, nngp=at_start.nngp)

    loop = loops.Loop(build, partial(optim.SGD, lr=rate, momentum=0.9), 4000, "head")
    prior = partial(kernels.empirical, scaled, draws=64)
    return Setting(replace(PAPER, width=128), networks=512, loop=loop, kernel=kernel, prior=prior)


def _each(make: Callable[[Any], Setting], *strengths: Any) -> dict[str, Callable[[], Setting]]:
    return {str(strength): partial(make, strength) for strength in strengths}


_momentum = partial(_loop, "SGD", 1500, lr=0.3, momentum=0.9)
_narrow = replace(PAPER, width=16)
HEADS = 1, 4, 16, 64, 256
"""Heads per network in the assumption "heads"."""

SETTINGS: dict[str, dict[str, Callable[[], Setting]]] = {
    "width": _each(lambda n: _net(width=n), 1024, 256, 64, 16),
    "depth": {
        "2": Setting,
        "3": partial(_net, 1024, depth=3),
        "5": partial(_net, 256, depth=5),
    },
    "activation": _each(lambda name: _net(activation=name), "silu", "tanh", "erf", "gelu", "relu"),
    "heads": {str(Fraction(heads, PAPER.width)): partial(Setting, heads=heads) for heads in HEADS},
    "labels": _each(lambda scale: Setting(y=scale * DATA.y), 0, 0.25, 1, 2, 4, 16),
    "time": {"inf": Setting, **_each(lambda t: Setting(solver=GradientFlow(t, rtol=0.05)), 100, 10, 1, 0.1)},
    "points": {"10": Setting, "20": partial(_points, 20), "40": partial(_points, 40, 512)},
    "narrow": _each(lambda n: _points(n, 256, _narrow), 10, 20, 40),
    "distance": _each(lambda factor: Setting(X_test=factor * DATA.X_test), 1, 3, 10),
    "duplicates": _each(_close, 0.3, 0.1, 0.03),
    "noise": _each(lambda told: Setting(noise_std=0.2, told_noise_std=0.2 * told, networks=1024), 0, 0.5, 1, 2, 4),
    "rate": {
        "0.1": partial(_descent, 0.1, 8000),
        "0.5": partial(_descent, 0.5, 4000),
        "0.7": partial(_descent, 0.7, 3000),
    },
    "batches_of_2": _each(partial(_batches, 2), 0.03, 0.06, 0.12, 0.24),
    "batches_of_5": _each(partial(_batches, 5), 0.03, 0.06, 0.12, 0.24),
    "optimizer": {
        "momentum": _momentum,
        "batches of 5": partial(_loop, "SGD", 2000, 5, lr=0.15, momentum=0.9),
        "batches of 2": partial(_loop, "SGD", 3000, 2, lr=0.06, momentum=0.9),
        "Adam": partial(_loop, "Adam", 2000, lr=0.01),
        **{f"decay {decay}": partial(_momentum, weight_decay=float(decay)) for decay in ("1e-5", "1e-4", "1e-3")},
    },
    "parametrisation": {"128": partial(_standard, 128, 0.02), "1024": partial(_standard, 1024, 0.003)},
    "architecture": {
        "residual": partial(_own, "residual"),
        "layer norm": partial(_own, "normalised"),
        "attention / n": partial(_own, "attention", 1.0),
        "attention / sqrt n": partial(_own, "attention", 0.5),
    },
}
"""By assumption and strength, in the order of the map, mildest first; each is made when it is called."""


def linearised_heads() -> dict[str, list[float]]:
    """What linearised training predicts for the assumption "heads": the variance over that of few heads."""
    found = {}
    for name, start, law in (("RND", "standard", laws.rnd_error), ("Bayesian RND", "shared", laws.bayesian_rnd_error)):
        few = law(PAPER, DATA.X, DATA.X_test).var
        many = (head_variance(PAPER, DATA.X, DATA.X_test, h / PAPER.width, start) for h in HEADS)
        found[f"linearised {name}"] = [float(np.mean(var / few)) for var in many]
    return found
