"""Thompson sampling: decisions by functions drawn from a posterior, and the regret that they lead to.

In each round, as many functions are drawn as there are queries, given everything observed so far, and each function's
best candidate is queried (Thompson, 1933; in batches as Kandasamy et al., 2018). Contenders differ in the source of
the functions. They share the first queries and the noise of every seed, so that differences over seeds are paired.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi

import numpy as np
from jaxtyping import Float
from scipy.stats import qmc

from rndlib import checks
from rndlib.cores import parallel
from rndlib.estimators import BayesianEnsemble, BayesianRND, DeepEnsemble
from rndlib.evidence.statistics import exact_draws
from rndlib.network import MLP
from rndlib.theory import laws

Drawn = Float[np.ndarray, "candidates count"]
Sampler = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int], Drawn]
"""Training points (N, in_dim), labels (N,), candidates (C, in_dim), a number of functions and a seed to that many
independent functions, drawn jointly over the candidates: (C, count)."""

_INITIAL, _NOISE, _DRAWS = range(3)  # streams of random numbers of one seed, independent of each other


@dataclass(frozen=True)
class Bandit:
    """A function to be maximised over a finite set of candidates, observed with noise."""

    candidates: Float[np.ndarray, "C in_dim"]
    values: Float[np.ndarray, " C"]
    noise_std: float = 0.0


def branin(candidates: int = 256, noise_std: float = 0.2) -> Bandit:
    """The negative of Branin's function of two inputs, whose three maxima are equal, on Sobol' points.

    Inputs are scaled to [-1, 1], and values to mean 0 and standard deviation 1 over the candidates, a power of 2.
    Regret and `noise_std` are in units of this standard deviation. Constants as in Dixon and Szegő (1978).
    """
    u = qmc.Sobol(2, scramble=False).random(candidates)
    a, b = 15 * u[:, 0] - 5, 15 * u[:, 1]
    value = (b - 5.1 / (4 * pi**2) * a**2 + 5 / pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * np.cos(a) + 10
    return Bandit(2 * u - 1, (value.mean() - value) / value.std(), noise_std)


def exact(net: MLP, noise_std: float) -> Sampler:
    """Functions drawn from the NTK-GP posterior itself (`laws.posterior`), which the others approximate."""

    def draw(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
        return exact_draws(laws.posterior(net, X, y, candidates, noise_std, full_cov=True), count, seed).T

    return draw


def fitted(model: BayesianRND | BayesianEnsemble | DeepEnsemble) -> Sampler:
    """Samples of Bayesian RND, or members of an ensemble, fitted anew for every draw with another seed.

    `model` is not changed. It needs as many heads, over all bodies, or members as there are queries in a round.
    """

    def draw(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
        trained = type(model)(**{**model.get_params(deep=False), "seed": seed}).fit(X, y)
        if isinstance(trained, BayesianRND):
            return trained.sample_y(candidates, count, random_state=seed)
        return trained.functions(candidates)[:count].T

    return draw


def uniform(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
    """The control, which learns nothing: independent numbers at the candidates, any of which may be the largest."""
    return np.random.default_rng(seed).random((len(candidates), count))


def regret(
    sampler: Sampler, bandit: Bandit, rounds: int, queries: int, initial: int, seed: int
) -> Float[np.ndarray, " asked"]:
    """Difference from the best candidate of each query of Thompson sampling, in their order: (rounds * queries,).

    The `initial` queries are not counted, because no sampler chose them.
    """
    candidates, values = bandit.candidates, bandit.values
    chosen = np.random.default_rng([_INITIAL, seed]).permutation(len(candidates))[:initial]
    noise = bandit.noise_std * np.random.default_rng([_NOISE, seed]).standard_normal(initial + rounds * queries)
    for of_round in np.random.default_rng([_DRAWS, seed]).integers(2**31, size=rounds):
        y = values[chosen] + noise[: len(chosen)]
        functions = sampler(candidates[chosen], y, candidates, queries, int(of_round))
        functions = checks.array("sampler(...)", functions, len(candidates), queries)
        chosen = np.concatenate([chosen, functions.argmax(axis=0)])
    return values.max() - values[chosen[initial:]]


def study(
    samplers: Mapping[str, Sampler],
    bandit: Bandit,
    seeds: int,
    rounds: int = 5,
    queries: int = 5,
    initial: int = 5,
    seed: int = 0,
) -> dict[str, Float[np.ndarray, "seeds asked"]]:
    """`regret` of every sampler over `seeds` consecutive seeds, on as many threads as there are cores."""
    each = range(seed, seed + seeds)

    def one(run: tuple[Sampler, int]) -> np.ndarray:
        return regret(run[0], bandit, rounds, queries, initial, run[1])

    regrets = iter(parallel(one, [(sampler, at) for sampler in samplers.values() for at in each]))
    return {label: np.stack([next(regrets) for _ in each]) for label in samplers}
