"""Measure every violated assumption, and store the table that notebook 08 and `rndlib.explain_setting` read.

    python ci/departures.py [NAME...]

Where names are given, only these are measured (`kept`), and the rows of all others stay.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kept
from made import ROOT

from rndlib.paper.practice.assumptions import SETTINGS
from rndlib.paper.practice.crowds import linearised_heads
from rndlib.paper.practice.settings import measure

TABLE = ROOT / "rndlib" / "advice.json"
SEED = 0


def run(assumption: str, strength: str) -> dict[str, Any]:
    """One setting, as its row."""
    ratios = measure(SETTINGS[assumption][strength](), SEED)
    return {"assumption": assumption, "strength": strength, "ratios": asdict(ratios)}


def main(names: list[str], table: Path = TABLE) -> None:
    """Measure what is missing, then write the table."""
    tasks = [(name, strength) for name, own in SETTINGS.items() for strength in own]
    found = kept.results(__file__, tasks, run, names)
    stored = json.loads(table.read_text(encoding="utf-8"))
    rows = {(row["assumption"], row["strength"]): _old(row, stored) for row in stored["rows"]}
    for each in found:
        rows[each["result"]["assumption"], each["result"]["strength"]] = {**each["result"], "made by": each["made by"]}
    every = [rows[task] for task in tasks if task in rows]
    kept.store(table, every, seed=SEED, linearised_heads=linearised_heads())


def _old(row: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    return row | {"made by": stored["made by"][row["made by"]]} if "made by" in row else row


if __name__ == "__main__":
    main(sys.argv[1:])
