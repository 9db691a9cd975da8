"""Long studies that go on where they were interrupted: tasks on every core, each result on record when it is there.

A record has one line per task. Lines of another version of what decides the result, and one that was cut short, do not
count.
"""

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

from rndlib import cores

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
    os.environ.update(cores.threads(1))  # A task is small: one process per core beats several threads per task.
    with (
        record.open("a", encoding="utf-8") as lines,
        tqdm(total=len(pending), unit=unit, disable=None) as progress,  # silent where there is no terminal
    ):
        for task, result in in_rounds(function, pending, len(cores.usable())):
            found[task] = result
            # A new line first, as the last one may have been cut short.
            lines.write(f"\n{json.dumps({'source': sources[task], 'task': task, 'result': result})}")
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


def in_rounds(function: Callable[..., Any], tasks: Sequence[Task], processes: int) -> Iterator[tuple[Task, Any]]:
    """Every task, the arguments of the function, with its result, as soon as it is done.

    One pool after the other, of PER_PROCESS tasks a process: a pool with `max_tasks_per_child` waits forever when a
    process ends, in CPython 3.11 to 3.14 (its issue 115634).
    """
    context, size = multiprocessing.get_context("spawn"), PER_PROCESS * processes
    for start in range(0, len(tasks), size):
        with ProcessPoolExecutor(processes, context, end_with_the_study) as pool:
            futures = {pool.submit(function, *task): task for task in tasks[start : start + size]}
            for future in as_completed(futures):
                yield futures[future], future.result()


def end_with_the_study() -> None:
    """In a process of the pool: end when the study is killed, instead of going through what is left of it."""
    study = multiprocessing.parent_process()

    def end() -> None:
        if study is not None:
            study.join()
            os._exit(1)

    threading.Thread(target=end, daemon=True).start()
