"""The law after training on one data set after the other, as for an agent whose data grow, slide and are forgotten.

One stage, on its points S with the gain G of `rndlib.theory.dynamics`, maps errors e = f - y (of RND, e = u - g) as

    e(z) <- e(z) - G_z^T e(S)    at every z,

whatever they were before. So after all stages the error is e_0(x) - M_x^T e_0(P) plus what the labels have added, with
one gain M (P, T) in place of G, where P are all stages' points. It is found from the last stage to the first: if the
stages after one have the gain M, it adds to it, at its points, the gain of its kernel for Theta_Sx - Theta_SP M. M
depends on points and times alone: predictors and members of an ensemble have the same, whatever the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from rndlib import checks
from rndlib.theory import reference
from rndlib.theory.dynamics import covariance, gain
from rndlib.theory.gaussian import Gaussian, mended
from rndlib.theory.reference import Network


@dataclass(frozen=True)
class Stage:
    """Training from the weights of the stage before, by gradient flow for `time`.

    X: The points (N, in_dim) of this stage. y: Their labels (N,), of ensembles alone; None is zeros. time: Training
    time, 0 or more; infinite is to convergence.

    >>> from rndlib import MLP, laws
    >>> known, new = laws.Stage([[1.0, 0.0]], [2.0]), laws.Stage([[0.0, 1.0]], [1.0], time=0.1)
    >>> laws.stream(MLP(2), [known, new], [[1.0, 0.0], [0.0, 1.0]]).mean.round(3)
    array([2.011, 0.295])
    """

    X: ArrayLike
    y: ArrayLike | None = None
    time: float = inf


def stream(
    net: Network, stages: Stage | Sequence[Stage], X_test: ArrayLike, kind: str = "ensemble", full_cov: bool = False
) -> Gaussian:
    """Law after training on one stage after the other, without noise.

    net: An `MLP`, or the kernels of another network, as in `ensemble`.
    stages: One `Stage`, or several in a list. A point may be in several of them, with the same or other labels.
    kind: "ensemble", a network's function; "rnd", the error u - g of one head; or "bayesian_rnd", the error of one
        whose target makes the initial error GP(0, Theta).

    One stage is `ensemble`, `rnd_error` or `bayesian_rnd_error`. After any stages the covariance of "rnd" is twice that
    of "ensemble" (Theorem 3.1, stage by stage). If each stage has all points of the one before, and the last one
    converges, that of "bayesian_rnd" is the posterior's, given the points of the last (Theorem 4.2).

    Returns mean and variance at `X_test` (T, in_dim), in the units of y, and with `full_cov` the covariance (T, T).
    Raises as `ensemble`, of each stage.

    >>> from rndlib import MLP, datasets, laws
    >>> net, data = MLP(in_dim=3), datasets.toy(seed=0, n_test=2)
    >>> window = [laws.Stage(data.X[i : i + 5], data.y[i : i + 5]) for i in range(6)]
    >>> laws.stream(net, window, data.X_test).var.round(3), laws.ensemble(net, data.X, data.y, data.X_test).var.round(3)
    (array([6.175, 0.074]), array([5.702, 0.026]))
    """
    checks.choice("kind", kind, ("ensemble", "rnd", "bayesian_rnd"))
    stages = [stages] if isinstance(stages, Stage) else list(stages)
    checks.require(bool(stages), "stages is empty: give at least one laws.Stage")
    for number, stage in enumerate(stages):
        checks.require(isinstance(stage, Stage), f"stages[{number}] is {type(stage).__name__}: give a laws.Stage(X, y)")
    read = [reference.inputs(net, s.X, s.y if kind == "ensemble" else None, X_test, s.time, None, 0.0) for s in stages]
    X_test = read[0][2]
    for number, (X, *_) in enumerate(read):
        shape = read[0][0].shape[1:]
        checks.require(X.shape[1:] == shape, f"stages[{number}].X has points of shape {X.shape[1:]}: give {shape}")
    union, rows = np.unique(np.concatenate([X for X, *_ in read]), axis=0, return_inverse=True)
    train, across, test = reference.blocks(net, union, X_test, full_cov)
    M, mean = np.zeros_like(across.ntk), np.zeros(len(X_test))
    ends = np.cumsum([len(X) for X, *_ in read])
    for (_, y, _, time), own in reversed(list(zip(read, np.split(rows.reshape(-1), ends[:-1]), strict=True))):
        change = gain(train.ntk[np.ix_(own, own)], across.ntk[own] - train.ntk[own] @ M, time, None)
        np.add.at(M, own, change)  # a point may come twice in a stage
        mean += change.T @ y
    prior = "ntk" if kind == "bayesian_rnd" else "nngp"
    XX, Xx, xx = (getattr(kernel, prior) for kernel in (train, across, test))
    law = mended(mean, xx, covariance(M, XX, Xx, xx))
    return law.doubled() if kind == "rnd" else law
