"""Which ratios of a quick bench have fallen behind stored ones. Machines differ in times, and far less in ratios."""

from collections.abc import Iterator, Sequence
from typing import Any

from rndlib.running.costs import Row

FALLEN = 2 / 3
"""Of the stored ratio: a ratio below that is named."""

RATIOS = {"times rndlib's": True, "share": True, "times the NTK-GP's": False}
"""The columns that are compared, and whether a greater number is better."""

SETTING = ("task", "kernel", "entries", "data", "method", "N", "T", "width", "weights", "networks", "bodies")
SETTING += ("heads on each", "dtype", "by")
"""The columns that say what a row is about."""


def fallen(rows: Sequence[Row], stored: Sequence[Row]) -> Iterator[str]:
    """One line for each ratio that has fallen by more than a third, or of which there is none to compare with."""
    before = {_setting(row): row for row in stored}
    for row in rows:
        if str(row.get("by", "")).startswith("rndlib"):  # Both sides of the ratio are ours.
            continue
        for column, greater in RATIOS.items():
            if row.get(column) is None:
                continue
            now, then = _value(row[column]), before.get(_setting(row), {}).get(column)
            if then is None:
                yield f"{_setting(row)}: {column} {now:.3g}, and none is stored"
            elif (now / _value(then) if greater else _value(then) / now) < FALLEN:
                yield f"{_setting(row)}: {column} {now:.3g}, stored {_value(then):.3g}"


def _setting(row: Row) -> str:
    return ", ".join(f"{name} {row[name]}" for name in SETTING if row.get(name) is not None)


def _value(cell: Any) -> float:
    """A number, or the middle of an interval."""
    return float(cell if isinstance(cell, int | float) else cell[0])
