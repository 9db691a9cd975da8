"""The whole: what `make reproduce` took, as its results have it on record."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.section import Asked, Case, Section
from rndlib.running import reports, runs
from rndlib.running.costs import Row
from rndlib.running.parameters import UsageError
from rndlib.running.runs import Result

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
    "end. They are those of the run that made them, on the machine named beside them.",
    _cases,
)


def rows(results: list[Result]) -> list[Row]:
    """One row per notebook, and one for all."""
    each: list[Row] = [
        {
            "notebook": result.run.notebook,
            "seconds": result.run.seconds,
            "peak memory, MiB": result.run.peak_memory / 2**20,
            "on": f"{result.run.hardware['cpu']}, {result.run.hardware['cores']} cores",
            "started": result.run.started,
        }
        for result in results
    ]
    seconds = reports.passed(results)
    peak = max(result.run.peak_memory for result in results) / 2**20
    return [*each, {"notebook": f"all {len(results)}", "seconds": seconds, "peak memory, MiB": peak}]


def _results() -> list[Result]:
    try:
        return runs.read_all(RESULTS)
    except UsageError:  # none, or one that is not whole
        return []
