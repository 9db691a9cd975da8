"""A bonus in the loop of vectorised environments, of gymnasium and of stable-baselines3, neither of which it imports.

The intrinsic return is not cut at the ends of episodes (Burda et al., 2019), and in units of its size, so that a
coefficient means the same for every task and network.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from rndlib import checks
from rndlib.torch.distillation import ModuleBonus
from rndlib.torch.normalise import RunningNormaliser


class ReturnScaler(nn.Module):
    """Divides rewards by the running size of their discounted return, the root mean square over time and environments.

    Unlike the standard deviation, the root mean square is not near zero when all returns are alike, as at the start.
    Statistics and returns are buffers, saved in `state_dict`.

    Parameters
    ----------
    num_envs: Number of environments, >= 1.
    gamma: Discount of a step, in [0, 1).

    >>> import torch
    >>> from rndlib.torch.wrappers import ReturnScaler
    >>> scaler = ReturnScaler(2, gamma=0.5)
    >>> scaler(torch.tensor([2.0, 2.0])), scaler(torch.tensor([2.0, 2.0])).round(decimals=2)  # returns of 2, then 3
    (tensor([1., 1.], dtype=torch.float64), tensor([0.7800, 0.7800], dtype=torch.float64))
    """

    returns: Tensor

    def __init__(self, num_envs: int, gamma: float = 0.99):
        super().__init__()
        checks.require(
            0 <= checks.real("gamma", gamma) < 1, f"gamma = {gamma!r}: give a number in [0, 1), such as 0.99"
        )
        self.gamma, self.statistics = gamma, RunningNormaliser(())
        num_envs = checks.whole("num_envs", num_envs, at_least=1)
        self.register_buffer("returns", torch.zeros(num_envs, dtype=torch.float64))

    @torch.no_grad()
    def forward(self, rewards: Float[Tensor, " envs"]) -> Float[Tensor, " envs"]:
        """The scaled rewards of the next step of all environments, (num_envs,)."""
        self.returns.mul_(self.gamma).add_(rewards.to(self.returns))  # which may come from a bonus on an accelerator
        self.statistics.observe(self.returns)
        size = (self.statistics.var + self.statistics.mean**2).sqrt()
        return rewards.double() / size.clamp(min=torch.finfo(torch.float64).tiny)


class IntrinsicReward(nn.Module):
    """The scaled bonus of each step of vectorised environments, with the training of the bonus between steps.

    Its `state_dict` has that of the bonus and of the scaler; observations that wait for the next training are no part.

    Parameters
    ----------
    bonus: The bonus, of one observation of one environment, whose `gamma` is None: a return sums over time already.
    num_envs, gamma: As in `ReturnScaler`.
    every: Steps from one training to the next, >= 1.
    epochs, minibatches: Passes over these steps, and most optimiser steps in each, >= 1.

    >>> import numpy as np
    >>> from rndlib.torch import RNDBonus
    >>> from rndlib.torch.wrappers import IntrinsicReward
    >>> intrinsic = IntrinsicReward(RNDBonus(3), num_envs=2)
    >>> intrinsic(np.ones((2, 3))).shape
    (2,)
    """

    def __init__(
        self,
        bonus: ModuleBonus,
        num_envs: int,
        gamma: float = 0.99,
        every: int = 128,
        epochs: int = 4,
        minibatches: int = 4,
    ):
        super().__init__()
        if bonus.gamma is not None:
            twice = "its novelty includes all following states, which a return would count twice"
            raise ValueError(f"bonus has gamma = {bonus.gamma!r}: {twice}: give gamma=None")
        self.bonus, self.scaler = bonus, ReturnScaler(num_envs, gamma)
        self.every = checks.whole("every", every, at_least=1)
        self.epochs = checks.whole("epochs", epochs, at_least=1)
        self.minibatches = checks.whole("minibatches", minibatches, at_least=1)
        self._waiting: list[Tensor] = []

    def forward(self, next_obs: Any, reset: Any = None) -> Float[np.ndarray, " envs"]:
        """The rewards for coming to `next_obs` (num_envs, *obs_shape): statistics, then novelty, then training.

        reset: Truth values (num_envs,), which environments only started anew, for a reward of 0; None for none.
        """
        rows, _ = self.bonus._rows(next_obs)
        if self.bonus.normaliser is not None:
            self.bonus.observe(rows)
        novelty = self.bonus(rows)
        if reset is not None:
            novelty = novelty.masked_fill(torch.as_tensor(reset, device=novelty.device), 0.0)
        self._waiting.append(rows.clone())  # whose memory the environments may use again
        if len(self._waiting) == self.every:
            seen = torch.cat(self._waiting)
            self.bonus.update(seen, epochs=self.epochs, minibatch_size=-(-len(seen) // self.minibatches))
            self._waiting.clear()
        return self.scaler(novelty).numpy(force=True)


class _Wrapper:
    """What both wrappers share: `isinstance` and all other attributes are those of the environments."""

    def __init__(self, envs: Any, bonus: ModuleBonus, coef: float = 1.0, *, warm_up: int = 1000, **how: Any):
        checks.require(
            not hasattr(envs, "get_original_reward"),
            "envs has a VecNormalize, below which DQN and others read their rewards, without the bonus: put it "
            "outside, as VecNormalize(RNDVecEnvWrapper(...))",
        )
        single = f"envs = {envs!r} has no num_envs: give a vector environment, such as gym.make_vec(id, num_envs=4)"
        checks.require(hasattr(envs, "num_envs"), single)
        self.envs, self.coef = envs, checks.non_negative("coef", coef)
        self.warm_up = checks.whole("warm_up", warm_up, at_least=0)
        self.intrinsic = IntrinsicReward(bonus, envs.num_envs, **how)

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self.envs)

    def __getattr__(self, name: str) -> Any:
        if name == "envs":  # not there yet, as in a copy
            raise AttributeError(name)
        return getattr(self.envs, name)

    def reset(self, **options: Any) -> Any:
        """As that of the environments. The first time, a random agent observes before it."""
        bonus, self._ended = self.intrinsic.bonus, np.zeros(self.envs.num_envs, dtype=bool)
        if bonus.normaliser is not None and not bonus.normaliser.count:
            found = self.envs.reset(**options)
            bonus.observe(found[0] if isinstance(found, tuple) else found)  # gymnasium's is with infos
            for _ in range(self.warm_up):
                bonus.observe(self._at_random())
        return self.envs.reset(**options)


class RNDVectorWrapper(_Wrapper):
    """A vector environment of gymnasium whose rewards have `coef` times the scaled bonus of the next observations.

    At the end of an episode that is its last observation. A step that only resets, as in gymnasium's `NEXT_STEP` mode,
    has no bonus. `infos["intrinsic_reward"]` has the scaled bonus (num_envs,) by itself, for a second value head.

    Parameters
    ----------
    envs: `gymnasium.vector.VectorEnv`, or what has its methods.
    bonus: Bonus of a single observation.
    coef: Factor on the scaled bonus, >= 0. At 1, the intrinsic return has a size of about 1.
    warm_up: Steps of a random agent before the first reset, >= 0, for the statistics of a bonus that has seen nothing.
        Its actions are drawn from `envs.action_space`, which has a seed of its own.
    how: As in `IntrinsicReward`, whose `state_dict`, that of `intrinsic`, is all that training changes here.

    >>> import numpy as np, gymnasium as gym
    >>> from rndlib.torch import RNDBonus
    >>> from rndlib.torch.wrappers import RNDVectorWrapper
    >>> envs = RNDVectorWrapper(gym.make_vec("MountainCar-v0", 2), RNDBonus(2), warm_up=10)
    >>> _ = envs.reset(seed=0)
    >>> obs, rewards, terminated, truncated, infos = envs.step(np.array([0, 2]))
    >>> bool((rewards == -1 + infos["intrinsic_reward"]).all())
    True
    """

    @property
    def _mode(self) -> str:
        return getattr(self.envs.metadata.get("autoreset_mode"), "name", "NEXT_STEP")

    def _at_random(self) -> Any:
        obs, _, terminated, truncated, _ = self.envs.step(self.envs.action_space.sample())
        ended = np.logical_or(terminated, truncated)
        if self._mode == "DISABLED" and ended.any():
            self.envs.reset(options={"reset_mask": ended})
        return obs

    def step(self, actions: Any) -> Any:
        """As that of the environments, with the bonus in the rewards."""
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        ended, finals = np.logical_or(terminated, truncated), infos.get("final_obs", ())
        if "final_observation" in infos:
            raise ValueError("envs is of a gymnasium before 1.0, which resets in another way: take 1.2 or newer")
        lasts = {env: finals[env] for env in np.flatnonzero(ended).tolist()} if len(finals) else {}
        intrinsic = self.intrinsic(_with_rows(obs, lasts), self._ended if self._mode == "NEXT_STEP" else None)
        self._ended = ended
        return obs, rewards + self.coef * intrinsic, terminated, truncated, infos | {"intrinsic_reward": intrinsic}


class RNDVecEnvWrapper(_Wrapper):
    """The same for a `VecEnv` of stable-baselines3, with `"intrinsic_reward"` in the info of each environment.

    A `VecNormalize` goes outside of it, `VecNormalize(RNDVecEnvWrapper(envs, bonus))`: algorithms with a memory take
    the rewards below one.
    """

    def _at_random(self) -> Any:
        return self.envs.step(np.stack([self.envs.action_space.sample() for _ in range(self.envs.num_envs)]))[0]

    def step_wait(self) -> Any:
        """As that of the environments, with the bonus in the rewards."""
        obs, rewards, dones, infos = self.envs.step_wait()
        lasts = {env: infos[env]["terminal_observation"] for env in np.flatnonzero(dones).tolist()}
        intrinsic = self.intrinsic(_with_rows(obs, lasts))
        infos = [info | {"intrinsic_reward": reward} for info, reward in zip(infos, intrinsic, strict=True)]
        return obs, rewards + self.coef * intrinsic, dones, infos

    def step(self, actions: Any) -> Any:
        """`step_async`, then `step_wait`."""
        self.envs.step_async(actions)
        return self.step_wait()


def _with_rows(obs: Any, rows: Mapping[int, Any]) -> Any:
    """Observations in which those of some environments are others."""
    if not rows:
        return obs
    if isinstance(obs, Mapping):
        return {key: _with_rows(obs[key], {env: row[key] for env, row in rows.items()}) for key in obs}
    obs = deepcopy(obs)
    for env, row in rows.items():
        obs[env] = row
    return obs
