"""Many heads on one body of the paper's network: the law of linearised training, and how far training leaves it."""

from math import inf
from typing import Any

import numpy as np

from rndlib.estimators import RND, BayesianRND
from rndlib.paper.fitted import tangent_kernels
from rndlib.paper.many_heads import covariance
from rndlib.paper.practice.settings import DATA, PAPER
from rndlib.theory import laws
from rndlib.training.solvers import GradientFlow

HEADS = 1, 4, 16, 64, 256
"""Heads per body in the departure "heads"."""


def linearised_heads() -> dict[str, list[float]]:
    """What the law of many heads, for linearised training, predicts for the departure "heads"."""
    found = {}
    for name, start, law in (("RND", "standard", laws.rnd_error), ("Bayesian RND", "shared", laws.bayesian_rnd_error)):
        few = law(PAPER, DATA.X, DATA.X_test).var
        many = (covariance(PAPER, DATA.X, DATA.X_test, h / PAPER.width, 0.0, start, full_cov=False) for h in HEADS)
        found[f"linearised {name}"] = [float(np.mean(var / few)) for var in many]
    return found


def movement() -> dict[str, list[float]]:
    """How far training moves the tangent kernel of all heads at X, relative to itself, in the departure "heads".

    By kind of model.
    """
    return {
        name: [moved(model, heads) for heads in HEADS]
        for name, model in {"RND": RND, "Bayesian RND": BayesianRND}.items()
    }


def moved(model: Any, heads: int) -> float:
    """The same for one model and number of heads: a Frobenius norm over pairs of heads and points, mean over bodies."""
    bodies = max(4, 64 // heads)
    start, end = (
        tangent_kernels(model(PAPER, heads, bodies, solver=GradientFlow(time, rtol=0.05)).fit(DATA.X), DATA.X)
        for time in (1e-9, inf)
    )
    norms = (np.linalg.norm(of.reshape(len(of), -1), axis=1) for of in (end - start, start))
    return float(np.mean(np.divide(*norms)))
