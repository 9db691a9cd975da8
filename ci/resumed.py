"""Long studies that go on where they were interrupted: tasks on every core, each result on record when it is there.

A record has one line per task. Lines of another version of what decides the result, and one that was cut short, do not
count.
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

PER_PROCESS = 25
"""Tasks that one process does; programs that JAX compiled stay in its memory."""

Task = tuple[Any, ...]


def results(record: Path, function: Callable[..., Any], sources: Mapping[Task, str], unit: str) -> dict[Task, Any]:
    """`function(*task)` for every task, in terms of JSON; only what is missing on record is computed.

    sources : for each task a digest of what decides its result.
    """
    from tqdm import tqdm  # The tests of this file also run where it is not installed.

    found = recorded(record, sources)
    pending = [task for task in sources if task not in found]
    record.parent.mkdir(exist_ok=True)
    # A task is small: one process per core beats several threads per task.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC", "PYTHON_CPU_COUNT"), "1"))
    processes = multiprocessing.cpu_count()
    size = PER_PROCESS * processes
    with record.open("a", encoding="utf-8") as lines, tqdm(total=len(pending), unit=unit, disable=None) as progress:
        # One pool after the other: one with `max_tasks_per_child` waits forever when a process ends (CPython's 115634).
        for start in range(0, len(pending), size):
            with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
                futures = {pool.submit(function, *task): task for task in pending[start : start + size]}
                for future in as_completed(futures):
                    task = futures[future]
                    found[task] = future.result()
                    # A new line first, as the last one may have been cut short.
                    lines.write(f"\n{json.dumps({'source': sources[task], 'task': task, 'result': found[task]})}")
                    lines.flush()
                    progress.update()
    return found


def recorded(record: Path, sources: Mapping[Task, str]) -> dict[Task, Any]:
    """The results on record for these tasks and versions."""
    found: dict[Task, Any] = {}
    for line in record.read_text(encoding="utf-8").splitlines() if record.exists() else ():
        with suppress(ValueError):  # One that was cut short is none.
            entry = json.loads(line)
            task = tuple(entry["task"])
            if entry["source"] == sources.get(task):
                found[task] = entry["result"]
    return found
