"""What the bench measured: the table stored beside the notebooks, and how the report shows it.

`ci/bench.py` writes it. Every section of it has the machine, versions and commit that it was measured with.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rndlib.evidence.tables import aligned

FILE = "bench.json"


class Spread(NamedTuple):
    """A number with the ends of what it spreads over; in JSON a list of the three."""

    median: float
    low: float
    high: float


Row = dict[str, Any]
"""Columns by name, units in the name: each a string, a number, a `Spread`, or None for an empty cell."""


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
    for found in sections:
        parts += section(found)
    return parts


def section(found: dict[str, Any]) -> list[str]:
    """One section as parts of a Markdown report."""
    machine = found["hardware"]
    gpus = "".join(f", {gpu}" for gpu in machine["gpu"])
    on = f"Measured on {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB{gpus}"
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    quick = ", at the small sizes of `--quick`" if found["quick"] else ""
    checkout = found["checkout"]
    commit = "" if checkout is None else f", at commit {checkout['commit'][:12]}" + " changed" * checkout["changed"]
    return [f"## {found['title']}", f"{found['note']}", table(found["rows"]), f"{on}, with {versions}{quick}{commit}."]


def table(rows: Sequence[Row]) -> str:
    """Rows as an aligned Markdown table, with the columns of all of them, in the order of the rows that have most."""
    head = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    return aligned(head, [[shown(row.get(name)) for name in head] for row in rows])


def shown(cell: Any) -> str:
    """One cell: three digits of a number, with those of its spread in brackets where it has one."""
    if cell is None:
        return ""
    if isinstance(cell, str | int):
        return str(cell)
    if isinstance(cell, float):
        return _digits(cell)
    median, low, high = (_digits(float(number)) for number in cell)
    return f"{median} ({low} to {high})"


def _digits(number: float) -> str:
    rounded = f"{number:.3g}"
    return f"{float(rounded):.0f}" if 1e3 <= abs(number) < 1e6 else rounded
