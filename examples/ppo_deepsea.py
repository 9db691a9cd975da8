"""PPO on DeepSea (Osband et al., 2020) with an exploration bonus, in one file, after CleanRL's `ppo_rnd_envpool.py`.

    python examples/ppo_deepsea.py --bonus rndlib --size 16 --seed 1

Bonuses: `rndlib`, RND as CleanRL has it, counts of observations, or none, each with the same agent. Prints the
environment steps until half of the last 100 episodes end at the treasure.
"""

import argparse
import time
from collections import Counter, deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from rndlib.torch import RNDBonus, RunningNormaliser
from rndlib.torch.wrappers import ReturnScaler

COEF = 5.0  # of a bonus scaled by `ReturnScaler`, on every task
GAMMAS, LAMBDA = np.array([0.99, 0.99], np.float32), 0.95  # of the task and of the bonus
LEARNING_RATE, CLIP, ENTROPY = 1e-3, 0.2, 0.01
ROLLOUT, EPOCHS, MINIBATCHES = 2048, 4, 4  # steps of all environments together, and what is made of them


class DeepSea(gym.vector.VectorEnv):
    """A dive from the upper left of a grid to the treasure at the lower right.

    Every step goes down. One action also goes right, at a cost of 0.01 / size, the other left; which is which differs
    from cell to cell. The treasure, 1, is found by `size` steps to the right, so at random once in 2**size episodes.
    """

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, size: int, seed: int):
        self.num_envs, self.size = num_envs, size
        self.single_observation_space = gym.spaces.Box(0, 1, (size * size,))
        self.single_action_space = gym.spaces.Discrete(2)
        self.right = np.random.default_rng(seed).integers(2, size=(size, size))

    def reset(self, *, seed=None, options=None):
        self.row, self.column = 0, np.zeros(self.num_envs, int)
        return self._obs(), {}

    def step(self, actions):
        right = actions == self.right[self.row, self.column]
        treasure = right & (self.column == self.size - 1)
        self.row, self.column = self.row + 1, np.clip(self.column + np.where(right, 1, -1), 0, self.size - 1)
        obs, ended, infos = self._obs(), np.full(self.num_envs, self.row == self.size), {}
        if self.row == self.size:
            infos, (obs, _) = {"final_obs": obs}, self.reset()
        return obs, treasure - 0.01 / self.size * right, ended, np.zeros_like(ended), infos

    def _obs(self):
        obs = np.zeros((self.num_envs, self.size, self.size), np.float32)
        if self.row < self.size:
            obs[np.arange(self.num_envs), self.row, self.column] = 1
        return obs.reshape(self.num_envs, -1)


# Bonuses: functions from the observations that a rollout came to, (steps, envs, *obs_shape), to rewards (steps, envs).


def no_bonus(obs_shape, num_envs, seed):
    return lambda came_to: np.zeros(came_to.shape[:2])


def counts(obs_shape, num_envs, seed):
    """One over the root of how often an observation was come to."""
    visits, scaler = Counter(), ReturnScaler(num_envs)

    def rewards(came_to):
        keys = [[obs.tobytes() for obs in row] for row in came_to]
        visits.update(key for row in keys for key in row)
        return scaled(scaler, [[visits[key] ** -0.5 for key in row] for row in keys])

    return rewards


def rndlib(obs_shape, num_envs, seed):
    bonus, scaler = RNDBonus(obs_shape, seed=seed), ReturnScaler(num_envs)

    def rewards(came_to):
        rows = came_to.shape[0] * came_to.shape[1]
        return scaled(scaler, bonus.step(came_to, minibatch_size=rows // (EPOCHS * MINIBATCHES)))

    return rewards


def scaled(scaler, novelty):
    return np.stack([scaler(row).numpy() for row in torch.as_tensor(np.asarray(novelty))])


class CleanRL:
    """RND of CleanRL's `ppo_rnd_envpool.py`, with layers in place of its convolutions.

    The predictor has two layers more than the target, learns a random quarter of each minibatch by Adam, and the
    rewards are divided by the standard deviation of a return that runs, as there, over environments.
    """

    def __init__(self, obs_shape, num_envs, seed, features=256):
        def layer(n):
            linear = nn.Linear(n, features)
            nn.init.orthogonal_(linear.weight, np.sqrt(2))
            nn.init.zeros_(linear.bias)
            return linear

        def body():
            return nn.Flatten(), layer(int(np.prod(obs_shape))), nn.LeakyReLU(), layer(features)

        self.target = nn.Sequential(*body()).requires_grad_(False)
        self.predictor = nn.Sequential(*body(), nn.ReLU(), layer(features), nn.ReLU(), layer(features))
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=1e-4, eps=1e-5)
        self.normaliser, self.returns, self.size = RunningNormaliser(obs_shape), None, RunningNormaliser(())

    def __call__(self, came_to):
        obs = torch.as_tensor(came_to).flatten(0, 1)
        self.normaliser.observe(obs)
        obs = self.normaliser(obs)
        with torch.no_grad():
            rewards = ((self.target(obs) - self.predictor(obs)) ** 2).sum(1) / 2
        rewards = rewards.view(came_to.shape[:2])
        for of_env in rewards.T:
            self.returns = of_env if self.returns is None else self.returns * GAMMAS[1] + of_env
            self.size.observe(self.returns)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(obs)).chunk(MINIBATCHES):
                kept = obs[rows[torch.rand(len(rows)) < 0.25]]  # CleanRL evaluates all, and masks the loss
                self.optimizer.zero_grad()
                ((self.predictor(kept) - self.target(kept)) ** 2).mean().backward()
                self.optimizer.step()
        return (rewards / self.size.var.sqrt()).numpy()


