"""The whole: what `make reproduce` took, as its results have it on record."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.section import Asked, Case, Section
from rndlib.running import reports, runs
from rndlib.running.costs import Row
from rndlib.running.parameters import UsageError
from rndlib.running.runs import Result

GOAL, GOALS = 180, {"07_any_network": 60, "08_departures": 60}
"""The project's, in seconds at the paper's size: of all notebooks, and of the newest ones."""

RESULTS = Path(__file__).resolve().parents[2] / "results"


def _cases(asked: Asked) -> Iterator[Case]:
    profile = "smoke" if asked.quick else "paper"
    results = [result for result in _results() if result.run.profile == profile]
    if results:
        yield partial(rows, results)


SECTION = Section(
    "whole",
    "The whole: every notebook",
    "Seconds and peak memory of the notebooks under `results/`, at the paper's size, compilation included; each ran in "
    "a process of its own, two at a time on half of the cores each. All of them took from the first start to the last "
    "end. They are those of the run that made them, on the machine named beside them. *goal* is the project's, in "
    "seconds.",
    _cases,
    (
        "Three minutes for all, and one for notebook 07. All nine take 4 min 50 s, 562 seconds of one core. Some 155 "
        "of them are compilation: most networks have a width, a number of heads or a number of points of their own, "
        "and so a program of their own. Some 45 are the start of nine kernels and their imports. The rest is training, "
        "in numbers that the margins of the verdicts ask for. Notebook 07 has 31 seconds of compilation, as its "
        "networks are compiled at five widths and their infinite kernels four times.",
        "One minute for all at the small size, by `make reproduce PROFILE=smoke`: it takes 3 minutes. At these sizes "
        "every verdict was repeated over 200 seeds, and was wrong twice at most. Smaller ones took 2 min 14 s, and "
        "five verdicts missed their margins: what binds is less the sizes than nine kernels, their imports and "
        "compilation.",
        "Ten minutes for `make test`: 24 min 37 s on two cores, 2,670 seconds of CPU. Some 560 of them run all "
        "notebooks again at the paper's size, and 1,000 are 2,000 tests of numbers, most of which compile programs of "
        "their own or repeat a statistic often enough to see it fail. The planted mistakes and the repeats of the "
        "calibration have the sizes that their power asks for. No part checks what another one does.",
    ),
)


def rows(results: list[Result]) -> list[Row]:
    """One row per notebook, and one for all."""
    goals, goal = (GOALS, GOAL) if results[0].run.profile == "paper" else ({}, None)
    each: list[Row] = [
        {
            "notebook": result.run.notebook,
            "seconds": result.run.seconds,
            "goal": goals.get(result.run.notebook),
            "peak memory, MiB": result.run.peak_memory / 2**20,
            "on": f"{result.run.hardware['cpu']}, {result.run.hardware['cores']} cores",
            "started": result.run.started,
        }
        for result in results
    ]
    seconds = reports.passed(results)
    peak = max(result.run.peak_memory for result in results) / 2**20
    return [*each, {"notebook": f"all {len(results)}", "seconds": seconds, "goal": goal, "peak memory, MiB": peak}]


def _results() -> list[Result]:
    try:
        return runs.read_all(RESULTS)
    except UsageError:  # none, or one that is not whole
        return []
