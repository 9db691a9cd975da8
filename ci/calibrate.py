"""Size and power of the ledger: every notebook repeated over many seeds, and how often each verdict came out wrong.

    python ci/calibrate.py [REPEATS]

A true claim that fails, and a negative control that passes, are the two ways to be wrong. Each repeat is appended to
`results/calibration.jsonl` as soon as it is done, so an interrupted run goes on where it stopped; a change of the
library, the notebooks or their profiles starts over. At the end the table is written to `notebooks/calibration.json`.
"""

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import ledgers
from tqdm import tqdm

from rndlib import notebooks

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "calibration.jsonl"
TABLE = ROOT / "notebooks" / "calibration.json"
PROFILE = "calibrate"
REPEATS = 200
KEPT = 3  # repeats whose numbers are stored, for the test that runs them again


def source() -> str:
    """A digest of everything that decides a number: library, notebooks (without outputs), profiles."""
    files = [*(ROOT / "rndlib").rglob("*.py"), *(ROOT / "notebooks").glob("*.py"), ROOT / "notebooks" / "profiles.toml"]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def recorded(version: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The repeats on record for this version of the source; a line that was cut short is none."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry["source"] == version:
            found[entry["notebook"], entry["repeat"]] = entry["verdicts"]
    return found


def run(name: str, number: int) -> list[dict[str, Any]]:
    """One repeat, as the rows that are put on record."""
    return [
        {"id": v.id, "passed": v.passed, "rejected": v.control_rejected, "value": v.value, "control": v.control_value}
        for v in ledgers.repeat(name, PROFILE, number)
    ]


def table(found: dict[tuple[str, int], list[dict[str, Any]]], repeats: int) -> dict[str, Any]:
    """What is stored: for each claim, how often it failed, how often its control passed, and the first numbers."""
    rows: dict[str, dict[str, Any]] = {}
    for (name, number), verdicts in sorted(found.items()):
        for v in verdicts:
            row = rows.setdefault(
                v["id"], {"id": v["id"], "notebook": name, "repeats": 0, "failed": 0, "missed": 0, "first": []}
            )
            row["repeats"] += 1
            row["failed"] += not v["passed"]
            row["missed"] += not v["rejected"]
            if number < KEPT:
                row["first"].append([v["value"], v["control"]])
    return {"repeats": repeats, "profile": PROFILE, "rows": list(rows.values())}


def _one_core(cores: Any) -> None:
    # A repeat is small: one process a core beats several threads a repeat.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores.get()})


def _pending(found: dict[tuple[str, int], Any], repeats: int) -> Iterator[tuple[str, int]]:
    return ((name, n) for n in range(repeats) for name in notebooks.names() if (name, n) not in found)


def main(repeats: int) -> None:
    """Run what is missing, then write the table."""
    version = source()
    found = {key: v for key, v in recorded(version).items() if key[1] < repeats}
    pending = list(_pending(found, repeats))
    RECORD.parent.mkdir(exist_ok=True)
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    for core in usable:
        cores.put(core)
    with (
        ProcessPoolExecutor(len(usable), context, _one_core, (cores,)) as pool,
        RECORD.open("a", encoding="utf-8") as record,
        tqdm(total=len(pending), unit="repeat", disable=None) as progress,  # silent where there is no terminal
    ):
        futures = {pool.submit(run, *key): key for key in pending}
        for future in as_completed(futures):
            name, number = key = futures[future]
            found[key] = future.result()
            entry = {"source": version, "notebook": name, "repeat": number, "verdicts": found[key]}
            record.write("\n" * (record.tell() > 0) + json.dumps(entry))
            record.flush()
            progress.update()
    partial = TABLE.with_suffix(".partial")
    partial.write_text(json.dumps(table(found, repeats), indent=1) + "\n", encoding="utf-8")
    partial.replace(TABLE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
