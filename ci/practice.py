"""Run every method of notebook 06 on every split, and store the scores in `notebooks/practice.json`.

    pip install --no-deps --target results/packages sklearn-contrib-bde==1.0.2 gpytorch==1.15.2
    PYTHONPATH=results/packages python ci/practice.py [METHOD...]

These two packages are needed here only: the first for its data files, as its own dependencies are many. Each fit has a
process of its own with one thread, and leaves one file in `results/practice`, written whole or not at all. Fits whose
file is there are not run again, so an interrupted run goes on where it stopped; delete a file to measure anew. At the
end the table is written, of all files. Where methods are named, only these are run.
"""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rndlib import cores, output
from rndlib.paper.practice import stored
from rndlib.running import provenance

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "practice"
PACKAGES = ("scikit-learn", "laplace-torch", "gpytorch", "sklearn-contrib-bde")


def place(data: str, method: str, seed: int) -> Path:
    """The file of one fit."""
    return RESULTS / re.sub(r"\W+", "_", f"{data} {method} {seed}.json")


def fit(data: str, method: str, seed: int) -> None:
    """Run one fit in this process, and write its file."""
    result = {"data": data, "method": method, "split": seed, **stored.run(data, method, seed), "made by": made_by()}
    output.write(place(data, method, seed), json.dumps(result).encode())


def made_by() -> dict[str, Any]:
    """The commit, versions and machine of a result."""
    versions = provenance.versions()
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    machine = provenance.machine(provenance.hardware())
    return {"commit": provenance.commit(provenance.checkout(ROOT)), "machine": machine, "versions": versions}


def main(names: list[str]) -> None:
    """Run what is missing, then write the table."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for task in stored.tasks():
        if not place(*task).exists() and (not names or task[1] in names):
            print(*task, flush=True)
            command = [sys.executable, __file__, "--fit", *map(str, task)]
            if subprocess.run(command, env={**os.environ, **cores.threads(1)}).returncode:
                print(*task, "failed", flush=True)
    rows = [json.loads(place(*task).read_text(encoding="utf-8")) for task in stored.tasks() if place(*task).exists()]
    made = list({json.dumps(row["made by"]): row["made by"] for row in rows}.values())
    lines = ",\n".join(json.dumps({**row, "made by": made.index(row["made by"])}) for row in rows)  # one fit per line
    output.write(stored.TABLE, f'{{"made by": {json.dumps(made)}, "rows": [\n{lines}\n]}}\n'.encode())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(sys.argv[1:])
