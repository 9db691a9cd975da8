"""Run every method of notebook 06 on every split, and store the scores in `notebooks/practice.json`.

    pip install --no-deps --target results/packages sklearn-contrib-bde==1.0.2 gpytorch==1.15.2
    PYTHONPATH=results/packages python ci/practice.py [METHOD...]

These two packages are needed here only: the first for its data files, as its own dependencies are many. Where methods
are named, only these are run (`kept`), and the rows of all others stay.
"""

import sys
from typing import Any

import kept

from rndlib.paper.practice import stored


def fit(data: str, method: str, seed: str) -> dict[str, Any]:
    """One fit, as its row."""
    return {"data": data, "method": method, "split": int(seed), **stored.run(data, method, int(seed))}


if __name__ == "__main__":
    tasks = [(data, method, str(seed)) for data, method, seed in stored.tasks()]
    found = kept.rows(__file__, tasks, fit, sys.argv[1:])
    rows = {(row["data"], row["method"], str(row["split"])): row for row in [*kept.stored(stored.TABLE), *found]}
    kept.store(stored.TABLE, [rows[task] for task in tasks if task in rows])
