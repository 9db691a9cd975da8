"""The agents of `examples/` learn with every bonus, and the stored study of them is what its page shows."""

import json
import math
import re

import agents
import kept
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ppo_deepsea  # noqa: E402
from ppo_deepsea import BONUSES, DeepSea, train  # noqa: E402

pytestmark = pytest.mark.torch

STORED = json.loads(agents.TABLE.read_text(encoding="utf-8"))


def dive(env: DeepSea, right: np.ndarray) -> tuple[np.ndarray, dict]:
    """The return of an episode of each environment, and the last infos, if `right` says who goes right in each row."""
    env.reset()
    total, infos = np.zeros(env.num_envs), {}
    for row in range(env.size):
        actions = np.where(right, env.right[row, env.column], 1 - env.right[row, env.column])
        obs, rewards, ended, truncated, infos = env.step(actions)
        total += rewards
        assert (obs.sum(1) == 1).all()  # after the end, the first observation of the next episode
        assert (ended == (row == env.size - 1)).all()
        assert not truncated.any()
    return total, infos


def test_only_who_always_goes_right_finds_the_treasure():
    env = DeepSea(2, 5, seed=0)
    returns, infos = dive(env, np.array([True, False]))
    assert returns == pytest.approx([1 - 0.01, 0])
    assert not infos["final_obs"].any()
    assert 0 < env.right.mean() < 1  # which action that is differs


@pytest.mark.parametrize("kind", BONUSES)
def test_an_agent_with_each_bonus_solves_a_small_sea(kind, monkeypatch):
    monkeypatch.setattr(ppo_deepsea, "ROLLOUT", 256)
    solved, cost = train(DeepSea(16, 4, seed=0), kind, seed=0, total_steps=12_800)
    assert solved is not None
    assert solved % 256 == 0
    assert cost > 0


@pytest.mark.parametrize("kind", set(BONUSES) - {"none"})
def test_where_the_agent_has_been_often_the_rewards_are_lower(kind):
    """After rollouts in one state, a rollout in which some environments come to another one."""
    bonus, state = BONUSES[kind][0]((2,), 8, 0), np.eye(2, dtype=np.float32)
    for _ in range(20):
        bonus(np.tile(state[0], (4, 8, 1)))
    rewards = bonus(state[np.tile([0, 0, 0, 0, 0, 0, 0, 1], (4, 1))])
    assert rewards.shape == (4, 8)
    assert rewards[:, 7].min() > 2 * rewards[:, :7].max()


def test_an_agent_in_minigrid(monkeypatch):
    pytest.importorskip("minigrid")
    from ppo_minigrid import minigrids

    monkeypatch.setattr(ppo_deepsea, "ROLLOUT", 128)
    envs = minigrids("MiniGrid-Empty-5x5-v0", num_envs=4)
    assert envs.single_observation_space.shape == (7, 7, 3)
    assert train(envs, "rndlib", seed=0, total_steps=512)[0] is None  # which is too few for a hundred episodes


def test_the_page_shows_the_stored_study():
    page = (agents.ROOT / "docs" / "how_to" / "explore.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^(\| task \|.*?)\n\n", page, flags=re.MULTILINE | re.DOTALL)
    assert shown == agents.table(STORED["rows"])
    assert agents.said(*STORED["made by"]) in page.replace("\n", " ")
    assert STORED["settings"] == json.loads(json.dumps(agents.settings()))


def test_what_is_stored_is_not_run_again():
    rows = [{"task": "DeepSea 16", "bonus": bonus, "seed": 0} for bonus in BONUSES]
    left = [*agents.missing(rows[:-1], ["DeepSea 16"])]
    assert left[0] == ("DeepSea 16", rows[-1]["bonus"], 0)
    assert len(left) == agents.TASKS["DeepSea 16"][1] * len(BONUSES) - 3


def test_what_is_stored_is_stored_again_as_it_is(tmp_path, monkeypatch):
    rows, text = kept.stored(agents.TABLE), agents.TABLE.read_bytes()
    monkeypatch.setattr(agents, "TABLE", tmp_path / "agents.json")
    agents.store(rows)
    assert agents.TABLE.read_bytes() == text


def test_the_median_of_runs_and_its_interval():
    """The second and ninth of ten cover the median at 97.9 %; no pair of fewer than six does at 95 %."""
    assert agents.median([3, 1, 2, 10, 5, 4, 6, 7, 9, 8]) == (5.5, 2, 9)
    assert agents.median([1, 2, 3, 4, math.inf]) == (3, 0, math.inf)
    assert agents.median([1.0, math.inf]) == (math.inf, 0, math.inf)
