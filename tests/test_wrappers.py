"""The wrappers of vector environments: which observations are rewarded, in which order, and in which units."""

import copy
import doctest
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

torch = pytest.importorskip("torch")

from rndlib.torch import RNDBonus, observations, wrappers  # noqa: E402
from rndlib.torch.wrappers import IntrinsicReward, ReturnScaler, RNDVecEnvWrapper, RNDVectorWrapper  # noqa: E402

pytestmark = pytest.mark.torch

ENVS = 3


class Counter(gym.Env):
    """Counts its steps, of which an episode has two more than the number of its environment, and gives the last a 1."""

    def __init__(self, number: int):
        self.observation_space, self.action_space = gym.spaces.Box(0, 9, (2,)), gym.spaces.Discrete(2)
        self.number, self.length = number, 2 + number

    def _obs(self) -> np.ndarray:
        return np.array([self.number, self.count], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action: int) -> Any:
        self.count += 1
        ended = self.count == self.length
        return self._obs(), float(ended), ended, False, {}


class VecEnv:
    """What stable-baselines3's has, so far as it is needed."""

    num_envs, action_space = ENVS, gym.spaces.Discrete(2)

    def __init__(self):
        self.envs = vector(AutoresetMode.SAME_STEP)

    def reset(self) -> np.ndarray:
        return self.envs.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        obs, rewards, dones, _, infos = self.envs.step(self.actions)
        finals = infos.get("final_obs", [None] * ENVS)
        return obs, rewards, dones, [{} if last is None else {"terminal_observation": last} for last in finals]

    def step(self, actions: np.ndarray) -> Any:
        self.step_async(actions)
        return self.step_wait()


def vector(mode: AutoresetMode) -> Any:
    return SyncVectorEnv([lambda number=n: Counter(number) for n in range(ENVS)], autoreset_mode=mode)


def bonus(**options: Any) -> RNDBonus:
    return RNDBonus(2, 4, **options)


ENDS = {"final": [[0, 2], [1, 3], [2, 4]], "first": [[0, 0], [1, 0], [2, 0]]}


@pytest.mark.parametrize("kind", ["SAME_STEP", "NEXT_STEP", "VecEnv"])
def test_the_bonus_is_that_of_the_observation_that_a_step_comes_to(kind):
    """At the end of an episode its last, not the first of the next; and none for a step that only resets."""
    options: dict[str, Any] = {"coef": 0.5, "every": 99, "gamma": 0.0}
    plain = bonus(normalise=False)
    if kind == "VecEnv":
        envs: Any = RNDVecEnvWrapper(VecEnv(), copy.deepcopy(plain), **options)
    else:
        envs = RNDVectorWrapper(vector(AutoresetMode[kind]), copy.deepcopy(plain), **options)
    envs.reset()
    scaler, count, length = ReturnScaler(ENVS, 0.0), np.zeros(ENVS, int), 2 + np.arange(ENVS)
    for _ in range(9):
        obs, rewards, *_, infos = envs.step(np.zeros(ENVS, int))
        resets = (count == length) & (kind == "NEXT_STEP")
        count = np.where(count == length, 0 if kind == "NEXT_STEP" else 1, count + 1)
        came_to = np.stack([np.arange(ENVS), count], 1).astype(np.float32)
        expected = scaler(torch.tensor(plain(came_to) * ~resets)).numpy()
        np.testing.assert_allclose(rewards, (count == length) + 0.5 * expected, rtol=1e-5)
        seen = [info["intrinsic_reward"] for info in infos] if kind == "VecEnv" else infos["intrinsic_reward"]
        np.testing.assert_allclose(seen, expected, rtol=1e-5)
        assert np.array_equal(obs[:, 1], count if kind == "NEXT_STEP" else count * (count < length))
    assert np.unique(plain(np.array(ENDS["final"] + ENDS["first"], np.float32))).size == 6


