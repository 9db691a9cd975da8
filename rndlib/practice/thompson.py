"""Thompson sampling: decisions by functions drawn from a posterior, and the regret that they lead to.

In each round as many functions are drawn, given everything observed so far, as there are queries, and each function's
best candidate is queried (Thompson, 1933; in batches as Kandasamy et al., 2018). What differs between contenders is
where the functions come from. They share the first queries and the noise of every seed, so that differences over seeds
are paired.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import qmc

from rndlib import checks
from rndlib.cores import parallel
from rndlib.estimators import BayesianEnsemble, BayesianRND, DeepEnsemble
from rndlib.evidence.statistics.draws import exact_draws
from rndlib.network import MLP
from rndlib.theory import laws

Drawn = Float[np.ndarray, "candidates count"]
Sampler = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int], Drawn]
"""From training points (N, in_dim), labels (N,), candidates (C, in_dim), a number of functions and a seed to that many
functions, drawn independently of each other and jointly over the candidates: (C, count)."""

_INITIAL, _NOISE, _DRAWS = range(3)  # streams of random numbers of one seed, independent of each other


@dataclass(frozen=True)
class Bandit:
    """A function to be maximised over a finite set of candidates, seen with noise.

    Parameters
    ----------
    candidates: `(C, in_dim)`. values: `(C,)`, the function at each.
    noise_std: standard deviation of the noise on every observation, >= 0, in the units of the values.

    Raises
    ------
    ValueError: an argument has the wrong shape, holds NaN or infinity, or is out of range.

    >>> import numpy as np
    >>> from rndlib.practice.thompson import Bandit
    >>> Bandit(np.array([[0.0], [1.0]]), np.array([0.5, 2.0]), noise_std=0.1).regret([0, 1, 1]).tolist()
    [1.5, 0.0, 0.0]
    """

    candidates: Float[np.ndarray, "C in_dim"]
    values: Float[np.ndarray, " C"]
    noise_std: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "candidates", checks.points("candidates", self.candidates, None))
        object.__setattr__(self, "values", checks.labels("values", self.values, len(self.candidates)))
        object.__setattr__(self, "noise_std", checks.non_negative("noise_std", self.noise_std))

    def regret(self, chosen: Sequence[int] | Int[np.ndarray, " queries"]) -> Float[np.ndarray, " queries"]:
        """How far below the best candidate's the value of each chosen one is: (queries,), >= 0.

        >>> from rndlib.practice import thompson
        >>> bool((thompson.branin().regret(range(256)) >= 0).all())
        True
        """
        return self.values.max() - self.values[np.asarray(chosen)]


def branin(candidates: int = 256, noise_std: float = 0.2) -> Bandit:
    """The negative of Branin's function of two inputs, whose three maxima are equal, on Sobol' points.

    Inputs are scaled to [-1, 1], and values to mean 0 and standard deviation 1 over the candidates: units of regret and
    of `noise_std` are such standard deviations. Constants as in Dixon and Szegő (1978).

    candidates: how many, a power of 2 of at least 2.

    >>> from rndlib.practice import thompson
    >>> bandit = thompson.branin(64)
    >>> bandit.candidates.shape, round(float(bandit.values.std()), 6)
    ((64, 2), 1.0)
    """
    count = checks.whole("candidates", candidates, 2)
    if count & (count - 1):
        raise ValueError(f"candidates = {count}: give a power of 2, at which Sobol' points are balanced")
    u = qmc.Sobol(2, scramble=False).random(count)
    a, b = 15 * u[:, 0] - 5, 15 * u[:, 1]
    value = (b - 5.1 / (4 * pi**2) * a**2 + 5 / pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * np.cos(a) + 10
    return Bandit(2 * u - 1, (value.mean() - value) / value.std(), noise_std)


def exact(net: MLP, noise_std: float) -> Sampler:
    """Functions drawn from the NTK-GP posterior itself (`laws.posterior`), which the others approximate.

    >>> from rndlib import MLP
    >>> from rndlib.practice import thompson
    >>> bandit = thompson.branin(16)
    >>> thompson.exact(MLP(2), 0.2)(bandit.candidates[:4], bandit.values[:4], bandit.candidates, 3, 0).shape
    (16, 3)
    """

    def draw(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
        return exact_draws(laws.posterior(net, X, y, candidates, noise_std, full_cov=True), count, seed).T

    return draw


def samples(model: BayesianRND) -> Sampler:
    """Functions by `sample_y` of a model that is fitted anew, from weights of its own, whenever some are asked for.

    model: as it would be fitted, but for its seed; it is not fitted or changed. It needs as many heads, over all its
        bodies, as there are queries in a round.

    >>> from rndlib import MLP, BayesianRND
    >>> from rndlib.practice import thompson
    >>> bandit, model = thompson.branin(16), BayesianRND(MLP(2, width=64), heads=1, bodies=3, noise_std=0.2)
    >>> thompson.samples(model)(bandit.candidates[:4], bandit.values[:4], bandit.candidates, 3, 0).shape
    (16, 3)
    """

    def draw(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
        fitted = BayesianRND(**{**model.get_params(deep=False), "seed": seed}).fit(X, y)
        return fitted.sample_y(candidates, count, random_state=seed)

    return draw


def members(model: DeepEnsemble | BayesianEnsemble) -> Sampler:
    """The functions of an ensemble's members, fitted anew, from weights of their own, whenever some are asked for.

    model: as it would be fitted, but for its seed; it is not fitted or changed. It needs as many members as there are
        queries in a round. A `DeepEnsemble` knows no noise: give it a `GradientFlow` of finite time, as the noise keeps
        any two observations of one candidate apart.

    >>> from rndlib import MLP, DeepEnsemble, GradientFlow
    >>> from rndlib.practice import thompson
    >>> bandit, model = thompson.branin(16), DeepEnsemble(MLP(2, width=64), 3, solver=GradientFlow(time=25.0))
    >>> thompson.members(model)(bandit.candidates[:4], bandit.values[:4], bandit.candidates, 3, 0).shape
    (16, 3)
    """

    def draw(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
        if count > model.members:
            raise ValueError(f"members = {model.members}: give at least {count}, one for each query of a round")
        fitted = type(model)(**{**model.get_params(deep=False), "seed": seed}).fit(X, y)
        return fitted.functions(candidates)[:count].T

    return draw


def uniform(X: np.ndarray, y: np.ndarray, candidates: np.ndarray, count: int, seed: int) -> Drawn:
    """The control, which learns nothing: independent numbers at the candidates, any of which may be the largest.

    >>> import numpy as np
    >>> from rndlib.practice import thompson
    >>> thompson.uniform(np.zeros((1, 2)), np.zeros(1), np.zeros((5, 2)), count=3, seed=0).shape
    (5, 3)
    """
    return np.random.default_rng(seed).random((len(candidates), count))


def regret(
    sampler: Sampler, bandit: Bandit, rounds: int, queries: int, initial: int, seed: int
) -> Float[np.ndarray, " asked"]:
    """Regret of each query of Thompson sampling, in their order: (rounds * queries,), in the units of the values.

    Their running sum is the cumulative regret, their running minimum the simple one. The queries that start it are not
    counted, as no sampler chose them.

    Parameters
    ----------
    sampler: where the functions come from (`exact`, `samples`, `members`, `uniform`).
    bandit: what is to be maximised.
    rounds, queries: of each round, as many functions are drawn and best candidates queried as `queries`; >= 1.
    initial: candidates drawn without replacement and queried at the start, >= 1.
    seed: of the first candidates, the noise, and the functions, each a stream of its own.

    Raises
    ------
    ValueError: a number out of range, more initial queries than candidates, or functions of the wrong shape.

    >>> from rndlib.practice import thompson
    >>> thompson.regret(thompson.uniform, thompson.branin(), rounds=2, queries=3, initial=4, seed=0).shape
    (6,)
    """
    rounds, queries = checks.whole("rounds", rounds, 1), checks.whole("queries", queries, 1)
    initial, seed = checks.whole("initial", initial, 1), checks.whole("seed", seed, 0)
    candidates = bandit.candidates
    if initial > len(candidates):
        raise ValueError(f"initial = {initial}: give at most the number of candidates, {len(candidates)}")
    first = np.random.default_rng([_INITIAL, seed]).permutation(len(candidates))[:initial]
    noise = bandit.noise_std * np.random.default_rng([_NOISE, seed]).standard_normal(initial + rounds * queries)
    seeds = np.random.default_rng([_DRAWS, seed]).integers(2**31, size=rounds)
    chosen = first
    for of_round in seeds:
        y = bandit.values[chosen] + noise[: len(chosen)]
        functions = checks.array(
            "sampler(...)",
            sampler(candidates[chosen], y, candidates, queries, int(of_round)),
            len(candidates),
            queries,
        )
        chosen = np.concatenate([chosen, functions.argmax(axis=0)])
    return bandit.regret(chosen[initial:])


def study(
    samplers: Mapping[str, Sampler],
    bandit: Bandit,
    seeds: int,
    rounds: int = 5,
    queries: int = 5,
    initial: int = 5,
    seed: int = 0,
) -> dict[str, Float[np.ndarray, "seeds asked"]]:
    """`regret` of every sampler over many seeds, on as many threads as there are cores: (seeds, rounds * queries) each.

    samplers: label to sampler. seed: the first of `seeds` consecutive ones. The rest as in `regret`.

    >>> from rndlib.practice import thompson
    >>> found = thompson.study({"uniform": thompson.uniform}, thompson.branin(), seeds=4)
    >>> found["uniform"].shape
    (4, 25)
    """
    first = checks.whole("seed", seed, 0)
    each = range(first, first + checks.whole("seeds", seeds, 1))

    def one(asked: tuple[Sampler, int]) -> np.ndarray:
        sampler, seed = asked
        return regret(sampler, bandit, rounds, queries, initial, seed)

    found = iter(parallel(one, [(sampler, seed) for sampler in samplers.values() for seed in each]))
    return {label: np.stack([next(found) for _ in each]) for label in samplers}
