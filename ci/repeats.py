"""The whole ledger over many seeds: how often is each verdict wrong?

    python ci/repeats.py calibration | other_seeds [NOTEBOOK...]

A true claim that fails, and a negative control that passes, far or near, are the ways to be wrong. `calibration`
repeats every notebook 200 times at its `smoke` profile, `other_seeds` five times at the stored size. Each repeat is
put on record in `results/STUDY.jsonl`, so an interrupted study goes on where it stopped; a change of the library, of
its versions, of the notebook or of its profile starts that notebook over. At the end the table is written to
`notebooks/STUDY.json`, which the report shows; where notebooks are named, the rows of all others stay.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ledgers
import resumed

from rndlib import output
from rndlib.paper.evidence.claims import NO_CLAIMS
from rndlib.running import notebooks, provenance, runs

ROOT = Path(__file__).resolve().parent.parent
KEPT = 5  # repeats of which the table keeps the numbers

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
    for study in (Study("calibration", "smoke", range(200)), Study("other_seeds", "paper", range(1, 6)))
}


def source(name: str, profile: str) -> str:
    """A digest of what decides a notebook's numbers: the library and its versions, the notebook, and the profile."""
    notebook = notebooks.find(name)
    return runs.key(notebook, notebook.settings(profile, []), provenance.code())


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
    versions = {name: source(name, study.profile) for name in names}
    tasks = {(name, study.profile, number): versions[name] for number in study.repeats for name in names}
    found = resumed.results(study.record, run, tasks, "repeat")
    path = ROOT / "notebooks" / f"{study.name}.json"
    by_number = {(name, number): verdicts for (name, _, number), verdicts in found.items()}
    content = json.dumps(beside(path, table(study, by_number), names), indent=1) + "\n"
    output.write(path, content.encode())


if __name__ == "__main__":
    with_claims = [name for name in notebooks.names() if name not in NO_CLAIMS]
    asked, *named = sys.argv[1:] or [""]
    if asked not in STUDIES or not set(named) <= set(with_claims):
        sys.exit(f"usage: python ci/repeats.py {' | '.join(STUDIES)} [NOTEBOOK...], of {', '.join(with_claims)}")
    main(STUDIES[asked], named or with_claims)
