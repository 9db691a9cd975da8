"""How the verdicts depend on seeds and settings: the tables stored beside the notebooks, as parts of a report.

`ci/repeats.py` writes them. `calibration.json` counts, over hundreds of seeds at a small size, how often a true
claim failed and how often each of its wrong variants passed; `other_seeds.json` has the verdicts of other seeds at
the stored size; `other_settings.json` those with other data, activations, depths and scales of the weights, at the
small size.
"""

import json
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import rounded
from rndlib.paper.evidence.tables import aligned

CALIBRATION = "calibration.json"
OTHER_SEEDS = "other_seeds.json"
OTHER_SETTINGS = "other_settings.json"


def read(place: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a stored table, one per claim; none if it has not been made."""
    path = place / name
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []


def report(place: Path) -> list[str]:
    """The tables as parts of a Markdown report, without those that have not been made."""
    parts = []
    if rows := read(place, OTHER_SEEDS):
        seeds = len(rows[0]["first"])
        parts += ["# Other seeds", f"The same verdicts with {seeds} other sets of seeds, at the stored size."]
        body = []
        for row in rows:
            numbers = [[rounded(run[key]) for run in row["first"]] for key in ("value", "control", "near")]
            verdicts = ["FAIL" if _wrong(row["id"], run) else "PASS" for run in row["first"]]
            body.append([row["id"], _tolerance(row), *map(" ".join, [*numbers, verdicts])])
        head = ["id", "tolerance", "values", "wrong variant", "sensitivity check", "verdicts"]
        parts.append(aligned(head, body))
    if rows := read(place, OTHER_SETTINGS):
        parts += ["# Other settings", other_settings(rows)]
    if rows := read(place, CALIBRATION):
        repeats = min(row["repeats"] for row in rows)
        wrong = {number for row in rows for number in row["wrong"] if number < repeats}
        body = []
        for row in rows:
            shares = [_share(row[count], row["repeats"]) for count in ("failed", "missed", "near_missed")]
            body.append([row["id"], str(row["repeats"]), *shares])
        parts += [
            "# Size and power",
            "How often each true claim failed and its wrong variant and sensitivity check passed, over independent "
            "repeats at a small size, with the upper 95 % confidence limit of that share (Clopper and Pearson).",
            aligned(["id", "repeats", "claim failed", "wrong variant passed", "sensitivity check passed"], body),
            f"A claim failed or a control passed anywhere in the ledger: {_share(len(wrong), repeats)} of the repeats.",
        ]
    return parts


def other_settings(rows: list[dict[str, Any]]) -> str:
    """The values with other settings, at the small size, and which of them do not hold."""

    def shown(claim: str, numbers: dict[str, float] | None) -> str:
        wrong = _wrong(claim, numbers)
        if numbers is None:
            return wrong
        return f"{rounded(numbers['value'])}{f' ({wrong})' if wrong else ''}"

    settings = list(rows[0]["settings"])
    body = [[row["id"], _tolerance(row), *(shown(row["id"], row["settings"][s]) for s in settings)] for row in rows]
    return aligned(["id", "tolerance", *settings], body)


def misses(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The claims that do not hold at a setting: those that fail or have no verdict, or one of whose controls passes."""
    found = ((row["id"], setting, numbers) for row in rows for setting, numbers in row["settings"].items())
    return {(claim, setting) for claim, setting, numbers in found if _wrong(claim, numbers)}


def _tolerance(row: dict[str, Any]) -> str:
    return rounded(CLAIMS[row["id"]].tolerance)


def _wrong(claim: str, numbers: dict[str, float] | None) -> str:
    tolerance = CLAIMS[claim].tolerance
    if numbers is None:
        return "no verdict"
    if not numbers["value"] <= tolerance:
        return "FAIL"
    passed = [kind for kind, key in (("far", "control"), ("near", "near")) if numbers[key] <= tolerance]
    return ", ".join(f"{kind} passes" for kind in passed)


def _share(count: int, repeats: int) -> str:
    top = binomtest(count, repeats, alternative="less").proportion_ci(0.95).high
    return f"{100 * count / repeats:.1f} % (at most {100 * top:.1f} %)"