# Each with its coefficient. CleanRL's own is 1, and with 5 it solves fewer seeds.
BONUSES = {"none": (no_bonus, 0.0), "rndlib": (rndlib, COEF), "cleanrl": (CleanRL, 1.0), "counts": (counts, COEF)}


def network(inputs, outputs, gain):
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer, scale in zip(layers[::2], (np.sqrt(2), np.sqrt(2), gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), *layers)


def train(envs, kind, seed, total_steps):
    """Steps until half of the last 100 episodes ended with a reward, or None, and seconds of CPU time per 1000."""
    torch.manual_seed(seed)
    obs_shape = envs.single_observation_space.shape
    actor = network(int(np.prod(obs_shape)), envs.single_action_space.n, 0.01)
    critic = network(int(np.prod(obs_shape)), 2, 1.0)  # of the task, which ends with an episode, and of the bonus
    weights = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, eps=1e-5)
    make_bonus, coef = BONUSES[kind]
    bonus = make_bonus(obs_shape, envs.num_envs, seed)
    steps, episodes = ROLLOUT // envs.num_envs, deque(maxlen=100)
    shape = (steps, envs.num_envs)
    (obs, _), begin = envs.reset(seed=seed), time.process_time()
    for step in range(ROLLOUT, total_steps + 1, ROLLOUT):
        seen, came_to = np.empty((2, *shape, *obs_shape), np.float32)
        actions, rewards, goes_on = np.empty(shape, int), np.empty((*shape, 2)), np.ones((*shape, 2))
        for t in range(steps):
            seen[t] = obs
            with torch.no_grad():
                actions[t] = Categorical(logits=actor(torch.as_tensor(obs)), validate_args=False).sample()
            obs, rewards[t, :, 0], terminated, truncated, infos = envs.step(actions[t])
            came_to[t], ended = obs, terminated | truncated
            for env in np.flatnonzero(ended):
                came_to[t, env] = infos["final_obs"][env]
                episodes.append(rewards[t, env, 0] > 0)
            goes_on[t, :, 0] = ~ended
        if len(episodes) == 100 and np.mean(episodes) >= 0.5:
            return step, 1000 * (time.process_time() - begin) / step
        rewards[..., 1] = coef * bonus(came_to)

        inputs = torch.as_tensor(seen).flatten(0, 1)
        with torch.no_grad():
            values = critic(torch.cat([inputs, torch.as_tensor(obs)])).view(steps + 1, -1, 2).numpy()
            old = Categorical(logits=actor(inputs)).log_prob(torch.as_tensor(actions).flatten())
        advantages = np.zeros((steps + 1, envs.num_envs, 2), np.float32)
        for t in reversed(range(steps)):
            error = rewards[t] + GAMMAS * goes_on[t] * values[t + 1] - values[t]
            advantages[t] = error + GAMMAS * LAMBDA * goes_on[t] * advantages[t + 1]
        advantage = torch.as_tensor(advantages[:-1].sum(-1)).flatten()
        returns = torch.as_tensor(advantages[:-1] + values[:-1]).flatten(0, 1)
        taken = torch.as_tensor(actions).flatten()
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(inputs)).chunk(MINIBATCHES):
                some, normal = inputs[rows], advantage[rows]
                policy = Categorical(logits=actor(some), validate_args=False)
                normal = (normal - normal.mean()) / (normal.std() + 1e-8)
                ratio = (policy.log_prob(taken[rows]) - old[rows]).exp()
                gain = torch.minimum(normal * ratio, normal * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                miss = ((critic(some) - returns[rows]) ** 2).sum(1).mean() / 2
                optimizer.zero_grad()
                (0.5 * miss - gain - ENTROPY * policy.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(weights, 0.5)
                optimizer.step()
    return None, 1000 * (time.process_time() - begin) / total_steps


def report(args, found):
    solved, cost = found
    said = f"not solved in {args.total_steps} steps" if solved is None else f"solved after {solved} steps"
    print(f"{args.bonus}, seed {args.seed}: {said}, {cost:.3f} s of CPU time per 1000 steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bonus", choices=BONUSES, default="rndlib")
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-steps", type=int, default=200_000)
    args = parser.parse_args()
    report(args, train(DeepSea(128, args.size, args.seed), args.bonus, args.seed, args.total_steps))
