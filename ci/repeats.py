"""The whole ledger over many seeds: how often is each verdict wrong?

    python ci/repeats.py calibration | other_seeds [NOTEBOOK...]

A true claim that fails, and a negative control that passes, far or near, are the ways to be wrong. `calibration`
repeats every notebook 200 times at its `calibrate` profile, `other_seeds` five times at the stored size. Each repeat is
appended to `results/STUDY.jsonl` as soon as it is done, so an interrupted study goes on where it stopped; a change of
the library, of its versions, of the notebook or of its profile starts that notebook over. At the end the table is
written to `notebooks/STUDY.json`, which the report shows; where notebooks are named, the rows of all others stay.
"""

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ledgers

from rndlib import cores, output
from rndlib.evidence.claims import NO_CLAIMS
from rndlib.running import notebooks, provenance, runs

ROOT = Path(__file__).resolve().parent.parent
KEPT = 5  # repeats of which the table keeps the numbers
PER_PROCESS = 25  # repeats that one process does; programs that JAX compiled stay in its memory

Task = tuple[Any, ...]
Verdicts = list[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """A name, the profile at which every notebook is run, and the repeats (0 has the stored seeds)."""

    name: str
    profile: str
    repeats: range

    @property
    def record(self) -> Path:
        return ROOT / "results" / f"{self.name}.jsonl"


STUDIES = {
    study.name: study
    for study in (Study("calibration", "calibrate", range(200)), Study("other_seeds", "paper", range(1, 6)))
}


def source(name: str, profile: str) -> str:
    """A digest of what decides a notebook's numbers: the library and its versions, the notebook, and the profile."""
    notebook = notebooks.find(name)
    return runs.key(notebook, notebook.settings(profile, []), provenance.code())


def recorded(study: Study, versions: Mapping[str, str]) -> dict[tuple[str, int], Verdicts]:
    """The repeats on record for these versions of the notebooks."""
    found: dict[tuple[str, int], Verdicts] = {}
    for line in study.record.read_text(encoding="utf-8").splitlines() if study.record.exists() else ():
        with suppress(ValueError):  # One that was cut short is none.
            entry = json.loads(line)
            key = entry["notebook"], entry["repeat"]
            if entry["source"] == versions.get(key[0]) and key[1] in study.repeats:
                found[key] = entry["verdicts"]
    return found


def run(name: str, profile: str, number: int) -> Verdicts:
    """One repeat, as the rows that are put on record."""
    return [
        {
            "id": v.id,
            "passed": v.passed,
            "rejected": v.control_rejected,
            "near_rejected": v.near_rejected,
            "value": v.value,
            "control": v.control_value,
            "near": v.near_value,
        }
        for v in ledgers.repeat(name, profile, number)
    ]


def table(study: Study, found: Mapping[tuple[str, int], Verdicts]) -> dict[str, Any]:
    """What is stored: for each claim how often it failed and its controls passed, in which repeats, and numbers."""
    rows: dict[str, dict[str, Any]] = {}
    for (name, number), verdicts in sorted(found.items()):
        for v in verdicts:
            counts = dict.fromkeys(["repeats", "failed", "missed", "near_missed"], 0)
            new = {"id": v["id"], "notebook": name, **counts, "wrong": [], "first": []}
            row = rows.setdefault(v["id"], new)
            row["repeats"] += 1
            row["failed"] += not v["passed"]
            row["missed"] += not v["rejected"]
            row["near_missed"] += not v["near_rejected"]
            if not (v["passed"] and v["rejected"] and v["near_rejected"]):
                row["wrong"].append(number)
            if number in study.repeats[:KEPT]:
                row["first"].append({"repeat": number, **{key: v[key] for key in ("value", "control", "near")}})
    return {"profile": study.profile, "rows": list(rows.values())}


def beside(path: Path, new: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The new table, with the rows that the stored one has of other notebooks."""
    stored = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    kept = [row for row in stored if row["notebook"] not in names]
    return {**new, "rows": sorted(kept + new["rows"], key=lambda row: row["notebook"])}


def main(study: Study, names: Sequence[str]) -> None:
    """Run what is missing of these notebooks, then write the table."""
    from tqdm import tqdm  # The tests of this file also run where it is not installed.

    versions = {name: source(name, study.profile) for name in names}
    found = recorded(study, versions)
    pending = [(name, number) for number in study.repeats for name in versions if (name, number) not in found]
    study.record.parent.mkdir(exist_ok=True)
    os.environ.update(cores.threads(1))  # A repeat is small: one process per core beats several threads per repeat.
    with (
        study.record.open("a", encoding="utf-8") as record,
        tqdm(total=len(pending), unit="repeat", disable=None) as progress,  # silent where there is no terminal
    ):
        tasks = [(name, study.profile, number) for name, number in pending]
        for (name, _, number), verdicts in in_rounds(run, tasks, len(cores.usable())):
            found[name, number] = verdicts
            entry = {"source": versions[name], "notebook": name, "repeat": number, "verdicts": verdicts}
            record.write(f"\n{json.dumps(entry)}")  # A new line first, as the last one may have been cut short.
            record.flush()
            progress.update()
    path = ROOT / "notebooks" / f"{study.name}.json"
    content = json.dumps(beside(path, table(study, found), names), indent=1) + "\n"
    output.write(path, content.encode())


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


if __name__ == "__main__":
    with_claims = [name for name in notebooks.names() if name not in NO_CLAIMS]
    asked, *named = sys.argv[1:] or [""]
    if asked not in STUDIES or not set(named) <= set(with_claims):
        sys.exit(f"usage: python ci/repeats.py {' | '.join(STUDIES)} [NOTEBOOK...], of {', '.join(with_claims)}")
    main(STUDIES[asked], named or with_claims)
