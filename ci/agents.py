"""Run the agents of `examples/` with every bonus over ten seeds or more, and store when they solve their tasks.

    python ci/agents.py [TASK...]

A study resumes (`kept`), and what `docs/agents.json` has is not run again: delete a row there, and its file in
`results/agents`, to measure anew. At the end the table has all runs that are there, and `docs/how_to/explore.md` shows
it. Seed by seed, so that after any time all bonuses have had the same seeds.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import kept
import torch
from made import ROOT, said
from scipy import stats

sys.path.append(str(ROOT / "examples"))

import ppo_deepsea

TABLE = ROOT / "docs" / "agents.json"
TASKS = {
    "DeepSea 16": (120_000, 10),
    "DeepSea 20": (150_000, 20),
    "MiniGrid-DoorKey-5x5-v0": (80_000, 10),
    "MiniGrid-KeyCorridorS3R1-v0": (200_000, 10),
}
"""The environment steps after which a run is given up, and the number of seeds."""


def run(task: str, bonus: str, number: str) -> dict[str, Any]:
    """One run, as its row: when it was solved, or null, and the seconds of CPU time for 1000 steps."""
    torch.set_num_threads(1)
    seed = int(number)
    name, _, size = task.partition(" ")
    if name == "DeepSea":
        envs = ppo_deepsea.DeepSea(128, int(size), seed)
    else:
        from ppo_minigrid import minigrids  # which needs minigrid

        envs = minigrids(task)
    solved, cost = ppo_deepsea.train(envs, bonus, seed, TASKS[task][0])
    return {"task": task, "bonus": bonus, "seed": seed, "solved": solved, "cost": round(cost, 4)}


def missing(runs: Sequence[dict[str, Any]], tasks: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Task, bonus and seed of the runs that are not there yet."""
    there = {(row["task"], row["bonus"], row["seed"]) for row in runs}
    every = ((task, bonus, seed) for task in tasks for seed in range(TASKS[task][1]) for bonus in ppo_deepsea.BONUSES)
    return (one for one in every if one not in there)


def median(steps: Sequence[float]) -> tuple[float, float, float]:
    """The median with its interval at 95 % or more; a run that was given up counts as infinite.

    With fewer than six runs no pair of them covers it: from 0 to infinity.
    """
    low, high = stats.quantile_test(steps, p=0.5).confidence_interval() if len(steps) > 5 else (0.0, math.inf)
    return statistics.median(steps), low, high


def table(runs: Sequence[dict[str, Any]]) -> str:
    """The runs in Markdown, by task and bonus, in which order `store` has put them."""
    lines = ["| task | bonus | solved | rate, 95 % | median steps, 95 % | ms per step |", "|---|---|---|---|---|---|"]
    for (task, bonus), group in groupby(runs, itemgetter("task", "bonus")):
        rows = list(group)
        solved = sum(row["solved"] is not None for row in rows)
        low, high = stats.binomtest(solved, len(rows)).proportion_ci(method="wilson")
        steps = median([math.inf if row["solved"] is None else row["solved"] / 1000 for row in rows])
        middle, *ends = (f"{each:.0f}k" if each < math.inf else f"> {TASKS[task][0] // 1000}k" for each in steps)
        cost = statistics.median(row["cost"] for row in rows)
        cells = f"{solved} of {len(rows)}", f"{low:.2f} to {high:.2f}", f"{middle} ({' to '.join(ends)})", f"{cost:.3f}"
        lines.append(f"| {' | '.join((task, bonus, *cells))} |")
    return "\n".join(lines)


def settings() -> dict[str, Any]:
    """What all runs have in common."""
    names = ("ROLLOUT", "EPOCHS", "MINIBATCHES", "LEARNING_RATE", "CLIP", "ENTROPY", "LAMBDA")
    coefficients = {bonus: coef for bonus, (_, coef) in ppo_deepsea.BONUSES.items()}
    return {name: getattr(ppo_deepsea, name) for name in names} | {
        "COEF": coefficients,
        "given up after": {task: steps for task, (steps, _) in TASKS.items()},
    }


def store(runs: Sequence[dict[str, Any]]) -> None:
    """Write the runs to `TABLE`, one in a line, each of which names how it was made by its number."""
    order = list(dict.fromkeys([*ppo_deepsea.BONUSES, *(row["bonus"] for row in runs)]))
    rows = sorted(runs, key=lambda row: ([*TASKS].index(row["task"]), order.index(row["bonus"]), row["seed"]))
    kept.store(TABLE, rows, settings=settings())


if __name__ == "__main__":
    rows = kept.stored(TABLE)
    left = [(task, bonus, str(seed)) for task, bonus, seed in missing(rows, [*TASKS])]
    store([*rows, *kept.rows(__file__, left, run, sys.argv[1:])])
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    print(table(content["rows"]), "", said(*content["made by"]), sep="\n")
