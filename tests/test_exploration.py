"""An agent in a loop as CleanRL writes it, in an environment of gymnasium's: the bonus falls where it has been."""

from math import sqrt

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")

from rndlib import MLP
from rndlib.torch import RNDBonus

pytestmark = pytest.mark.torch

STATES, ACTIONS, SEEDS = 48, 4, range(8)
OBS = sqrt(STATES) * np.eye(STATES, dtype=np.float32)  # of unit mean square, as normalised observations are


def fresh(seed: int) -> RNDBonus:
    return RNDBonus(STATES, heads=16, network=MLP(STATES, width=128), seed=seed, normalise=False, learning_rate=3e-3)


def explore(seed: int, rollouts: int = 40, steps: int = 32) -> tuple[RNDBonus, np.ndarray]:
    """Q-learning on CliffWalking for the bonus alone; returns the bonus, and how often each state was come to."""
    env, bonus, rng = gym.make("CliffWalking-v1"), fresh(seed), np.random.default_rng(seed)
    q, visits = np.zeros((STATES, ACTIONS)), np.zeros(STATES)
    state, _ = env.reset(seed=seed)
    for _ in range(rollouts):
        rollout = []
        for _ in range(steps):
            best = np.flatnonzero(q[state] == q[state].max())
            action = rng.integers(ACTIONS) if rng.random() < 0.2 else rng.choice(best)
            arrived, _, terminated, truncated, _ = env.step(action)
            rollout.append((state, action, arrived))
            state = env.reset()[0] if terminated or truncated else arrived
        seen = [arrived for *_, arrived in rollout]
        np.add.at(visits, seen, 1)
        rewards = bonus(OBS[seen]).tolist()
        for (before, action, arrived), reward in reversed([*zip(rollout, rewards, strict=True)]):
            q[before, action] += 0.5 * (reward + 0.95 * q[arrived].max() - q[before, action])
        bonus.update(OBS[seen], epochs=4, minibatch_size=16)
    return bonus, visits


def test_the_bonus_falls_with_visits():
    """Rank correlation of visits with what is left of the bonus, among the n states that a seed has come to.

    Without a relation each is 0 with variance 1 / (n - 1): the mean over the seeds, within four standard deviations.
    So it is for visits that are shuffled, and for the untrained bonus of another seed, whose networks make no
    difference between states.
    """
    left, shuffled, untrained, variances = [], [], [], []
    for seed in SEEDS:
        bonus, visits = explore(seed)
        seen = visits > 0
        visits, obs = visits[seen], OBS[seen]
        fall = bonus(obs) / fresh(seed)(obs)
        left.append(stats.spearmanr(visits, fall)[0])
        shuffled.append(stats.spearmanr(np.random.default_rng(seed).permutation(visits), fall)[0])
        untrained.append(stats.spearmanr(visits, fresh(seed + len(SEEDS))(obs))[0])
        variances.append(1 / (len(visits) - 1))
    margin = 4 * sqrt(np.mean(variances) / len(SEEDS))
    assert margin < 0.5
    assert np.mean(left) < -margin
    assert abs(np.mean(shuffled)) < margin
    assert abs(np.mean(untrained)) < margin
