"""What the bench measured: the table that `ci/bench.py` stores beside the notebooks, and how the report shows it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rndlib.paper.evidence.tables import aligned
from rndlib.running import provenance

FILE = "bench.json"


Row = dict[str, Any]
"""Columns by name, units in the name: each a string, a number, an `Estimate`, or None for an empty cell."""


def read(path: Path) -> list[dict[str, Any]]:
    """The sections of a stored table; none where it has not been made."""
    return json.loads(path.read_text(encoding="utf-8"))["sections"] if path.is_file() else []


def report(place: Path) -> list[str]:
    """The stored table as parts of a Markdown report; none where it has not been made."""
    sections = read(place / FILE)
    if not sections:
        return []
    parts = [
        "# Costs",
        "Seconds and ratios are medians, in brackets what they spread over: quartiles for times, for ratios the least "
        "and the greatest of the repeats, which were made side by side.",
    ]
    return parts + [part for measured in sections for part in section(measured)]


def section(measured: dict[str, Any]) -> list[str]:
    """One section as parts of a Markdown report, with the machine, versions and commit that it was measured with."""
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    quick = ", at the small sizes of `--quick`" if measured["quick"] else ""
    commit = f", at commit {provenance.commit(measured['checkout'])}" if measured["checkout"] else ""
    made = f"Measured on {provenance.machine(measured['hardware'])}, with {versions}{quick}{commit}."
    missed = [f"*Missed.* {goal}" for goal in measured["missed"]]
    return [f"## {measured['title']}", measured["note"], table(measured["rows"]), *missed, made]


def table(rows: Sequence[Row]) -> str:
    """Rows as an aligned Markdown table, with the columns of all of them, in the order of the rows that have most."""
    head = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    return aligned(head, [[shown(row.get(name)) for name in head] for row in rows])


def shown(cell: Any) -> str:
    """One cell: three digits of a number, with its interval in brackets where it has one."""
    if cell is None:
        return ""
    if isinstance(cell, str | int):
        return str(cell)
    if isinstance(cell, float):
        return _digits(cell)
    value, low, high = (_digits(float(number)) for number in cell)
    return f"{value} ({low} to {high})"


def _digits(number: float) -> str:
    rounded = f"{number:.3g}"
    return f"{float(rounded):.0f}" if 1e3 <= abs(number) < 1e6 else rounded