def test_it_is_the_environments_for_all_else():
    envs = RNDVectorWrapper(vector(AutoresetMode.SAME_STEP), bonus())
    assert isinstance(envs, gym.vector.VectorEnv)
    assert envs.single_observation_space.shape == (2,)
    assert gym.wrappers.vector.RecordEpisodeStatistics(envs).num_envs == ENVS
    with pytest.raises(AttributeError, match="nothing"):
        envs.nothing  # noqa: B018
    assert copy.deepcopy(envs).coef == 1


@pytest.mark.parametrize("kind", ["gymnasium", "VecEnv"])
def test_a_random_agent_observes_first_and_once(kind):
    vec = kind == "VecEnv"
    envs: Any = (RNDVecEnvWrapper if vec else RNDVectorWrapper)(
        VecEnv() if vec else vector(AutoresetMode.SAME_STEP), bonus(), warm_up=10, every=99
    )
    first = envs.reset() if vec else envs.reset(seed=1)[0]
    normaliser = envs.intrinsic.bonus.normaliser
    assert np.array_equal(first, ENDS["first"])
    assert normaliser.count == ENVS * 11
    envs.step(np.zeros(ENVS, int))
    envs.reset()
    assert normaliser.count == ENVS * 12
    assert not envs.intrinsic.bonus.optimizer.state


def test_a_random_agent_starts_anew_where_environments_do_not():
    envs = RNDVectorWrapper(vector(AutoresetMode.DISABLED), bonus(), warm_up=20, every=99)
    envs.reset(seed=0)
    for _ in range(9):
        *_, terminated, truncated, infos = envs.step(np.zeros(ENVS, int))
        assert (infos["intrinsic_reward"] > 0).all()
        if (ended := terminated | truncated).any():
            envs.reset(options={"reset_mask": ended})


