"""The whole ledger many times: how often is each verdict wrong?

    python ci/repeats.py calibration | other_seeds | settings ...

A true claim that fails, and a negative control that passes, far or near, are the ways to be wrong. `calibration` runs
every notebook over 200 seeds at its small size, `other_seeds` over five at the stored size, and `settings` at the small
size with other data, activations, depths and scales of the weights (`other_settings.yaml`). Each run is put on record
in `results/STUDY.jsonl`, so an interrupted study goes on where it stopped; a change of the library, of the notebook or
of its sizes starts that notebook over. At the end the table is written to `notebooks/`.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ledgers
import resumed
import yaml

from rndlib.paper import output, sources
from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS

ROOT = Path(__file__).resolve().parent.parent
KEPT = 5  # repeats of which the table keeps the numbers
GRID = yaml.safe_load((ROOT / "ci" / "other_settings.yaml").read_text(encoding="utf-8"))
SETTINGS = {f"{name}={value}": setting for setting in GRID["settings"] for name, value in setting.items()}

Numbers = list[dict[str, Any]]
Found = Mapping[tuple[str, Any], Numbers | None]
"""By notebook, and by number of the repeat or name of the setting; None where it stopped without a ledger."""


def values(name: str, setting: str) -> dict[str, Any]:
    """The parameters of a notebook at a setting."""
    sizes = GRID["sizes"]
    return ledgers.small(name) | sizes.get(name[:2], {}) | sizes.get(f"{name[:2]} {setting}", {}) | SETTINGS[setting]


def run(study: str, name: str, case: Any) -> Numbers | None:
    """The numbers of one notebook, at a repeat or at a setting."""
    try:
        if study == "settings":
            found = ledgers.verdicts(name, values(name, case))
        else:
            found = ledgers.verdicts(name, ledgers.small(name) if study == "calibration" else {}, repeat=case)
    except Exception:
        if study == "settings":  # Some networks cannot be trained as asked; the table says so.
            return None
        raise
    return [{"id": v.id, "value": v.value, "control": v.control_value, "near": v.near_value} for v in found]


def counts(found: Found) -> list[dict[str, Any]]:
    """For each claim how often it failed and its controls passed, in which repeats, and the numbers of the first."""
    rows: dict[str, dict[str, Any]] = {}
    for (name, repeat), numbers in sorted(found.items()):
        for of in numbers or []:
            tolerance = CLAIMS[of["id"]].tolerance
            wrong = [not of["value"] <= tolerance, of["control"] <= tolerance, of["near"] <= tolerance]
            none = {"repeats": 0, "failed": 0, "missed": 0, "near_missed": 0, "wrong": [], "first": []}
            row = rows.setdefault(of["id"], {"id": of["id"], "notebook": name} | none)
            for key, by in zip(("repeats", "failed", "missed", "near_missed"), (1, *wrong), strict=True):
                row[key] += by
            row["wrong"] += [repeat] * any(wrong)
            if len(row["first"]) < KEPT:
                row["first"].append({"repeat": repeat, **{key: of[key] for key in ("value", "control", "near")}})
    return list(rows.values())


def by_setting(found: Found) -> list[dict[str, Any]]:
    """For each claim its numbers at each setting; None where the notebook gave no verdict."""
    rows: dict[str, dict[str, Any]] = {}
    for (name, setting), numbers in found.items():
        reached = {of["id"]: {key: of[key] for key in ("value", "control", "near")} for of in numbers or []}
        for claim in CLAIMS.values():
            if claim.notebook == name:
                row = rows.setdefault(claim.id, {"id": claim.id, "notebook": name, "settings": {}})
                row["settings"][setting] = reached.get(claim.id)
    return list(rows.values())


STUDIES: dict[str, tuple[str, list[Any], Callable[[Found], list[dict[str, Any]]]]] = {
    "calibration": (studies.CALIBRATION, list(range(200)), counts),
    "other_seeds": (studies.OTHER_SEEDS, list(range(1, 6)), counts),
    "settings": (studies.OTHER_SETTINGS, list(SETTINGS), by_setting),
}
"""Each study's table, cases, and rows."""


def main(study: str) -> None:
    """Run what is missing of a study, then write its table."""
    file, cases, rows = STUDIES[study]
    names = [name for name in ledgers.NOTEBOOKS if study != "settings" or name[:2] <= "05"]
    digests = {name: sources.digest(name) for name in names}
    tasks = {}
    for case in cases:
        for name in names:
            sizes = values(name, case) if study == "settings" else ledgers.small(name)
            tasks[study, name, case] = hashlib.sha256(f"{digests[name]} {sizes}".encode()).hexdigest()
    found = resumed.results(ROOT / "results" / f"{study}.jsonl", run, tasks, "run")
    table = {
        "profile": "paper" if study == "other_seeds" else "smoke",
        "rows": rows({task[1:]: of for task, of in found.items()}),
    }
    output.write(ROOT / "notebooks" / file, json.dumps(table, indent=1).encode() + b"\n")


if __name__ == "__main__":
    if not sys.argv[1:] or not set(sys.argv[1:]) <= set(STUDIES):
        sys.exit(f"usage: python ci/repeats.py {' | '.join(STUDIES)} ...")
    for asked in sys.argv[1:]:
        main(asked)
