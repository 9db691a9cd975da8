"""PPO on MiniGrid, with the agent, the bonuses, their coefficients and all settings of `ppo_deepsea.py`.

    python examples/ppo_minigrid.py --bonus rndlib --task MiniGrid-KeyCorridorS3R1-v0 --seed 1

The agent sees 7 x 7 cells before it, and is rewarded at the goal, behind a door whose key it has to find. Prints the
environment steps until half of the last 100 episodes end at the goal.
"""

import argparse

import gymnasium as gym
import minigrid  # noqa: F401 (which registers the tasks)
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformObservation
from minigrid.wrappers import ImgObsWrapper
from ppo_deepsea import BONUSES, report, train


def minigrids(task, num_envs=32):
    """Environments with what the agent sees of kinds, colours and states, which are numbers up to 10, in [0, 1]."""

    def make():
        env = ImgObsWrapper(gym.make(task))
        space = gym.spaces.Box(0, 1, env.observation_space.shape)
        return TransformObservation(env, lambda obs: (obs / 10).astype(np.float32), space)

    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bonus", choices=BONUSES, default="rndlib")
    parser.add_argument("--task", default="MiniGrid-KeyCorridorS3R1-v0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-steps", type=int, default=200_000)
    args = parser.parse_args()
    report(args, train(minigrids(args.task), args.bonus, args.seed, args.total_steps))
