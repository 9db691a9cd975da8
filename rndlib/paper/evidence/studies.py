"""How the verdicts depend on seeds and settings: the tables stored beside the notebooks, as parts of a report.

`ci/repeats.py` writes them. `calibration.json` counts, over hundreds of seeds at a small size, how often a true
claim failed and how often each of its wrong variants passed; `other_seeds.json` has the verdicts of other seeds at
the stored size; `other_settings.json` those with other data, activations, depths and scales of the weights, at the
small size.
"""

import json
from pathlib import Path
from typing import Any

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
        head = ["id", "tolerance", "values", "wrong variant", "sensitivity check", "verdicts"]
        parts.append(aligned(head, map(_seeds, rows)))
    if rows := read(place, OTHER_SETTINGS):
        parts += ["# Other settings", other_settings(rows)]
    if rows := read(place, CALIBRATION):
        parts += [
            "# Size and power",
            "How often each true claim failed and its wrong variant and sensitivity check passed, over independent "
            "repeats at a small size, with the upper 95 % confidence limit of that share (Clopper and Pearson).",
            aligned(
                ["id", "repeats", "claim failed", "wrong variant passed", "sensitivity check passed"],
                map(_calibration, rows),
            ),
            _over_the_ledger(rows),
        ]
    return parts


def _seeds(row: dict[str, Any]) -> list[str]:
    tolerance = CLAIMS[row["id"]].tolerance
    numbers = ([rounded(run[key]) for run in row["first"]] for key in ("value", "control", "near"))
    columns = *numbers, ("FAIL" if _wrong(row["id"], run) else "PASS" for run in row["first"])
    return [row["id"], rounded(tolerance), *map(" ".join, columns)]


def other_settings(rows: list[dict[str, Any]]) -> str:
    """The values with other settings, at the small size, and which of them do not hold."""
    settings = list(rows[0]["settings"])
    body = [
        [row["id"], rounded(CLAIMS[row["id"]].tolerance), *(_setting(row["id"], row["settings"][s]) for s in settings)]
        for row in rows
    ]
    return aligned(["id", "tolerance", *settings], body)


def misses(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The claims that do not hold at a setting: those that fail or have no verdict, or one of whose controls passes."""
    found = ((row["id"], setting, numbers) for row in rows for setting, numbers in row["settings"].items())
    return {(claim, setting) for claim, setting, numbers in found if _wrong(claim, numbers)}


def _wrong(claim: str, numbers: dict[str, float] | None) -> str:
    tolerance = CLAIMS[claim].tolerance
    if numbers is None:
        return "no verdict"
    if not numbers["value"] <= tolerance:
        return "FAIL"
    return ", ".join(
        f"{kind} passes" for kind, key in (("far", "control"), ("near", "near")) if numbers[key] <= tolerance
    )


def _setting(claim: str, numbers: dict[str, float] | None) -> str:
    wrong = _wrong(claim, numbers)
    if numbers is None:
        return wrong
    return f"{rounded(numbers['value'])}{f' ({wrong})' if wrong else ''}"


def _over_the_ledger(rows: list[dict[str, Any]]) -> str:
    """In how many repeats of all notebooks together anything was wrong."""
    repeats = min(row["repeats"] for row in rows)
    wrong = {number for row in rows for number in row["wrong"] if number < repeats}
    return f"A claim failed or a control passed anywhere in the ledger: {_share(len(wrong), repeats)} of the repeats."


def _share(count: int, repeats: int) -> str:
    from scipy.stats import binomtest  # Here, because it takes a second, and every command imports this module.

    top = binomtest(count, repeats, alternative="less").proportion_ci(0.95).high
    return f"{100 * count / repeats:.1f} % (at most {100 * top:.1f} %)"


def _calibration(row: dict[str, Any]) -> list[str]:
    shares = (_share(row[count], row["repeats"]) for count in ("failed", "missed", "near_missed"))
    return [row["id"], str(row["repeats"]), *shares]
