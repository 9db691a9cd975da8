"""The whole ledger many times: how often is each verdict wrong?

    python ci/repeats.py [calibration | other_seeds | settings | NOTEBOOK]...

A true claim that fails, and a negative control that passes, far or near, are the ways to be wrong. `calibration` runs
every notebook over 200 seeds at its small size, `other_seeds` over five at the stored size, and `settings` at the small
size with other data, activations, depths and scales of the weights (`other_settings.yaml`). A study resumes (`kept`):
delete `results/repeats` after a change of what decides its numbers. At the end its table is written to `notebooks/`.
With names of notebooks only these are run, and the tables keep the rows of all others.
"""

import sys
from collections.abc import Mapping
from typing import Any

import kept
import ledgers
import yaml
from made import ROOT

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS

KEPT = 5  # repeats of which the table keeps the numbers
TOGETHER = 25  # repeats of one process, in whose memory compiled programs stay
GRID = yaml.safe_load((ROOT / "ci" / "other_settings.yaml").read_text(encoding="utf-8"))
SETTINGS = {f"{name}={value}": setting for setting in GRID["settings"] for name, value in setting.items()}
TABLES = {
    "calibration": studies.CALIBRATION,
    "other_seeds": studies.OTHER_SEEDS,
    "settings": studies.OTHER_SETTINGS,
}

Numbers = list[dict[str, Any]]
Found = Mapping[tuple[str, Any], Numbers | None]
"""By notebook, and by number of the repeat or name of the setting; None where it stopped without a ledger."""


def tasks() -> list[kept.Task]:
    """Each as study, notebook, and the first repeat of some or a setting."""
    seeds = [("calibration", name, str(k)) for k in range(0, 200, TOGETHER) for name in ledgers.NOTEBOOKS]
    others = [("other_seeds", name, str(k)) for k in range(1, 6) for name in ledgers.NOTEBOOKS]
    varied = [name for name in ledgers.NOTEBOOKS if name[:2] <= "05"]
    return seeds + others + [("settings", name, setting) for setting in SETTINGS for name in varied]


def values(name: str, setting: str) -> dict[str, Any]:
    """The parameters of a notebook at a setting."""
    sizes = GRID["sizes"]
    return ledgers.small(name) | sizes.get(f"{name[:2]} {setting}", {}) | SETTINGS[setting]


def run(study: str, name: str, case: str) -> list[Any]:
    """What a task is, and its numbers by repeat or setting, as pairs."""
    if study == "settings":
        try:
            return [study, name, [[case, numbers(name, values(name, case))]]]
        except Exception:  # Some networks cannot be trained as asked; the table says so.
            return [study, name, [[case, None]]]
    small, first = study == "calibration", int(case)
    repeats = range(first, first + TOGETHER) if small else [first]
    return [study, name, [[k, numbers(name, ledgers.small(name) if small else {}, k)] for k in repeats]]


def numbers(name: str, values: dict[str, Any], repeat: int = 0) -> Numbers:
    """Those of one run."""
    found = ledgers.verdicts(name, values, repeat=repeat)
    return [{"id": v.id, "value": v.value, "control": v.control, "near": v.near} for v in found]


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


def main(words: list[str]) -> None:
    """Run what is missing of these studies and notebooks, all if none is named, then write the studies' tables."""
    names = [word for word in words if word in TABLES] or list(TABLES)
    notebooks = [word for word in words if word in ledgers.NOTEBOOKS] or ledgers.NOTEBOOKS
    chosen = [task for task in tasks() if task[1] in notebooks]
    every = [each["result"] for each in kept.results(__file__, chosen, run, names)]
    for study in names:
        found = {(name, case): of for which, name, pairs in every if which == study for case, of in pairs}
        rows = by_setting(found) if study == "settings" else counts(found)
        rows += [row for row in studies.read(ROOT / "notebooks", TABLES[study]) if row["notebook"] not in notebooks]
        rows.sort(key=lambda row: row["notebook"])
        profile = "paper" if study == "other_seeds" else "smoke"
        kept.store(ROOT / "notebooks" / TABLES[study], rows, profile=profile)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--one"] and not set(sys.argv[1:]) <= {*TABLES, *ledgers.NOTEBOOKS}:
        sys.exit(f"usage: python ci/repeats.py [{' | '.join(TABLES)} | NOTEBOOK]...")
    main(sys.argv[1:])