def test_a_reset_has_no_reward_and_no_part_in_the_size_of_returns():
    """So that a coefficient means the same whether environments reset in the same step or in one of its own."""
    steps, mask = np.random.default_rng(0).normal(size=(4, ENVS, 2)), np.array([True, False, False])
    intrinsic, plain = (IntrinsicReward(bonus(normalise=False), ENVS, gamma=0.0, every=99) for _ in range(2))
    for obs in steps:
        found = intrinsic(obs, mask)
        expected = plain.scaler(torch.tensor(plain.bonus(obs) * ~mask)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found[0] == 0


def test_environments_whose_rewards_would_be_lost_or_misread_are_refused():
    class VecNormalize(VecEnv):
        def get_original_reward(self) -> Any:
            return None

    with pytest.raises(ValueError, match=r"put it outside, as VecNormalize\(RNDVecEnvWrapper"):
        RNDVecEnvWrapper(VecNormalize(), bonus())

    with pytest.raises(ValueError, match="has no num_envs: give a vector environment, such as gym"):
        RNDVectorWrapper(gym.make("CartPole-v1"), bonus())

    class Old(SyncVectorEnv):
        """Of gymnasium 0.29."""

        def step(self, actions: Any) -> Any:
            *found, infos = super().step(actions)
            finals = {"final_observation": infos.pop("final_obs")} if "final_obs" in infos else {}
            return *found, infos | finals

    makers = [lambda number=n: Counter(number) for n in range(ENVS)]
    envs = RNDVectorWrapper(Old(makers, autoreset_mode=AutoresetMode.SAME_STEP), bonus(), warm_up=0)
    envs.intrinsic.bonus.observe(envs.reset()[0])
    envs.step(np.zeros(ENVS, int))
    with pytest.raises(ValueError, match=r"gymnasium before 1\.0"):  # at the end of the first episode
        envs.step(np.zeros(ENVS, int))


def test_statistics_then_novelty_then_training_every_so_often():
    steps = np.random.default_rng(0).normal(size=(6, ENVS, 2)).astype(np.float32)
    intrinsic, alone, scaler = IntrinsicReward(bonus(), ENVS, every=3), bonus(), ReturnScaler(ENVS)
    for number, obs in enumerate(steps):
        mine = obs.copy()
        found = intrinsic(mine)
        mine[:] = 0  # as environments do that reuse their memory
        alone.observe(obs)
        assert np.array_equal(found, scaler(torch.tensor(alone(obs))).numpy())
        if number % 3 == 2:
            alone.update(steps[number - 2 : number + 1], epochs=4, minibatch_size=3)  # four of nine rows
    assert (alone.share(steps) != 1).all()
    again = IntrinsicReward(bonus(seed=9), ENVS, every=3)
    again.load_state_dict(intrinsic.state_dict())
    assert np.array_equal(again(steps[0]), intrinsic(steps[0]))


def test_dictionaries_are_joined_by_their_entries():
    spaces = {"a": (1,), "b": (1,)}
    named, plain = IntrinsicReward(RNDBonus(spaces, 4), ENVS, every=2), IntrinsicReward(bonus(), ENVS, every=2)
    for obs in np.random.default_rng(0).normal(size=(4, ENVS, 2)):
        assert np.array_equal(named({"a": obs[:, :1], "b": obs[:, 1:]}), plain(obs))


def test_returns_are_scaled_over_time_and_environments():
    """Of 2000 steps; an end of an episode is no end of a return. Over environments alone, all would be of size 1."""
    rewards = np.random.default_rng(0).exponential(size=(2000, ENVS)) * np.linspace(1, 5, ENVS)
    scaler = ReturnScaler(ENVS, gamma=0.9)
    scaled = np.stack([scaler(torch.tensor(row)).numpy() for row in rewards])
    returns, now = [], np.zeros(ENVS)
    for row in rewards:
        now = 0.9 * now + row
        returns.append(now)
    size = np.sqrt(np.mean(np.square(returns)))
    np.testing.assert_allclose(scaled[-1], rewards[-1] / size, rtol=1e-9)
    other = ReturnScaler(ENVS, gamma=0.9)
    other.load_state_dict(scaler.state_dict())
    assert torch.equal(other(torch.ones(ENVS)), scaler(torch.ones(ENVS)))
    assert not torch.equal(ReturnScaler(ENVS, gamma=0.9)(torch.ones(ENVS)), scaler(torch.ones(ENVS)))
    assert (ReturnScaler(ENVS)(torch.zeros(ENVS)) == 0).all()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": "much"}, "gamma = 'much': give a finite number"),
        ({"gamma": 1.0}, r"gamma = 1.0: give a number in \[0, 1\)"),
        ({"every": 0}, "every = 0"),
        ({"minibatches": 0}, "minibatches = 0"),
        ({"coef": -1}, "coef = -1"),
        ({"warm_up": -1}, "warm_up = -1"),
    ],
)
def test_arguments_out_of_range(options, says):
    with pytest.raises(ValueError, match=says):
        RNDVecEnvWrapper(VecEnv(), bonus(), **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_bonus_on_a_gpu_rewards_environments_on_the_cpu():
    steps = np.random.default_rng(0).normal(size=(4, ENVS, 2))
    here, there = IntrinsicReward(bonus(), ENVS, every=2), IntrinsicReward(bonus().to("cuda"), ENVS, every=2)
    np.testing.assert_allclose([there(obs) for obs in steps], [here(obs) for obs in steps], rtol=1e-2)


def test_a_bonus_of_values_is_no_reward():
    with pytest.raises(ValueError, match=r"bonus has gamma = 0\.9: its novelty includes all following states"):
        IntrinsicReward(bonus(gamma=0.9), ENVS)


@pytest.mark.parametrize("module", [observations, wrappers])
@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
def test_examples_run(module):
    assert doctest.testmod(module).attempted > 4
    assert not doctest.testmod(module).failed
