"""Results of many tasks, each in a process of its own with one thread, and kept in a file: a study that resumes.

Tasks whose file is there are not run again; delete a file to measure anew.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from made import ROOT, made

from rndlib.paper import output

Task = tuple[str, ...]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC", "PYTHON_CPU_COUNT")


def results(script: str, tasks: Sequence[Task], run: Callable[..., Any], wanted: Iterable[str]) -> list[Any]:
    """Run the tasks that are missing, and return the results that are there, each with the commit that made it.

    Parameters
    ----------
    script: the file that calls this; it is called again for each task, and then does not return from here.
    tasks: the words of each task. run: of a task, to a result in terms of JSON.
    wanted: only tasks with one of these words are run; none for all.
    """
    folder = ROOT / "results" / Path(script).stem
    if sys.argv[1:2] == ["--one"]:
        task = tuple(sys.argv[2:])
        content = json.dumps({"made by": made(), "result": run(*task)})
        output.write(place(folder, task), content.encode())
        sys.exit()
    folder.mkdir(parents=True, exist_ok=True)
    only = set(wanted)
    for task in tasks:
        if not place(folder, task).exists() and (not only or only & set(task)):
            print(*task, flush=True)
            alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
            if subprocess.run([sys.executable, script, "--one", *task], env=alone).returncode:
                print(*task, "failed", flush=True)
    places = (place(folder, task) for task in tasks)
    return [json.loads(path.read_text(encoding="utf-8")) for path in places if path.exists()]


def rows(script: str, tasks: Sequence[Task], run: Callable[..., Any], wanted: Iterable[str]) -> list[dict[str, Any]]:
    """`results` that are rows of a table, each with how it was made."""
    return [each["result"] | {"made by": each["made by"]} for each in results(script, tasks, run, wanted)]


def place(folder: Path, task: Task) -> Path:
    """The file of one task."""
    return folder / re.sub(r"\W+", "_", f"{' '.join(task)}.json")


def stored(table: Path) -> list[dict[str, Any]]:
    """The rows of a table that `store` has written, each with how it was made, where that is known."""
    content = json.loads(table.read_text(encoding="utf-8"))
    ways = content["made by"]
    return [row | {"made by": ways[row["made by"]]} if "made by" in row else row for row in content["rows"]]


def store(table: Path, rows: Iterable[dict[str, Any]], **more: Any) -> None:
    """Write a table with one row per line, for differences, each of which names how it was made by its number."""
    rows = list(rows)
    ways = list({json.dumps(row["made by"]): row["made by"] for row in rows if "made by" in row}.values())
    lines = [json.dumps(row | {"made by": ways.index(row["made by"])} if "made by" in row else row) for row in rows]
    head = json.dumps({**more, "made by": ways})
    content = f'{head[:-1]}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    output.write(table, content.encode())
