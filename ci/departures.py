"""Measure every violated assumption, and store the table that notebook 08 and `rndlib.explain_setting` read.

    python ci/departures.py [NAME...]

Where names are given, only these are measured (`kept`), and the rows of all others stay.
"""

import sys
from typing import Any

import kept
from made import ROOT

from rndlib.paper.practice.assumptions import SETTINGS, linearised_heads
from rndlib.paper.practice.settings import measure

TABLE = ROOT / "rndlib" / "advice.json"
SEED = 0


def run(assumption: str, strength: str) -> dict[str, Any]:
    """One setting, as its row."""
    ratios = measure(SETTINGS[assumption][strength](), SEED)
    return {"assumption": assumption, "strength": strength, "ratios": ratios}


if __name__ == "__main__":
    tasks = [(name, strength) for name, own in SETTINGS.items() for strength in own]
    found = kept.rows(__file__, tasks, run, sys.argv[1:])
    rows = {(row["assumption"], row["strength"]): row for row in [*kept.stored(TABLE), *found]}
    every = [rows[task] for task in tasks if task in rows]
    kept.store(TABLE, every, seed=SEED, linearised_heads=linearised_heads())
