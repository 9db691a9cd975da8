"""Studies that are interrupted: what is on record, what is computed again, and which processes are left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import resumed
import small

pytestmark = pytest.mark.tools


def test_the_record_keeps_whole_lines_of_this_source(tmp_path):
    record = tmp_path / "trial.jsonl"
    entry = {"source": "a", "task": ["n", 1], "result": [0.5]}
    lines = [entry, {**entry, "source": "b", "task": ["n", 2]}, {**entry, "task": ["n", 7]}]
    record.write_text("\n".join(map(json.dumps, lines)) + "\n" + json.dumps(entry)[:-9])
    sources = {("n", 1): "a", ("n", 2): "a"}
    assert resumed.recorded(record, sources) == {("n", 1): [0.5]}
    assert resumed.recorded(tmp_path / "other.jsonl", sources) == {}


def test_only_what_is_missing_on_record_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    record, asked = tmp_path / "results" / "trial.jsonl", []

    def here(function, tasks, processes):
        asked.append(list(tasks))
        return ((task, function(*task)) for task in tasks)

    monkeypatch.setattr(resumed, "in_rounds", here)
    sources = {(2, n): "a" for n in range(3)}
    assert resumed.results(record, pow, sources, "power") == {(2, n): 2**n for n in range(3)}
    with record.open("a") as lines:
        lines.write('\n{"source": "a", "ta')  # killed while it wrote
    more = {**sources, (2, 1): "b", (2, 5): "a"}
    assert resumed.results(record, pow, more, "power") == {(2, n): 2**n for n in (0, 1, 2, 5)}
    assert resumed.results(record, pow, more, "power") == {(2, n): 2**n for n in (0, 1, 2, 5)}
    assert asked == [list(sources), [(2, 1), (2, 5)], []]


def test_a_study_goes_on_when_processes_have_done_their_part(monkeypatch):
    monkeypatch.setattr(resumed, "PER_PROCESS", 1)
    found = dict(resumed.in_rounds(pow, [(2, n) for n in range(5)], processes=2))
    assert found == {(2, n): 2**n for n in range(5)}


POOL = """\
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
import resumed
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, resumed.end_with_the_study) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_a_study_that_is_killed_takes_its_processes_along(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    environment = {**os.environ, "PYTHONPATH": str(Path(resumed.__file__).parent)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as study:
        assert study.stdout is not None
        worker = int(study.stdout.readline())
        assert small.alive(worker)
        study.kill()
        small.until(lambda: not small.alive(worker))
