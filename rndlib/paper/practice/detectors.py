"""Methods that detect images unlike the training images in notebook 06, without labels.

Each takes a split and a seed, and scores every test image, inside first: higher for images that look new.
"""

import numpy as np
from jaxtyping import Float

from rndlib.estimators import RND
from rndlib.paper.practice.data import Shift
from rndlib.paper.practice.methods import Method

Score = Float[np.ndarray, " t"]


def rnd(at: Shift, seed: int) -> Score:
    """RND as the library chooses it."""
    return -RND(seed=seed).fit(at.X).score_samples(at.tests)


def nearest(at: Shift, seed: int) -> Score:
    """The distance to the nearest training image."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1).fit(at.X).kneighbors(at.tests)[0][:, 0]


def outlier_factor(at: Shift, seed: int) -> Score:
    """scikit-learn's local outlier factor, made for new points."""
    from sklearn.neighbors import LocalOutlierFactor

    return -LocalOutlierFactor(novelty=True).fit(at.X).score_samples(at.tests)


def forest(at: Shift, seed: int) -> Score:
    """scikit-learn's isolation forest."""
    from sklearn.ensemble import IsolationForest

    return -IsolationForest(random_state=seed).fit(at.X).score_samples(at.tests)


METHODS = {
    "RND": Method(rnd, ("jax",)),
    "nearest neighbour": Method(nearest, ("sklearn.neighbors",)),
    "local outlier factor": Method(outlier_factor, ("sklearn.neighbors",)),
    "isolation forest": Method(forest, ("sklearn.ensemble",)),
}
