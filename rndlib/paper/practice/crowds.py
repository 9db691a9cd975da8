"""Many heads on one network of the paper: the limiting distribution of linearised training."""

import numpy as np

from rndlib.paper.many_heads import head_variance
from rndlib.paper.practice.settings import DATA, PAPER
from rndlib.theory import laws

HEADS = 1, 4, 16, 64, 256
"""Heads per network in the assumption "heads"."""


def linearised_heads() -> dict[str, list[float]]:
    """What linearised training predicts for the assumption "heads": the variance over that of few heads."""
    found = {}
    for name, start, law in (("RND", "standard", laws.rnd_error), ("Bayesian RND", "shared", laws.bayesian_rnd_error)):
        few = law(PAPER, DATA.X, DATA.X_test).var
        many = (head_variance(PAPER, DATA.X, DATA.X_test, h / PAPER.width, start) for h in HEADS)
        found[f"linearised {name}"] = [float(np.mean(var / few)) for var in many]
    return found
