"""Measure every departure, and store the table that notebook 08 and `rndlib.explain_setting` read.

    python ci/departures.py [DEPARTURE...]

Each setting is put on record in `results/departures.jsonl`, so an interrupted run goes on where it stopped; a change of
the library or its versions starts over. At the end the table is written; where departures are named, the rows of all
others stay.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import resumed

from rndlib import output
from rndlib.paper.practice import measured
from rndlib.paper.practice.crowds import linearised_heads, movement
from rndlib.paper.practice.departures import DEPARTURES
from rndlib.paper.practice.settings import measure
from rndlib.running import provenance

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "departures.jsonl"
TABLE = ROOT / "rndlib" / "paper" / "practice" / measured.TABLE
SEED = 0


def run(departure: str, strength: str) -> dict[str, Any]:
    """One setting, as its row."""
    ratios = measure(DEPARTURES[departure].settings[strength](), SEED)
    return {"departure": departure, "strength": strength, "ratios": asdict(ratios)}


def main(names: Sequence[str]) -> None:
    """Measure what is missing, then write the table."""
    source = provenance.code()
    tasks = {(name, strength): source for name in names for strength in DEPARTURES[name].settings}
    found = resumed.results(RECORD, run, tasks, "setting")
    stored = json.loads(TABLE.read_text(encoding="utf-8"))["rows"] if TABLE.exists() else []
    rows = {(row["departure"], row["strength"]): row for row in stored} | found
    order = [(name, strength) for name, departure in DEPARTURES.items() for strength in departure.settings]
    lines = ",\n".join(json.dumps(rows[key]) for key in order if key in rows)  # one row per line, for differences
    head = json.dumps({"seed": SEED, "linearised_heads": linearised_heads(), "movement": movement()})
    output.write(TABLE, f'{head[:-1]}, "rows": [\n{lines}\n]}}\n'.encode())


if __name__ == "__main__":
    if not set(sys.argv[1:]) <= set(DEPARTURES):
        sys.exit(f"usage: python ci/departures.py [{' | '.join(DEPARTURES)}]...")
    main(sys.argv[1:] or list(DEPARTURES))
